"""A need is met or not by what is on this machine now, found out without starting or importing anything heavy."""

import http.server
import socketserver
import sys
import threading
from pathlib import Path

import pytest

from envs import BrowserNeed, DataNeed, DockerNeed, MissingNeedError, PackageNeed, ProgramNeed
from envs.needs import require, unmet


def test_a_package_is_found_without_being_imported(tmp_path, monkeypatch):
    (tmp_path / "burning_house.py").write_text("raise SystemError")
    monkeypatch.syspath_prepend(tmp_path)
    need = PackageNeed("burning_house", "pip install burning-house")
    assert need.is_met() and "burning_house" not in sys.modules
    assert not PackageNeed("no_such_house", "").is_met() and not PackageNeed("no_such.house", "").is_met()
    assert need.what == "the Python package burning_house"


def test_packages_that_one_command_installs_are_one_need_and_none_of_them_may_be_missing():
    there, gone = PackageNeed("numpy", "pip it", ("json",)), PackageNeed("numpy", "pip it", ("json", "no_such_house"))
    assert there.is_met() and not gone.is_met()
    assert there.what == "the Python package numpy"
    with pytest.raises(MissingNeedError, match=r"^house needs the Python package no_such_house, which is missing: type pip it$"):
        require("house", (there, gone))


def program(folder: Path, name: str) -> None:
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


def test_a_program_is_found_on_the_search_path(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    need = ProgramNeed("java", "sudo apt-get install default-jre-headless")
    assert not need.is_met()
    program(tmp_path, "java")
    assert need.is_met() and need.what == "the program java"


def test_a_browser_is_a_program_or_what_playwright_has_downloaded(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "browsers"))
    assert not BrowserNeed().is_met()
    (tmp_path / "browsers" / "chromium-1200" / "chrome-linux").mkdir(parents=True)
    assert not BrowserNeed().is_met(), "an empty download is no browser"
    program(tmp_path / "browsers" / "chromium-1200" / "chrome-linux", "chrome")
    assert BrowserNeed().is_met()
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "none"))
    program(tmp_path, "chromium")
    assert BrowserNeed().is_met()


class Engine(http.server.BaseHTTPRequestHandler):
    """Answers a ping as Docker does."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/_ping" else 404)
        self.end_headers()

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_: object) -> None:
        pass


def test_a_docker_engine_is_one_that_answers(tmp_path, monkeypatch):
    socket = tmp_path / "docker.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{socket}")
    assert not DockerNeed().is_met()
    with socketserver.UnixStreamServer(str(socket), Engine) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert DockerNeed().is_met()
        server.shutdown()
    with http.server.HTTPServer(("127.0.0.1", 0), Engine) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.server_address[1]}")
        assert DockerNeed().is_met()
        server.shutdown()
    assert not DockerNeed().is_met(), "the engine has gone"
    for nonsense in ("tcp://127.0.0.1:port", "nowhere"):
        monkeypatch.setenv("DOCKER_HOST", nonsense)
        assert not DockerNeed().is_met()


def test_data_are_where_the_variable_says_or_at_the_usual_place(tmp_path, monkeypatch):
    monkeypatch.delenv("GAMES_DATA", raising=False)
    need = DataNeed("the games", "GAMES_DATA", "download-games", default=str(tmp_path / "usual"), contains=("train", "test"))
    assert not need.is_met()
    for name in ("train", "test"):
        assert not need.is_met()
        (tmp_path / "usual" / name).mkdir(parents=True)
    assert need.is_met() and need.what == "the games (GAMES_DATA)"
    monkeypatch.setenv("GAMES_DATA", str(tmp_path / "elsewhere"))
    assert not need.is_met()
    assert not DataNeed("", "NO_SUCH_VARIABLE", "").is_met()


def test_what_is_missing_is_one_error_with_the_commands():
    here, gone, lost = ProgramNeed("sh", "apt sh"), ProgramNeed("no-such-program", "apt it"), PackageNeed("no_such_package", "pip it")
    assert unmet((here, gone, lost)) == [gone, lost]
    require("tests/Room-v0", (here,))
    with pytest.raises(MissingNeedError) as caught:
        require("tests/Room-v0", (here, gone, lost))
    assert str(caught.value) == (
        "tests/Room-v0 needs the program no-such-program, which is missing: type apt it; "
        "the Python package no_such_package, which is missing: type pip it"
    )
