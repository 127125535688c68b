"""What a question to the viewer can go wrong by."""

from trainer.errors import TrainerError


class QuestionError(TrainerError, ValueError):
    """A question has a parameter that it cannot have, or asks for what cannot be read."""


class NotThereError(TrainerError, LookupError):
    """A question asks for something that does not exist."""
