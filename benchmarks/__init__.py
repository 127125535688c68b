"""Benchmarks of the project: `python -m benchmarks.NAME [--quick] [--out FILE.json]`."""
