"""What the documentation says is so: links lead somewhere, commands parse, settings and files exist, code runs, tables are complete."""

import importlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import credit
import envs
from trainer.arguments import Parser
from trainer.load_config import benchmarks, load_config
from trainer.overrides import split_arguments, take_options
from trainer.settings import find, settings
from tree_rollout.stepping import step
from tree_rollout.stop_reason import StopReason
from tree_rollout.trace import Trace
from tree_rollout.tree import TrajectoryTree
from tree_rollout.turn import Origin, Turn

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted((ROOT / "docs").glob("*.md"))
VERBS = (
    *("train", "sft", "eval", "health", "view", "runs", "trees", "show", "replay", "fork", "diff", "recredit", "signatures"),
    *("play", "envs", "check", "doctor"),
)
FENCE = re.compile(r"^```(?P<language>\w*)(?: (?P<title>\S+))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
PLACEHOLDERS = {
    "RUN": "runs/x",
    "N": "1",
    "NODE": "1",
    "ID": "1",
    "TREE": "1",
    "TREE:TURN": "1:0",
    "DIR": "runs/x",
    "BENCHMARK": "household",
    "...": "household",
}


@dataclass(frozen=True)
class Block:
    """A fenced block of code; `title` is the file name in its opening line."""

    page: Path
    language: str
    title: str
    text: str


def blocks(page: Path, language: str) -> list[Block]:
    found = [Block(page, match["language"], match["title"] or "", match["text"]) for match in FENCE.finditer(page.read_text())]
    return [block for block in found if block.language == language]


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text())


def spans(page: Path) -> list[str]:
    """Inline code, with line breaks as spaces."""
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose(page))]


def commands(page: Path) -> Iterator[str]:
    """Each command line that the page shows: in `sh` blocks, in indented blocks and in the text."""
    for block in blocks(page, "sh"):
        yield from (line for text in block.text.splitlines() if (line := text.partition(" #")[0].strip()))
    indented = re.findall(r"^    (.+)$", prose(page), re.MULTILINE)
    starts = ("branchwise ", "make ")
    yield from (line.partition(" #")[0].strip() for line in (*indented, *spans(page)) if line.startswith(starts))


def of_all_pages(items: dict[Path, list[str]]) -> pytest.MarkDecorator:
    values = [pytest.param(page, item, id=f"{page.name}: {item[:70]}") for page, found in items.items() for item in found]
    assert values
    return pytest.mark.parametrize(("page", "item"), values)


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@of_all_pages({page: LINK.findall(FENCE.sub("", page.read_text())) for page in PAGES})
def test_links_resolve(page: Path, item: str) -> None:
    if item.startswith(("https://", "mailto:")):
        return
    path, _, anchor = item.partition("#")
    target = (page.parent / path).resolve() if path else page
    assert target.is_relative_to(ROOT)
    assert target.exists(), f"{page.name} links to {item}, which is not there"
    if anchor:
        assert anchor in {slug(heading) for heading in re.findall(r"^#+ (.+)$", prose(target), re.MULTILINE)}


def test_every_page_can_be_reached_from_the_readme() -> None:
    pending, seen = [ROOT / "README.md"], set()
    while pending:
        page = pending.pop()
        if page not in seen and page.suffix == ".md" and page.exists():
            seen.add(page)
            pending += [(page.parent / link.partition("#")[0]).resolve() for link in LINK.findall(prose(page)) if "://" not in link]
    assert set(PAGES) <= seen


@of_all_pages({page: list(dict.fromkeys(commands(page))) for page in PAGES})
def test_commands_parse(page: Path, item: str, tmp_path: Path) -> None:
    words = shlex.split(item)
    program, arguments = words[0], [PLACEHOLDERS.get(word, word) for word in words[1:]]
    if program == "branchwise":
        check_verb(page, arguments, tmp_path)
    elif program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert next(word for word in arguments if "=" not in word) in targets
    elif program == "python":
        check_script(page, arguments, tmp_path)
    else:
        assert item == "source .venv/bin/activate"


