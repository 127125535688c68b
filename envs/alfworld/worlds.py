"""Loaded games are shared: a group of rollouts, and all instances of a process, pay the load of a game once."""

import threading
from collections import OrderedDict

from envs.alfworld.game import Game
from envs.alfworld.world import World

KEPT = 12
"""Games that stay loaded; one is about 2 MiB. Others live on while a snapshot or an instance holds them."""

_KEPT: OrderedDict[Game, World] = OrderedDict()
_LOCK = threading.Lock()


def world(game: Game) -> World:
    """The loaded game; loading takes about a second."""
    with _LOCK:
        found = _KEPT.get(game) or World(game)
        _KEPT[game] = found
        _KEPT.move_to_end(game)
        while len(_KEPT) > KEPT:
            _KEPT.popitem(last=False)
        return found
