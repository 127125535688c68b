"""A signature on the command line is one word: its name, then its settings after commas, as in `normalised,mask=numbers`."""

from trainer.errors import UsageError
from trainer.yaml_file import parse_yaml
from tree_rollout.signatures import Signature, Window, make_signature

COMPARED = ("env", "observation", "normalised", "actions")
"""What a run's own signature is compared with by default: all that need no settings and cost as little as reading the trace."""


def chosen_signature(text: str) -> Signature:
    """The signature that a word names; a fault is a `UsageError` or the table's own error."""
    name, *pairs = text.split(",")
    settings = {}
    for pair in pairs:
        setting, equals, value = pair.partition("=")
        if not equals or not setting.strip():
            raise UsageError(f"{pair!r} in --signature {text} is no setting; write NAME,setting=value, for example normalised,mask=numbers")
        settings[setting.strip()] = parse_yaml(value, f"the value {value!r} of {setting.strip()} in --signature {text}")
    return make_signature(name.strip(), settings)


def looking_back(signature: Signature, history: int) -> Signature:
    """The signature, with the `history` states before it if that is not 0."""
    return Window(signature, history) if history else signature
