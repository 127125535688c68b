"""Checks of signatures: equal where states are equal, different where a difference can be shown by what can be done or what it does."""

from collections.abc import Iterator
from itertools import combinations, islice
from typing import Any

from envs.answer import Answer, signature_of
from envs.checking.episode_checks import elsewhere
from envs.checking.player import Episode, Player
from envs.checking.report import NothingToCheckError, fail
from envs.text_env import TextEnv

_PAIRS = 30
"""Pairs of places with one signature that are compared."""
_PROBES = 4
"""Actions that are tried in both places of a pair."""

Place = tuple[Episode, int]
"""An episode, and the number of turns from its start."""


def equal_states(player: Player) -> str:
    """A signature is the same however often it is asked for, in every instance and process, and after an action that did nothing."""
    _needs_signatures(player)
    for episode in player.episodes:
        for index, turn in enumerate(episode.turns):
            before = episode.answers[index - 1] if index else episode.first
            if not turn.answer.valid and turn.answer.signature != before.signature:
                actions = episode.actions[: index + 1]
                fail("an action that is not valid changes the signature", episode.seed, actions, before.signature, turn.answer.signature)
    places = {"asked for again": player.make(bare=True), "in another process": elsewhere(player)}
    if player.spec.abilities.deterministic:
        for where, env in places.items():
            for episode in player.episodes if env is not None else []:
                _compare(player, env, episode, where)
    turns = sum(len(episode.turns) + 1 for episode in player.episodes)
    return f"{turns} states{'' if places['in another process'] is None else ', in two processes'}"


def different_states(player: Player) -> str:
    """Where two places of one task have one signature, the same can be done in both, and does the same, unless chance decides."""
    _needs_signatures(player)
    if not player.spec.abilities.deterministic:
        raise NothingToCheckError("it is not deterministic, so that states cannot be told apart by what follows")
    env = player.make(bare=True)
    seen = {(episode.seed, answer.signature) for episode in player.episodes for answer in (episode.first, *episode.answers)}
    pairs = list(islice(_pairs(player), _PAIRS))
    for first, second in pairs:
        _tell_apart(player, env, first, second)
    return f"{len(seen)} signatures, {len(pairs)} pairs of places that share one"


def _needs_signatures(player: Player) -> None:
    if not player.spec.abilities.signature:
        raise NothingToCheckError("it is declared to have no signature")


def _compare(player: Player, env: Any, episode: Episode, where: str) -> None:
    player.reset(env, episode.seed)
    for index in range(len(episode.turns) + 1):
        expected = (episode.answers[index - 1] if index else episode.first).signature
        got = [signature_of(env) for _ in range(2)]
        if got != [expected] * 2:
            wrong = next(signature for signature in got if signature != expected)
            fail(f"the signature of the same state differs, {where}", episode.seed, episode.actions[:index], expected, wrong)
        if index < len(episode.turns):
            player.step(env, episode.actions[index])


def _pairs(player: Player) -> Iterator[tuple[Place, Place]]:
    """Pairs of places of one task that share a signature, those that were reached most differently first."""
    groups: dict[tuple[int, str | None], list[Place]] = {}
    for episode in player.episodes:
        answers = (episode.first, *episode.answers)
        for index, answer in enumerate(answers):
            if not answer.ended:
                places = groups.setdefault((episode.seed, answer.signature), [])
                # The start is one place, however many episodes begin there.
                if index or not any(place[1] == 0 for place in places):
                    places.append((episode, index))
    # Round by round, so that one signature with many places does not take all of the pairs.
    rounds = [combinations(places, 2) for places in groups.values() if len(places) > 1]
    while rounds:
        for pairs in list(rounds):
            pair = next(pairs, None)
            if pair is None:
                rounds.remove(pairs)
            else:
                yield pair


def _tell_apart(player: Player, env: TextEnv, first: Place, second: Place) -> None:
    (episode, turns), listed = first, player.spec.abilities.admissible
    way, other_way = episode.actions[:turns], second[0].actions[: second[1]]
    looks = [_look(player, env, place) for place in (first, second)]
    shared = f"two states have the signature {looks[0][0]!r}; the second is reached by {list(other_way)}, and differs in"
    if listed and looks[0][1] != looks[1][1]:
        fail(f"{shared} what can be done", episode.seed, way, *("\n".join(actions) for _, actions in looks))
    probes = looks[0][1] if listed else sorted(set(episode.actions))
    for probe in probes[:: max(1, len(probes) // _PROBES)][:_PROBES]:
        (answer, drawn), (other, drawn_too) = (_probe(player, env, place, probe) for place in (first, second))
        # How many turns are left is not part of a state, and chance may decide otherwise the next time.
        if not (drawn or drawn_too) and (name := answer.difference(other, ignore=("truncated",))) is not None:
            fail(f"{shared} the {name} after {probe!r}", episode.seed, (*way, probe), answer, other)


def _look(player: Player, env: TextEnv, place: Place) -> tuple[str | None, list[str]]:
    """The signature in a place, and what can be done there."""
    player.bring(env, *place)
    return signature_of(env), env.admissible_actions() if player.spec.abilities.admissible else []


def _probe(player: Player, env: TextEnv, place: Place, action: str) -> tuple[Answer, bool]:
    """The answer to an action in a place, and whether random numbers were drawn for it."""
    player.bring(env, *place)
    before = env.np_random.bit_generator.state
    answer = player.step(env, action)
    return answer, env.np_random.bit_generator.state != before