def check_verb(page: Path, words: list[str], tmp_path: Path, registered: bool = True) -> None:
    """The verb, its options, its settings, and the names of benchmarks, environments and splits exist."""
    if words[0] in ("--help", "VERB"):
        return
    assert words[0] in VERBS
    if not words[1:]:
        return  # The text names the verb, no more.
    command = importlib.import_module(f"trainer.commands.{words[0]}")
    parser = Parser(prog=f"branchwise {words[0]}")
    command.configure(parser)
    others, overrides = split_arguments([word for word in words[1:] if word != "--help"])
    parsed = parser.parse_known(others)
    assert command.TAKES_SETTINGS or not overrides
    if words[0] == "train":
        file = None
        if parsed.config is not None:
            file = tmp_path / parsed.config.name
            file.write_text(blocks(page, "yaml")[0].text)
        load_config(parsed.benchmark or benchmarks()[0], file, overrides)
    elif words[0] == "sft":
        take_options(parsed, overrides, {"from": "sft.trace", "keep": "sft.keep"})
        load_config(parsed.benchmark, None, overrides, model=parsed.model)
    elif words[0] == "play" and registered:
        spec = envs.spec(envs.full_id(parsed.env))
        assert parsed.split is None or parsed.split in spec.splits
    elif words[0] == "eval" and parsed.split is not None:
        assert parsed.split in envs.spec("branchwise/Household-v0").splits


def check_script(page: Path, words: list[str], tmp_path: Path) -> None:
    """A script of the repository with options that it has, or a file that the page shows: the latter is a command line of its own."""
    shown = {block.title: block.text for block in blocks(page, "python") if block.title}
    if words[0] in shown:
        if words[1:]:
            assert "sys.exit(main())" in shown[words[0]]
            check_verb(page, words[1:], tmp_path, registered=False)
        return
    source = (ROOT / words[0]).read_text()
    for option in (word for word in words[1:] if word.startswith("--")):
        assert f'"{option}"' in source


@pytest.mark.parametrize("verb", VERBS)
def test_the_readme_shows_every_verb(verb: str) -> None:
    assert any(line.startswith(f"branchwise {verb}") for block in blocks(ROOT / "README.md", "sh") for line in block.text.splitlines())


