"""The sections of the training benchmark, one module each; `benchmarks.train` runs them."""
