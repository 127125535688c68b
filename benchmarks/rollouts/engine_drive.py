"""Work for any engine, of which nothing is assumed but its interface: forks of a growing conversation, and a backlog of turns.

Imports neither environments nor torch, so that it also runs where vLLM is installed and little else.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from agents.engine import Engine, SampleRequest

Ids = npt.NDArray[np.int32]
_NOTHING = np.zeros(0, dtype=np.int32)


def forked_turns(engine: Engine, deltas: Sequence[Ids], forks: int, computed: Callable[[], int], *, share: bool = True) -> list[list[int]]:
    """Fork a conversation at each of its turns; for each turn [prompt tokens of all forks, those that were computed].

    deltas: what the conversation grows by before each turn; one token is sampled there, and dropped.
    computed: how many prompt tokens the engine has computed so far.
    share: False gives every fork a sequence of its own, and the whole prompt.
    """
    main, prompt_T, found = engine.start(), _NOTHING, []
    for turn, delta_T in enumerate(deltas):
        engine.generate([SampleRequest(main, delta_T, seed=(0, turn), max_tokens=1)])
        prompt_T = np.concatenate([prompt_T, delta_T])
        handles = [engine.fork(main, len(prompt_T)) if share else engine.start() for _ in range(forks)]
        given_T = _NOTHING if share else prompt_T
        before = computed()
        engine.generate([SampleRequest(handle, given_T, seed=(1, turn, place), max_tokens=1) for place, handle in enumerate(handles)])
        found.append([forks * len(prompt_T), computed() - before])
        following = engine.fork(main, len(prompt_T))
        for handle in (main, *handles):
            engine.release(handle)
        main = following
    engine.release(main)
    return found


def flood(engine: Engine, prompts: Sequence[Ids], limits: Sequence[int], slots: int) -> tuple[int, float]:
    """Sample a turn after each prompt, `slots` of them at a time, the next one as soon as one ends; (sampled tokens, CPU seconds)."""
    started = time.process_time()
    queue = deque(enumerate(zip(prompts, limits, strict=True)))
    tokens = 0
    while queue or engine.pending:
        while queue and engine.pending < slots:
            place, (prompt_T, limit) = queue.popleft()
            engine.submit(SampleRequest(engine.start(), prompt_T, seed=(2, place), max_tokens=limit))
        for handle, sample in engine.step():
            tokens += len(sample.ids_T)
            engine.release(handle)
    return tokens, time.process_time() - started
