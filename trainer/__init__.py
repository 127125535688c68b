"""Training: losses, packed batches, learner, runs, checkpoints, metrics, configuration, the command line. Importing it costs nothing."""

__version__ = "0.1.0"
