"""The real ALFWorld engine: TextWorld over a planner's state, games generated from what the `alfworld` package ships, exact forks."""
