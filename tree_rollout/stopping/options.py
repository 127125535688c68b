"""An option that is one of a few words; what counts and numbers may be, `tree_rollout.branching.options` checks."""

from tree_rollout.errors import StoppingError


def check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise where `value` is none of the words."""
    if value not in choices:
        raise StoppingError(f"{name} is {value!r}; give {' or '.join(choices)}")
