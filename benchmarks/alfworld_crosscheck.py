"""The household and ALFWorld's real engine, command by command: the same games, the same play, and every difference is counted.

Each game is played by ALFWorld's own expert, by chance, and with commands that make no sense where they stand. After every command the
offered commands, the answers, what then holds, and success are compared. With the household's `rules="alfworld"` nothing may differ; how
its own rules differ is counted by kind.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.report import Row, arguments, report
from envs.alfworld.expert import Expert
from envs.alfworld.generator import generate
from envs.alfworld.history import Turn
from envs.alfworld.twin import facts_of_the_engine, facts_of_the_household, household_task
from envs.alfworld.world import World
from envs.household.alfworld_rules import AlfworldHousehold
from envs.household.world import Household, State
from envs.task_type import SPLITS

GAMES, QUICK_GAMES = 100, 12
# Each game is two episodes.
_PAIRED = ("take {} from {}", "move {} to {}", "heat {} with {}", "clean {} with {}", "cool {} with {}", "slice {} with {}")
_FORMS = (*_PAIRED, "open {}", "use {}", "examine {}", "go to {}", "put {} in {}")
EXPERT_TURNS, RANDOM_TURNS = 50, 25
QUICK_S = 40.0
"""Seconds after which a quick run ends."""


@dataclass(slots=True)
class Tally:
    """What was compared, and what differed."""

    episodes: int = 0
    solved: int = 0
    """Episodes that ended in success, in the engine."""
    turns: int = 0
    commands: int = 0
    """Offered commands that were compared."""
    differences: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def differs(self, kind: str, example: str) -> None:
        self.differences[kind] += 1
        self.examples.setdefault(kind, example if len(example) < 200 else f"{example[:200]} ...")


class Pair:
    """One game in the engine and in the household, at the same point of an episode."""

    def __init__(self, world: World, rules: type[Household], tally: Tally) -> None:
        self.world, self.tally = world, tally
        self.house = rules(household_task(world))
        self.turn = Turn(None, "", world.intro, world.start, 0)
        self.state: State = self.house.start()
        intro = f"-= Welcome to TextWorld, ALFRED! =-\n\n{self.house.overview}\n\nYour task is to: {self.house.task.goal.text}."
        if intro != world.intro:
            tally.differs("text of the start", f"{world.intro!r} and {intro!r}")

    def play(self, command: str) -> bool:
        """Carry out a command in both; True while the episode goes on."""
        after, said, valid = self.world.act(self.turn.state, command)
        state, answer, possible = self.house.act(self.state, command)
        verb = command.split(" ")[0]
        if valid != possible:
            # What only one of them can do is left out, so that they stay together.
            self.tally.differs(f"{verb}: possible only in {'the engine' if valid else 'the household'}", f"{command}: {said!r}, {answer!r}")
            return True
        if said != answer:
            self.tally.differs(f"{verb}: text", f"{command}: {said!r}, {answer!r}")
        self.turn, self.state = Turn(self.turn, command, said, after, self.turn.number + 1), state
        self.tally.turns += 1
        self._compare_state(command, verb)
        return not self.world.solved(after)

    def _compare_state(self, command: str, verb: str) -> None:
        ours, theirs = facts_of_the_household(self.house, self.state), facts_of_the_engine(self.world, self.turn.state)
        if ours != theirs:
            self.tally.differs(f"{verb}: effect", f"{command}: only in the engine {theirs - ours}, only in the household {ours - theirs}")
        if self.house.solved(self.state) != self.world.solved(self.turn.state):
            self.tally.differs("success", command)

    def compare_offers(self) -> list[str]:
        """The commands that the engine offers, compared with those of the household."""
        theirs, ours = self.world.admissible(self.turn.state), self.house.admissible(self.state)
        self.tally.commands += len(theirs)
        for offered, where in ((set(theirs) - set(ours), "the engine"), (set(ours) - set(theirs), "the household")):
            for command in sorted(offered):
                self.tally.differs(f"{command.split(' ')[0]}: offered only in {where}", command)
        return theirs


def loaded(seed: int) -> World:
    """The game of a seed; the seeds go through the splits."""
    return World(generate(np.random.default_rng([seed, 0]), SPLITS[seed % len(SPLITS)]))


def compare(world: World, rules: type[Household], tally: Tally, rng: np.random.Generator) -> None:
    """Play a game by its expert and by chance, an episode each."""
    expert = Expert(world)
    for turns, by_expert in ((EXPERT_TURNS, True), (RANDOM_TURNS, False)):
        pair = Pair(world, rules, tally)
        going = True
        while going and pair.turn.number < turns:
            offers = pair.compare_offers()
            if by_expert:
                pair.play(nonsense(world, rng))
            before = pair.turn.number
            going = pair.play(expert.action(pair.turn) if by_expert else chosen(offers, rng))
            if pair.turn.number == before:
                going = pair.play("inventory")
        tally.episodes += 1
        tally.solved += not going


def chosen(offers: Sequence[str], rng: np.random.Generator) -> str:
    """A command by chance, seldom one that only walks: play that only walks shows little."""
    acts = [command for command in offers if not command.startswith(("go to", "look", "help", "inventory"))]
    options = acts if acts and rng.random() < 0.7 else list(offers)
    return options[int(rng.integers(len(options)))]


def nonsense(world: World, rng: np.random.Generator) -> str:
    """A command of the engine's form on any of the game's things, wherever they are."""
    names = sorted(name for name in world.names.values() if name[-1].isdigit() and not name.startswith(("loc ", "agent")))
    one, other = (names[int(index)] for index in rng.integers(len(names), size=2))
    return _FORMS[int(rng.integers(len(_FORMS)))].format(one, other)


def rows(games: int, limit_s: float) -> Iterator[Row]:
    """One table: agreement by the engine's rules, then how the household's own rules differ."""
    tallies = {AlfworldHousehold: Tally(), Household: Tally()}
    played, until = 0, time.monotonic() + limit_s
    while played < games and time.monotonic() < until:
        world = loaded(played)
        for rules, tally in tallies.items():
            compare(world, rules, tally, np.random.default_rng([played, 1]))
        played += 1
    for rules, tally in tallies.items():
        name = f"rules={'alfworld' if rules is AlfworldHousehold else 'household'}"
        what = f"{played} games, {tally.episodes} episodes, {tally.turns} turns, {tally.commands} offered commands; {tally.solved} solved"
        yield Row(f"{name}: differences", float(sum(tally.differences.values())), "differences", note=what)
        for kind, count in sorted(tally.differences.items()):
            yield Row(f"{name}: {kind}", float(count), "differences", note=tally.examples[kind])


def main(given: Sequence[str] | None = None) -> int:
    """Compare on 200 episodes and print the table; 1 where the household by the engine's rules differs."""
    options = arguments(__doc__ or "", given)
    found = list(rows(QUICK_GAMES if options.quick else GAMES, QUICK_S if options.quick else float("inf")))
    report("alfworld_crosscheck", found, quick=options.quick, out=options.out)
    return int(any(row.name == "rules=alfworld: differences" and row.value for row in found))


if __name__ == "__main__":
    sys.exit(main())
