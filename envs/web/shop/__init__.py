"""A WebShop-like shop: a generated catalogue with search, two front ends on the same state, an expert, exact forks."""
