"""Environments whose state lives in a web page; all of one process share one headless browser."""
