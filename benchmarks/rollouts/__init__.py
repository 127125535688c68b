"""The parts of the rollout benchmark, one module for each figure; `benchmarks.rollout` runs them."""
