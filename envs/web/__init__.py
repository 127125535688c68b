"""Environments of the web: pages that are searched, read and clicked."""
