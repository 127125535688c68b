"""Environments of the web; those whose state lives in a page share one headless browser in each process."""