@pytest.mark.parametrize("block", [block for page in PAGES for block in blocks(page, "yaml")], ids=lambda block: block.page.name)
def test_yaml_is_a_valid_configuration(block: Block, tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text(block.text)
    assert load_config("household", tmp_path / "my.yaml") != load_config("household")


SECTIONS = "|".join(sorted({name.partition(".")[0] for name in settings()}))


@of_all_pages({page: [span for span in dict.fromkeys(spans(page)) if re.fullmatch(rf"(?:{SECTIONS})\.[\w.]+", span)] for page in PAGES})
def test_settings_and_names_in_the_text_exist(page: Path, item: str) -> None:
    module, _, name = item.partition(".")
    is_file = item.endswith(".json")
    section = any(known.startswith(f"{item}.") for known in settings())
    assert find(item) is not None or section or is_file or hasattr(importlib.import_module(module), name)


@of_all_pages({page: [span for span in dict.fromkeys(spans(page)) if re.fullmatch(r"(?:\w+/)+(?:[\w.]+\.\w+)?", span)] for page in PAGES})
def test_files_and_folders_in_the_text_exist(page: Path, item: str) -> None:
    made_by_a_run = ("runs/", "checkpoints/", "policies/")
    household = ROOT / "envs" / item
    assert item in made_by_a_run or (ROOT / item).exists() or household.is_dir()


@pytest.mark.parametrize("method", credit.methods())
def test_the_table_of_estimators_is_complete(method: str) -> None:
    row = re.search(rf"^\| `{method}` \|.*\|(.*)\|$", (ROOT / "docs" / "credit.md").read_text(), re.MULTILINE)
    assert row is not None
    told = dict(re.findall(r"`(\w+)` \(([^)]+)\)", row[1]))
    known = {field.name: field.default for field in fields(type(credit.settings_for(method)))}
    assert told.keys() == known.keys()
    for name, default in known.items():
        assert default is not MISSING
        text = told[name]
        if isinstance(default, tuple):
            assert text == " + ".join(default)
        else:
            assert text == str(default).lower() if default is None or isinstance(default, bool | str) else float(text) == default


def test_pictures_are_drawings_that_load_nothing() -> None:
    pictures = sorted((ROOT / "docs" / "images").glob("*.svg"))
    assert ROOT / "docs" / "images" / "architecture.svg" in pictures
    for picture in pictures:
        root = ElementTree.fromstring(picture.read_text())
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert not re.search(r"(?:href|src|url)\s*[=(]\s*[\"']?(?!#)", picture.read_text())


# ---------------------------------------------------------------------- code that runs


def python(folder: Path, source: str) -> str:
    """Run Python in a process of its own, in `folder`; returns what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "BRANCHWISE_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    result = subprocess.run([sys.executable, "-c", source], cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def write_files(page: Path, folder: Path) -> None:
    for block in [*blocks(page, "python"), *blocks(page, "csv")]:
        if block.title:
            (folder / block.title).write_text(block.text)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_python_runs(page: Path, tmp_path: Path) -> None:
    write_files(page, tmp_path)
    record_run(tmp_path / "runs" / "household-seed0")
    python(tmp_path, "\n".join(block.text for block in blocks(page, "python") if not block.title))


def record_run(folder: Path) -> None:
    """A trace that holds one tree of one rollout, by the expert."""
    tree = TrajectoryTree("branchwise/Household-v0", 7, {"split": "train", "max_turns": 30})
    env = envs.make(tree.env_id, **tree.env_kwargs)
    observation, _ = env.reset(seed=tree.seed)
    nothing = np.zeros(0)
    while not tree.turns or tree.turns[-1].stop_reason is None:
        state, action = env.state_signature(), env.expert_action()
        answer = step(env, action)
        turn = Turn(
            len(tree.turns) - 1, observation, action, nothing.astype(np.int32), nothing.astype(bool), nothing.astype(np.float32),
            nothing.astype(np.float32), 0, answer.reward, answer.terminated, answer.truncated, answer.valid, state, answer.state,
            answer.success, StopReason.TERMINATED if answer.terminated else None, None if tree.turns else Origin("root"),
        )  # fmt: skip
        tree.add(turn)
        observation = answer.observation
    folder.mkdir(parents=True)
    with Trace.create(folder / "trace.sqlite", {}) as trace:
        trace.append([tree], 1, [np.zeros(len(tree.turns))])


VAULT = """
import json, sys
import gymnasium
from gymnasium.utils.env_checker import check_env
import vault
from trainer.cli import main

check_env(gymnasium.make("mine/Vault-v0").unwrapped, skip_render_check=True)
for split in vault.SPLITS:
    for seed in range(5):
        assert main(["play", "vault", "--policy", "expert", "--split", split, "--seed", str(seed)]) == 0
assert main(["envs"]) == 0
"""

TRAINING = """
import json
import train_vault
from trainer.cli import main
from trainer.config import Config
from trainer.console import Console
from trainer.run import train

values = train_vault.CONFIG.model_dump(mode="json")
values["warmstart"] |= {"episodes": 6, "steps": 2}
values["rollout"] |= {"tasks": 2, "roots": 2, "forks": 1}
values["optimizer"] |= {"mini_batches": 1}
values["evaluation"] |= {"tasks": 2}
values["env"] |= {"max_turns": 4}
values["run"] |= {"iterations": 1, "shards": 1, "workers": 1}
train(Config.model_validate_json(json.dumps(values)), resume=False, console=Console())
assert main(["replay", "runs/vault-seed0", "--all"]) == 0
"""


def test_the_environment_of_the_documentation_keeps_the_contract(tmp_path: Path) -> None:
    write_files(ROOT / "docs" / "environments.md", tmp_path)
    said = python(tmp_path, VAULT)
    assert said.count("solved after") == 10
    assert "mine/Vault-v0" in said


def test_the_environment_of_the_documentation_can_be_trained_on(tmp_path: Path) -> None:
    write_files(ROOT / "docs" / "environments.md", tmp_path)
    said = python(tmp_path, TRAINING)
    assert json.loads((tmp_path / "runs" / "vault-seed0" / "result.json").read_text())["iterations"] == 1
    assert re.search(r"replayed (\d+)/\1 turns of 2 trees: exact \1, diverged 0", said)
