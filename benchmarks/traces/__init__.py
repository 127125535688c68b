"""The parts of `benchmarks.store`."""
