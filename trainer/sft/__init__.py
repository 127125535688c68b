"""Supervised fine-tuning as a command of its own: the imitation of the demonstrator, or of the best recorded rollouts."""
