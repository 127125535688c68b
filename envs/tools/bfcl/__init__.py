"""The multi-turn tasks of the Berkeley Function-Calling Leaderboard, with the data, the APIs and the checks of its own package."""
