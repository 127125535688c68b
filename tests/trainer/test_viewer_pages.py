"""The pages in a real headless Chromium, as a person uses them: open, filter, expand, colour, open a turn, compare, fork, export."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright
from recorded_household import record

from envs.web.chromium import find_chromium
from trainer.run_folder import RunFolder
from tree_rollout.trace import Trace

ROOT = Path(__file__).parents[2]
PICTURES = os.environ.get("BRANCHWISE_PICTURES")
"""A folder to put screenshots of the pages into, for the documentation."""
HOSTILE = '<img src=x onerror="document.body.dataset.hacked=1"><script>document.body.dataset.hacked=2</script></pre>'
expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def runs(finished: RunFolder, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A finished run, the same once more, and a household run whose second tree says hostile things."""
    root = tmp_path_factory.mktemp("pages")
    folders = [Path(shutil.copytree(finished.path, root / name)) for name in ("first", "second")]
    household = record(root / "house <b>hold")
    with Trace.open(household.trace) as trace:
        tree = trace.tree(1)
        tree.turns[0].observation = tree.turns[1].action = HOSTILE
        trace.append([tree], 1)
    return [*folders, household.path]


@pytest.fixture(scope="module")
def address(runs: list[Path]) -> Iterator[str]:
    """Where `branchwise view --allow-fork` says that the pages are."""
    command = [sys.executable, "-u", "-m", "trainer", "view", "--allow-fork", *map(str, runs)]
    # Started by a shell in the background, a program would ignore Ctrl-C.
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    yield process.stdout.readline().strip()
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (130, "branchwise: stopped by Ctrl-C\n")


