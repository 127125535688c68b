"""Environments of other packages as text environments that can be forked."""
