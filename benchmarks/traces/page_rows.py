"""The viewer in a headless Chromium: seconds until a large tree, a long list and many tokens are there, and how smoothly a tree moves."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn

from benchmarks.report import Row, measured
from benchmarks.traces.recorded import TreeMaker
from envs.web.chromium import find_chromium
from trainer.load_config import load_config
from trainer.run_folder import RunFolder
from trainer.viewer.server import bound_socket, viewer_app
from trainer.viewer.source import Source
from tree_rollout.trace import Trace

_TOKEN = "benchmark"
_REPEATS = 3
_FRAMES = 60
_MOVE = """
async ([kind, frames]) => {
  const canvas = document.querySelector('.canvas');
  const box = canvas.getBoundingClientRect();
  const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
  const event = (name, x, y) => canvas.dispatchEvent(new PointerEvent(name, { clientX: x, clientY: y, pointerId: 1, bubbles: true }));
  canvas.setPointerCapture = () => {};
  const next = () => new Promise(requestAnimationFrame);
  if (kind === 'pan') event('pointerdown', x, y);
  const begin = await next();
  let last = begin;
  const taken = [];
  for (let frame = 1; frame <= frames; frame += 1) {
    if (kind === 'pan') event('pointermove', x - 8 * frame, y - 5 * frame);
    else {
      const deltaY = frame <= frames / 2 ? -40 : 40;
      canvas.dispatchEvent(new WheelEvent('wheel', { deltaY, clientX: x, clientY: y, cancelable: true }));
    }
    const now = await next();
    taken.push(now - last);
    last = now;
  }
  if (kind === 'pan') event('pointerup', x, y);
  return taken;
}
"""


def page_rows(folder: Path, nodes: int, trees: int, tokens: int) -> Iterator[Row]:
    """Rows for a tree of `nodes` turns, a list of `trees` trees, and a rollout of `tokens` tokens."""
    from playwright.sync_api import sync_playwright

    run = _run(folder, nodes, trees, tokens)
    with _served(run) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(address)
        page.wait_for_selector(".treelist .treerow a, .rows .treerow")
        opened = [_until(page, f"{address}#/run/0/tree/1", ".drawing path.edges[d], .outline .line") for _ in range(_REPEATS)]
        note = f"{nodes:,} turns, from the address to the drawing; asked: under 1 s"
        yield measured(f"page: a tree of {nodes:,} turns", opened, "s", better="lower", note=note)
        for kind in ("pan", "zoom"):
            page.get_by_role("button", name="fit").click()
            page.wait_for_timeout(300)
            taken = page.evaluate(_MOVE, [kind, _FRAMES])
            note = f"mean of {_FRAMES} frames, all of the tree in sight at first; the slowest took {max(taken):.0f} ms; asked: at least 30"
            yield Row(f"page: frames a second, {kind}", 1e3 / float(np.mean(taken)), "frames/s", note=note)
        lists = [_until(page, f"{address}#/run/0", ".rows a.treerow") for _ in range(_REPEATS)]
        yield measured(f"page: the list of {trees:,} trees", lists, "s", better="lower", note="asked: under 1 s")
        page.goto(f"{address}#/run/0/tree/2?turn=0")
        page.reload()
        page.wait_for_selector("aside h2")
        shown = [_tokens(page) for _ in range(_REPEATS)]
        yield measured(
            f"page: {tokens:,} tokens of one rollout",
            shown,
            "s",
            better="lower",
            note="from the click to the painted text; asked: under 1 s",
        )
        browser.close()


def _run(folder: Path, nodes: int, trees: int, tokens: int) -> RunFolder:
    run = RunFolder(folder / "run")
    run.path.mkdir()
    run.config.write_text(load_config("household").model_dump_json())
    maker = TreeMaker()
    (large,) = maker.trees(1, nodes, max(2, nodes // 25))
    (long,) = maker.trees(1, 1, 1)
    turn = long.turns[0]
    turn.ids_T = np.resize(turn.ids_T, tokens)
    turn.mask_T = np.arange(tokens) % 3 > 0
    turn.logprobs_T, turn.entropies_T = (np.linspace(-1, 0, tokens, dtype=np.float32) for _ in range(2))
    with Trace.create(run.trace, {}) as trace:
        trace.append([large, long], 0, [np.linspace(-1, 1, len(tree.turns)) for tree in (large, long)])
        small = list(maker.trees(500, 2, 1))
        for start in range(2, trees, len(small)):
            trace.append(small[: trees - start], 1 + start // len(small))
    return run


@contextmanager
def _served(run: RunFolder) -> Iterator[str]:
    sock = bound_socket(0)
    port = sock.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(viewer_app(Source([run]), _TOKEN, port, False), log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}/{_TOKEN}/"
    finally:
        server.should_exit = True
        thread.join(10)


def _until(page: Any, address: str, selector: str) -> float:
    """Seconds from a fresh page at an address until what the selector names is painted."""
    page.goto("about:blank")
    begin = page.evaluate("Date.now()")
    page.goto(address)
    page.wait_for_selector(selector, state="attached")
    end = page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(Date.now()))))")
    return (end - begin) / 1e3


def _tokens(page: Any) -> float:
    return page.evaluate("""
    async () => {
      const begin = performance.now();
      [...document.querySelectorAll('aside button')].find((button) => button.textContent === 'all tokens up to here').click();
      const box = () => document.querySelectorAll('.tokens')[1];
      const before = box();
      while (!box() || box() === before) await new Promise((done) => setTimeout(done, 5));
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      return (performance.now() - begin) / 1e3;
    }
    """)
