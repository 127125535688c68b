"""An ALFWorld-like household: generated rooms, six task types, an expert, exact forks."""
