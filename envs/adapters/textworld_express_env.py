"""TextWorldExpress: its games run in a Java process of their own, and are forked by executing the actions again, each answer compared."""

from typing import Any

from textworld_express import TextWorldExpressEnv as Engine

from envs.arguments import one_of, whole_number
from envs.errors import AbilityError, EnvironmentArgumentError, NoEpisodeError, nearest
from envs.text_env import TextEnv

GAMES = ("arithmetic", "coin", "cookingworld", "mapreader", "peckingorder", "simonsays", "sorting", "twc")
_FOLDS = {"train": "train", "valid": "dev", "test": "test"}


class TextWorldExpressEnv(TextEnv):
    """One game. The reward of a step is what the score rises by; a game that is solved has scored 1.

    Args:
        split: `train`, `valid` or `test`, the package's own folds of games.
        max_turns: actions per episode.
        game: one of the package's games.
        params: the game's parameters as the package writes them, for example `numLocations=5,includeDoors=1`; "" for its defaults.
    """

    step_deadline_s = 30.0
    reset_deadline_s = 120.0

    def __init__(self, split: str = "train", max_turns: int = 50, game: str = "coin", params: str = "") -> None:
        super().__init__()
        one_of("split", split, _FOLDS)
        if game not in GAMES:
            raise EnvironmentArgumentError(f"TextWorldExpress has no game {game!r}; {nearest(str(game), GAMES)}")
        whole_number("max_turns", max_turns, 1)
        self.split, self.max_turns, self.game = split, max_turns, game
        self._engine = Engine(envStepLimit=2**30)
        try:
            self._engine.load(game, params)
        except ValueError as error:
            self.close()
            raise EnvironmentArgumentError(f"params is {params!r}, which {game} does not take ({' '.join(str(error).split())})") from error
        self._seeds: list[int] = sorted(
            {"train": self._engine.getValidSeedsTrain, "valid": self._engine.getValidSeedsDev, "test": self._engine.getValidSeedsTest}[
                split
            ]()
        )
        self._info: dict[str, Any] | None = None
        self._solutions: dict[int, list[str]] = {}
        """By the package's seed: in some games it finds another one each time, and one game has one solution here."""
        self._gold: list[str] | None = []
        self._turns = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        chosen = self._seeds[int(self.np_random.integers(len(self._seeds)))]
        known = chosen in self._solutions
        observation, self._info = self._engine.reset(seed=chosen, gameFold=_FOLDS[self.split], generateGoldPath=not known)
        if not known:
            self._solutions[chosen] = list(self._engine.getGoldActionSequence())
        self._gold, self._turns = self._solutions[chosen], 0
        return f"{self._engine.getTaskDescription().strip()}\n\n{observation.strip()}", {
            "valid": True,
            "success": False,
            "task_type": self.game,
        }

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """What the game answers; an action that is not among the valid ones is passed on all the same, as in the package."""
        info = self._now()
        valid = action in info["validActions"]
        observation, reward, _, info = self._engine.step(action)
        self._info = info
        self._turns += 1
        # The expert is the package's own solution, which begins at the start of the game.
        self._gold = self._gold[1:] if self._gold and action == self._gold[0] else None
        success, ended = bool(info["tasksuccess"]), bool(info["tasksuccess"] or info["taskfailure"])
        told = {"valid": valid, "success": success, "task_type": self.game}
        return observation.strip(), float(reward), ended, not ended and self._turns >= self.max_turns, told

    def admissible_actions(self) -> list[str]:
        return sorted(set(self._now()["validActions"]))

    def expert_action(self) -> str:
        """The next action of the package's solution; `AbilityError` after another action. In cookingworld it does not always win."""
        self._now()
        if not self._gold:
            raise AbilityError("the solution of the game goes on from its own actions alone; reset, and follow it from the start")
        return self._gold[0]

    def close(self) -> None:
        self._engine.close()

    def _now(self) -> dict[str, Any]:
        if self._info is None:
            raise NoEpisodeError("the game has no episode yet; call reset(seed=...) first")
        return self._info
