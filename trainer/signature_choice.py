"""Signatures by the words of the command line."""

from trainer.named_settings import named_settings
from tree_rollout.signatures import Signature, Window, make_signature

COMPARED = ("env", "observation", "normalised", "actions")
"""What a run's own signature is compared with by default: all that need no settings and cost as little as reading the trace."""


def chosen_signature(text: str) -> Signature:
    """The signature that a word names; a fault is a `UsageError` or the table's own error."""
    return make_signature(*named_settings(text, "--signature"))


def looking_back(signature: Signature, history: int) -> Signature:
    """The signature, with the `history` states before it if that is not 0."""
    return Window(signature, history) if history else signature
