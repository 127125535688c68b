"""Forks for environments that cannot copy themselves: by processes, by verified replay, and the choice between them."""