@pytest.fixture
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page that may go nowhere but to this machine, and on which any error of the script fails the test."""
    context = browser.new_context(**{"viewport": {"width": 1400, "height": 900}, **getattr(request, "param", {})})
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    # A refused question is shown on the page; the browser's console repeats its status.
    own = "Failed to load resource: the server responded with a status of 400"
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" and own not in message.text else None)
    page.on("request", lambda asked: faults.append(asked.url) if not re.match(r"(http://127\.0\.0\.1|file:|data:)", asked.url) else None)
    yield page
    assert page.evaluate("document.body.dataset.hacked || ''") == ""
    context.close()
    assert not faults


def picture(page: Page, name: str) -> None:
    if PICTURES and page.evaluate("matchMedia('(prefers-color-scheme: light)').matches"):
        page.screenshot(path=Path(PICTURES) / f"{name}.png")


def no_serious_fault(page: Page) -> None:
    found = [rule for rule in Axe().run(page).response["violations"] if rule["impact"] in ("serious", "critical")]
    assert not found, [(rule["id"], [node["html"][:200] for node in rule["nodes"][:3]]) for rule in found]


def test_runs_and_their_comparison(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.get_by_role("link", name="first").first).to_be_visible()
    page.get_by_role("row", name=re.compile("^first")).get_by_role("cell").last.get_by_role("link", name="second").click()
    expect(page.locator(".outcome")).to_contain_text("tasks in common")
    expect(page.locator(".outcome")).to_contain_text("difference 0.0")
    no_serious_fault(page)
    page.locator("td a").first.click()
    expect(page.locator("h1")).to_have_text(re.compile(r"tree \d+"))


@pytest.mark.parametrize("page", [{"color_scheme": "light"}, {"color_scheme": "dark"}], indirect=True)
def test_a_run_is_filtered_and_its_trees_open(page: Page, address: str) -> None:
    page.goto(f"{address}#/run/0")
    expect(page.locator("figure.chart svg[role=img]").first).to_be_visible()
    expect(page.locator("p.count")).to_have_text(re.compile(r"^(\d+) of \1 trees$"))
    no_serious_fault(page)
    picture(page, "view-run")
    page.get_by_role("textbox", name="where").fill("iteration == 2 and depth >= 1")
    page.get_by_role("textbox", name="sort by").fill("+tree")
    page.get_by_role("button", name="find").click()
    expect(page.locator(".rows .treerow span:nth-child(2)").first).to_have_text("2")
    page.get_by_role("textbox", name="where").fill("depht > 1")
    page.get_by_role("button", name="find").click()
    expect(page.locator("p.count")).to_contain_text("did you mean depth")
    page.get_by_role("textbox", name="where").fill("")
    page.get_by_role("button", name="find").click()
    page.locator(".rows .treerow").first.click()
    expect(page.get_by_role("tree", name="turns")).to_be_visible()


@pytest.mark.parametrize("page", [{"color_scheme": "light"}, {"color_scheme": "dark"}], indirect=True)
def test_a_tree_is_coloured_closed_and_walked_with_the_keys(page: Page, address: str) -> None:
    page.goto(f"{address}#/run/2/tree/1")
    expect(page.locator("g.node").first).to_be_visible()
    page.locator("label", has_text="colour by").locator("select").first.select_option("visits")
    expect(page.locator("g.node title").first).to_contain_text("visits")
    outline = page.get_by_role("tree", name="turns")
    outline.focus()
    for _ in range(2):
        page.keyboard.press("ArrowDown")
    expect(page.locator("[role=treeitem][aria-selected=true]")).to_have_attribute("data-turn", "1")
    expect(page.locator("aside h2")).to_contain_text("turn 1")
    expect(page.locator("g.node.chosen")).to_have_attribute("data-turn", "1")
    lines = page.get_by_role("treeitem").count()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("[role=treeitem][aria-expanded=false]")).to_have_count(1)
    assert page.get_by_role("treeitem").count() < lines
    page.keyboard.press("ArrowRight")
    expect(page.locator("[role=treeitem][aria-expanded=true]")).to_have_count(1)
    picture(page, "view-tree")
    no_serious_fault(page)


def test_a_turn_shows_its_numbers_tokens_and_siblings(page: Page, address: str) -> None:
    page.goto(f"{address}#/run/0/tree/1?turn=0")
    panel = page.get_by_role("complementary", name="turn")
    expect(panel.locator("dl")).to_contain_text("advantage")
    expect(panel.locator(".token").first).to_be_visible()
    first = panel.locator(".token").first.evaluate("token => token.style.getPropertyValue('--mark')")
    panel.get_by_label("colour tokens by").select_option("entropy")
    assert re.match(r"#\w{6}", first)
    panel.get_by_role("button", name="all tokens up to here").click()
    expect(panel.get_by_label("colour tokens by").nth(1)).to_contain_text("advantage")
    expect(panel.locator(".command code").first).to_contain_text("branchwise show")


def test_the_drawing_zooms_pans_and_selects_by_pointer(page: Page, address: str) -> None:
    page.goto(f"{address}#/run/2/tree/1")
    node = page.locator("g.node").nth(1)
    expect(node).to_be_visible()
    where = page.locator(".drawing > g")
    before = where.get_attribute("transform")
    canvas = page.locator(".canvas")
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 200, box["y"] + 300)
    page.mouse.wheel(0, -300)
    expect(where).not_to_have_attribute("transform", before or "")
    zoomed = where.get_attribute("transform") or ""
    page.mouse.down()
    page.mouse.move(box["x"] + 260, box["y"] + 340, steps=4)
    page.mouse.up()
    expect(where).not_to_have_attribute("transform", zoomed)
    page.get_by_role("button", name="fit").click()
    page.reload()
    expect(node).to_be_visible()
    shape = page.locator("g.node circle, g.node rect").nth(1).bounding_box()
    assert shape is not None
    page.mouse.click(shape["x"] + shape["width"] / 2, shape["y"] + shape["height"] / 2)
    expect(page.locator("aside h2")).to_contain_text("turn")


def test_hostile_texts_are_texts(page: Page, address: str) -> None:
    page.goto(f"{address}#/run/2/tree/2?turn=1")
    expect(page.locator("p.action")).to_have_text(HOSTILE)
    page.goto(f"{address}#/run/2/tree/2?turn=0")
    page.reload()
    expect(page.locator("aside pre").first).to_have_text(HOSTILE)
    expect(page.locator("#trail")).to_contain_text("house <b>hold")
    page.goto(f"{address}#/run/2/tree/2/graph")
    expect(page.locator("svg.graph circle").first).to_be_visible()
    no_serious_fault(page)


def test_a_fork_from_the_page_is_in_the_tree(page: Page, address: str) -> None:
    page.goto(f"{address}#/run/2/tree/1?turn=2")
    panel = page.get_by_role("complementary", name="turn")
    panel.get_by_label("policy").select_option("random")
    panel.get_by_role("button", name="fork").click()
    expect(panel.locator("pre[role=status]")).to_contain_text("recorded")
    panel.get_by_role("button", name="show them in the tree").click()
    expect(page.locator(".facts")).to_contain_text("turns forked later")
    expect(page.locator(".line .forked").last).to_be_visible()


@pytest.mark.parametrize("page", [{"viewport": {"width": 390, "height": 800}}], indirect=True)
def test_a_phone_has_no_sideways_scrolling(page: Page, address: str) -> None:
    for place in ("#/run/0", "#/run/2/tree/1?turn=1", "#/run/2/tree/1/graph", "#/compare/0/1"):
        page.goto(f"{address}{place}")
        page.reload()
        expect(page.locator("h1").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_what_does_not_exist_is_said(page: Page, address: str) -> None:
    page.goto(f"{address}#/run/2/tree/1")
    expect(page.locator("h1")).to_be_visible()
    context = page.context.browser
    assert context is not None
    other = context.new_page()
    other.goto(f"{address}#/run/0/tree/999")
    expect(other.get_by_role("alert")).to_contain_text("no such tree")
    other.close()


def test_an_exported_file_opens_without_a_server(browser: Browser, runs: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "run.html"
    command = [sys.executable, "-m", "trainer", "view", *map(str, runs), "--export", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    context = browser.new_context(offline=True)
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.goto(out.as_uri())
    page.get_by_role("link", name="first").first.click()
    expect(page.locator("figure.chart svg[role=img]").first).to_be_visible()
    page.locator(".rows .treerow").first.click()
    page.get_by_role("treeitem").first.click()
    expect(page.locator("aside .token").first).to_be_visible()
    page.goto(f"{out.as_uri()}#/run/2/tree/2?turn=1")
    page.reload()
    expect(page.locator("p.action")).to_have_text(HOSTILE)
    assert page.evaluate("document.body.dataset.hacked || ''") == ""
    context.close()
    assert not faults
