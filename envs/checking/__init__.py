"""Proof of what an environment declares: `check_env`, its report, and one function for each check."""
