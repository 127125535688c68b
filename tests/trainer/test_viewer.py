"""The server, asked as any program may ask it: what it answers, and above all what it refuses."""

import http.client
import json
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uvicorn
from recorded_household import record

from trainer.cli import main
from trainer.errors import UsageError
from trainer.run_folder import RunFolder
from trainer.viewer.errors import NotThereError, QuestionError
from trainer.viewer.page import whole_page
from trainer.viewer.server import bound_socket, viewer_app
from trainer.viewer.source import Source, as_json
from tree_rollout.trace import Trace

TOKEN = "the-token"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028\x00\ud800"


class Served:
    """A viewer on a port of its own."""

    def __init__(self, source: Source, allow_fork: bool) -> None:
        self._socket = bound_socket(0)
        self.port = self._socket.getsockname()[1]
        config = uvicorn.Config(viewer_app(source, TOKEN, self.port, allow_fork), log_level="error", lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.01)

    def ask(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
        """Status, body (JSON where it is), headers; `Host` is the right one unless it is given."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.putrequest(method, path, skip_host=True)
        data = b"" if body is None else json.dumps(body).encode()
        for name, value in {"Host": f"127.0.0.1:{self.port}", "Content-Length": str(len(data)), **headers}.items():
            connection.putheader(name, value)
        connection.endheaders(data)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        kind = answer.headers.get("content-type", "")
        return answer.status, json.loads(text) if "json" in kind else text, {name.lower(): value for name, value in answer.headers.items()}

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(10)


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return record(tmp_path_factory.mktemp("viewed") / "run with ü and 'quotes'")


@pytest.fixture(scope="module")
def served(finished: RunFolder, forked: RunFolder) -> Iterator[Served]:
    served = Served(Source([finished, forked]), allow_fork=False)
    yield served
    served.close()


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("path", ["/", "/api/runs", "/wrong/", "/wrong/api/runs", "//api/runs", f"/{TOKEN}x/", f"/x{TOKEN}/api/runs"])
def test_without_the_token_nothing_is_said(served: Served, path: str) -> None:
    status, text, _ = served.ask(path)
    assert status == 403 and "token" in text and TOKEN not in text


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", "[::1]:{port}", ""]
)
def test_a_name_that_points_here_is_refused(served: Served, host: str) -> None:
    assert served.ask(f"/{TOKEN}/api/runs", Host=host.format(port=served.port))[0] == 403


def test_two_hosts_are_refused_and_localhost_is_not(served: Served) -> None:
    assert served.ask(f"/{TOKEN}/api/runs", host=f"localhost:{served.port}")[0] in (400, 403), "two Host headers"
    assert served.ask(f"/{TOKEN}/api/runs", Host=f"localhost:{served.port}")[0] == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1", "https://127.0.0.1:{port}", "http://127.0.0.1:{port}.evil.example"]
)
def test_pages_of_others_are_refused(served: Served, origin: str) -> None:
    assert served.ask(f"/{TOKEN}/api/runs", Origin=origin.format(port=served.port))[0] == 403


def test_our_own_page_is_answered(served: Served) -> None:
    status, runs, headers = served.ask(f"/{TOKEN}/api/runs", Origin=f"http://127.0.0.1:{served.port}")
    assert status == 200 and len(runs) == 2
    assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
    policy = served.ask(f"/{TOKEN}/")[2]["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self';") and "frame-ancestors 'none'" in policy
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "static/../server.py", "static/..%2fserver.py", "static/%2e%2e/server.py", "static//etc/passwd", "api/../../etc/passwd",
        "api/run/..%2f..%2fetc", "static/viewer.js/../../guard.py", "static/dom.js",
    ],
)  # fmt: skip
def test_no_path_leads_to_a_file(served: Served, path: str) -> None:
    status, text, _ = served.ask(f"/{TOKEN}/{path}")
    assert status in (403, 404) and "root:" not in str(text) and "import" not in str(text)


@pytest.mark.parametrize(
    ("question", "status", "words"),
    [
        ("run/7", 404, "no run 7"),
        ("run/-1", 404, "no number"),
        ("run/0/tree/999", 404, "no such tree"),
        ("run/0/tree/1/turn/9999", 404, "no turn"),
        ("run/0/tree/1/turn/99999999999999999999999", 404, "no number"),
        ("run/0/nothing", 404, "nothing at"),
        ("run/0/trees?where=depht+%3E+3", 400, "did you mean depth"),
        ("run/0/trees?where=__import__('os')", 400, "cannot be part"),
        ("run/0/trees?sort=;DROP+TABLE+trees", 400, "to sort by"),
        ("run/0/trees?offset=-1", 400, "whole number"),
        ("compare/0/1", 400, "no task in common"),
    ],
)
def test_a_question_that_cannot_be_answered_is_one_sentence(served: Served, question: str, status: int, words: str) -> None:
    found, answer, _ = served.ask(f"/{TOKEN}/api/{question}")
    assert found == status and words in answer["error"] and "\n" not in answer["error"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_reading_is_all_that_a_read_only_page_can(served: Served, forked: RunFolder, method: str) -> None:
    with Trace.open(forked.trace, readonly=True) as trace:
        before = trace.content_digest()
    own = f"http://127.0.0.1:{served.port}"
    body = {"run": 1, "tree": 1, "turn": 1, "policy": "expert", "n": 1}
    for path in ("fork", "api/runs", "api/run/1/tree/1"):
        assert served.ask(f"/{TOKEN}/{path}", method, body, Origin=own)[0] in (403, 405)
        assert served.ask(f"/{TOKEN}/{path}", method, body)[0] == 403
    with Trace.open(forked.trace, readonly=True) as trace:
        assert trace.content_digest() == before


# ---------------------------------------------------------------- forks, where they are allowed


def test_a_fork_from_the_page_is_that_of_the_command(tmp_path: Path) -> None:
    folder = record(tmp_path / "run")
    served = Served(Source([folder]), allow_fork=True)
    try:
        own = f"http://127.0.0.1:{served.port}"
        good = {"run": 0, "tree": 1, "turn": 1, "policy": "expert", "n": 2}
        assert served.ask(f"/{TOKEN}/fork", "POST", good)[0] == 403, "without an Origin"
        assert served.ask(f"/{TOKEN}/fork", "POST", good, Origin="http://evil.example")[0] == 403
        for change in ({"n": 0}, {"n": 99}, {"n": True}, {"policy": "openai"}, {"policy": "human"}, {"turn": "1"}, {"run": 5}, {"more": 1}):
            status, answer, _ = served.ask(f"/{TOKEN}/fork", "POST", {**good, **change}, Origin=own)
            assert status in (400, 404) and answer["error"]
        assert served.ask(f"/{TOKEN}/fork", "POST", [1] * 9000, Origin=own)[0] == 400
        status, answer, _ = served.ask(f"/{TOKEN}/fork", "POST", good, Origin=own)
        assert status == 200 and "2 forks recorded in tree 1, 2 of them solved" in answer["text"]
    finally:
        served.close()
    with Trace.open(folder.trace, readonly=True) as trace:
        assert trace.summary(1).forks == 2
    assert main(["replay", str(folder.path)]) == 0


# ---------------------------------------------------------------- what is answered


def test_a_tree_and_its_turns(finished: RunFolder) -> None:
    source = Source([finished])
    with Trace.open(finished.trace, readonly=True) as trace:
        tree, advantages_N = trace.tree(1), trace.advantages(1)
    assert advantages_N is not None
    answer = source.answer("run/0/tree/1", {})
    assert answer["parent"] == [turn.parent for turn in tree.turns]
    np.testing.assert_allclose(answer["colours"]["advantage"], advantages_N, rtol=1e-5)
    for index, turn in enumerate(tree.turns):
        told = source.answer(f"run/0/tree/1/turn/{index}", {})
        assert (told["observation"], told["action"], told["turn"]) == (turn.observation, turn.action, index)
        assert len(told["tokens"]["text"]) == len(turn.ids_T) and sum(told["tokens"]["sampled"]) == turn.mask_T.sum()
        np.testing.assert_allclose(told["tokens"]["logprob"], turn.logprobs_T, rtol=1e-3, atol=1e-5)
        assert sorted([index, *(sibling["turn"] for sibling in told["siblings"])]) == tree.children(turn.parent)
    leaf = tree.leaves()[0]
    whole = source.answer(f"run/0/tree/1/rollout/{leaf}", {})
    assert (
        len(whole["tokens"]["text"]) == len(whole["tokens"]["advantage"]) == sum(len(tree.turns[index].ids_T) for index in tree.path(leaf))
    )


def test_the_list_and_the_curves(finished: RunFolder) -> None:
    source = Source([finished])
    summary = source.answer("run/0", {})
    assert [record["iteration"] for record in summary["records"]] == [1, 2] and not summary["running"]
    assert [record["iteration"] for record in source.answer("run/0", {"after": "1"})["records"]] == [2]
    found = source.answer("run/0/trees", {"sort": "+turns"})
    turns = [row["turns"] for row in found["trees"]]
    assert found["count"] == summary["trees"] == len(turns) and turns == sorted(turns)
    assert source.answer("run/0/trees", {"offset": "2"})["trees"] == source.answer("run/0/trees", {})["trees"][2:]


def test_the_state_graph_counts_every_turn_that_counts(forked: RunFolder) -> None:
    answer = Source([forked]).answer("run/0/tree/1/graph", {})
    with Trace.open(forked.trace, readonly=True) as trace:
        tree = trace.tree(1)
    assert sum(answer["visits"]) == len(tree.turns) == sum(count for _, _, count, _ in answer["edges"])
    assert answer["column"][0] == 0 and len(set(zip(answer["column"], answer["row"], strict=True))) == len(answer["state"])


def test_a_run_that_has_recorded_nothing_yet(tmp_path: Path) -> None:
    folder = record(tmp_path / "run")
    folder.trace.unlink()
    Trace.create(folder.trace, {}).close()
    answer = Source([folder]).answer("run/0", {})
    assert (answer["trees"], answer["records"], answer["flags"]) == (0, [], [])


def test_numbers_that_json_does_not_have(tmp_path: Path) -> None:
    folder = record(tmp_path / "run")
    with Trace.open(folder.trace) as trace:
        tree = trace.tree(1)
        tree.turns[0].reward = float("nan")
        tree.turns[1].reward = float("inf")
        trace.append([tree], 1)
    source = Source([folder])
    for question in ("tree/2", "tree/2/turn/0", "tree/2/graph", "trees"):
        json.loads(as_json(source.answer(f"run/0/{question}", {})))


def test_questions_that_are_none() -> None:
    source = Source([])
    assert source.answer("runs", {}) == []
    with pytest.raises(NotThereError):
        source.answer("", {})
    with pytest.raises(QuestionError, match="whole number"):
        Source([RunFolder(Path("."))]).answer("run/0/trees", {"offset": "x"})


# ---------------------------------------------------------------- the exported file


def test_what_was_recorded_cannot_end_the_script_that_holds_it() -> None:
    page = whole_page({"runs": [HOSTILE], "deep": {"a": "<!--<script>"}})
    held = re.search(r'<script type="application/json" id="answers">(.*?)</script>', page, re.S)
    assert held is not None and json.loads(held[1]) == {"runs": [HOSTILE], "deep": {"a": "<!--<script>"}}
    assert "alert(1)</script>" not in page and page.count("<script") == 2


def test_an_exported_file_needs_nothing_else(finished: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run.html"
    assert main(["view", str(finished.path), "--export", str(out), "--trees", "1,2"]) == 0
    page = out.read_text()
    assert not re.search(r'(src|href)="(?!#)', page.split("<script", 1)[0])
    answers = json.loads(re.findall(r'id="answers">(.*?)</script>', page, re.S)[0])
    assert [row["id"] for row in answers["run/0/trees"]["trees"]] == [1, 2]
    turns = len(answers["run/0/tree/1"]["parent"])
    assert all(f"run/0/tree/1/turn/{index}" in answers for index in range(turns))
    assert main(["view", str(finished.path), "--export", str(out), "--trees", "1,999"]) == 2
    assert "no tree 999" in capsys.readouterr().err and out.read_text() == page


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["view", "/no/such/run"], "is no run folder"),
        (["view", "x", "--trees", "1"], "--trees has no effect without --export"),
        (["view", "x", "--export", "a.html", "--allow-fork"], "--allow-fork has no effect with --export"),
        (["view", "x", "--export", "a.html", "--trees", "1;2"], "are no trees"),
        (["view", "x", "--port", "70000"], "is no port"),
    ],
)
def test_a_wrong_command_is_one_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert sentence in capsys.readouterr().err


def test_a_port_that_is_taken_is_one_sentence() -> None:
    taken = bound_socket(0)
    taken.listen()
    with pytest.raises(UsageError, match="cannot be used"):
        bound_socket(taken.getsockname()[1])
    taken.close()


def test_the_run_stays_as_it_is(finished: RunFolder, tmp_path: Path) -> None:
    copy = RunFolder(Path(shutil.copytree(finished.path, tmp_path / "copy")))
    before = {path: path.read_bytes() for path in copy.path.rglob("*") if path.is_file()}
    source = Source([copy])
    for question in ("runs", "run/0", "run/0/trees", "run/0/tree/1", "run/0/tree/1/turn/0", "run/0/tree/1/graph"):
        source.answer(question, {})
    assert {path: path.read_bytes() for path in copy.path.rglob("*") if path.is_file()} == before
