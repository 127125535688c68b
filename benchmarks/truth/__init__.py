"""The truth benchmark: decision processes in which an estimator's advantages can be held against the exact ones."""
