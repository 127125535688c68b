"""The parts of the benchmark of environments; `benchmarks.envs` runs them."""
