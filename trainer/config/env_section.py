"""Settings of the environment."""

from pydantic import Field, JsonValue

from trainer.config.section import Section


class EnvConfig(Section):
    """The environment, and which of its tasks serve training and evaluation."""

    id: str = "branchwise/Household-v0"
    """Registered environment; `branchwise envs` lists them."""
    kwargs: dict[str, JsonValue] = {}
    """Further arguments of the environment, by name."""
    train_split: str = "train"
    """Split whose tasks the policy learns on."""
    eval_split: str = "valid_unseen"
    """Split whose tasks the policy is measured on."""
    max_turns: int = Field(default=30, ge=1, le=10_000)
    """Turns after which an episode is cut."""

    def arguments(self, split: str) -> dict[str, JsonValue]:
        """What the environment is made with for the tasks of a split."""
        return {"split": split, "max_turns": self.max_turns, **self.kwargs}
