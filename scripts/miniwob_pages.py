"""Measure which MiniWoB++ pages give the same episode for the same seed, and write it to `envs/web/miniwob/pages.json`.

    python scripts/miniwob_pages.py [PAGE ...]

Each page is played by chance, and then again: in the same page after another episode, and in new tabs. A page that differs in new tabs is
not stable; one that differs only where it was used before has to be loaded anew for each episode.
"""

import json
import sys
from pathlib import Path

import numpy as np

from envs.answer import Answer, read_reset, read_step
from envs.web.miniwob.env import MiniWobEnv
from envs.web.miniwob.pages import PAGES, Page

RESULT = Path(__file__).parents[1] / "envs" / "web" / "miniwob" / "pages.json"
SEEDS = range(4)
STEPS = 8
_BLIND = ("mouse_click(80, 130)", "mouse_click(40, 100)", "mouse_drag_and_drop(60, 90, 110, 150)", "mouse_move(90, 120)", "scroll(0, 40)")
"""Actions that random play also takes: they reach what the tree does not name."""

Record = tuple[list[str], list[Answer]]


def main(names: list[str]) -> int:
    """Measure the named pages, all by default."""
    known = {name: {"stable": page.stable, "reload": page.reload} for name, page in PAGES.items()}
    for name in names or sorted(PAGES):
        known[name] = measured(name)
        print(f"{name}: {json.dumps(known[name])}", flush=True)
        RESULT.write_text(json.dumps(dict(sorted(known.items())), indent=2) + "\n", encoding="utf-8")
    return 0


def measured(name: str) -> dict[str, bool]:
    """What is known of one page."""
    for reload in (False, True):
        PAGES[name] = Page(name, stable=True, reload=reload)
        if stable(name, reload):
            return {"stable": True, "reload": reload}
    return {"stable": False, "reload": False}


def stable(name: str, reload: bool) -> bool:
    """Whether all episodes come out the same, in new tabs and in used ones."""
    first, second = MiniWobEnv(tasks=[name]), MiniWobEnv(tasks=[name])
    try:
        records = [played(first, seed) for seed in SEEDS]
        for env in (first, second):
            for seed, record in reversed(list(zip(SEEDS, records, strict=True))):
                difference = differs(env, seed, record)
                if difference:
                    print(f"  {name}{' (reloaded)' if reload else ''}, seed {seed}: {difference[:300]}", flush=True)
                    return False
        return True
    except Exception as error:
        print(f"  {name}: {type(error).__name__}: {error}", flush=True)
        return False
    finally:
        first.close()
        second.close()


def played(env: MiniWobEnv, seed: int) -> Record:
    """One episode by chance."""
    rng = np.random.default_rng(seed)
    actions: list[str] = []
    answers = [read_reset(env, env.reset(seed=seed))]
    while len(actions) < STEPS and not answers[-1].ended:
        options = [*env.admissible_actions(), *_BLIND]
        actions.append(options[int(rng.integers(len(options)))])
        answers.append(read_step(env, env.step(actions[-1])))
    return actions, answers


def differs(env: MiniWobEnv, seed: int, record: Record) -> str | None:
    """What comes out otherwise when the same episode is played again."""
    actions, answers = record
    got = read_reset(env, env.reset(seed=seed))
    for action, expected in zip((*actions, None), answers, strict=True):
        field = expected.difference(got)
        if field is not None:
            return f"{field} before {action!r}: {getattr(expected, field)!r} is now {getattr(got, field)!r}"
        if action is not None:
            got = read_step(env, env.step(action))
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
