import http.server
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from envs import EnvironmentArgumentError
from envs.deadline import DeadlineExceededError
from envs.web.browser import AllowedHosts, Browser, BrowserError, BrowserLostError, BrowserMissingError, Tab, shared_browser
from envs.web.browser.pinned import START_MS, Pinned
from envs.web.chromium import find_chromium


class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Set-Cookie", "visited=yes")
        self.end_headers()
        self.wfile.write(b"<p>Hello</p>")

    def log_message(self, format, *args):
        pass


@pytest.fixture
def server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    server.asked = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def tabs():
    opened: list[Tab] = []

    def open_tab(*hosts: str, pinned: Pinned | None = None) -> Tab:
        opened.append(shared_browser().open(AllowedHosts.parse(hosts), pinned=pinned))
        return opened[-1]

    yield open_tab
    for tab in opened:
        tab.close()


def address(server) -> str:
    return f"127.0.0.1:{server.server_address[1]}"


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids: list[int], within_s: float = 15.0) -> bool:
    limit = time.monotonic() + within_s
    while any(map(alive, pids)) and time.monotonic() < limit:
        time.sleep(0.05)
    return not any(map(alive, pids))


def test_only_listed_hosts_are_asked_and_the_rest_is_counted(server, tabs):
    tab = tabs(address(server))
    assert tab.call(lambda page: page.goto(f"http://{address(server)}/")).ok
    tab.call(
        lambda page: page.set_content(
            "<img src='http://pictures.example/a.png'><script>"
            "new WebSocket('ws://127.0.0.1:1/'); fetch('http://127.0.0.1:2/').catch(() => 0)</script>"
        )
    )
    with pytest.raises(BrowserError, match="PROXY_CONNECTION_FAILED"):
        tab.call(lambda page: page.goto("http://example.org/"))
    assert set(tab.refused) == {"pictures.example", "127.0.0.1:1", "127.0.0.1:2", "example.org"}
    other = tabs()
    with pytest.raises(BrowserError):
        other.call(lambda page: page.goto(f"http://{address(server)}/secret"))
    assert other.refused == {address(server): 1} and "/secret" not in server.asked


@pytest.mark.parametrize(
    ("entry", "allowed", "refused"),
    [
        ("example.org", ["http://example.org/", "https://EXAMPLE.org:8443/x"], ["http://www.example.org/", "http://example.org.evil/"]),
        ("*.example.org", ["http://www.example.org/"], ["http://example.org/", "http://notexample.org/"]),
        ("127.0.0.1:80", ["http://127.0.0.1/", "ws://127.0.0.1/"], ["http://127.0.0.1:8080/", "https://127.0.0.1/"]),
        ("[::1]:8000", ["http://[::1]:8000/"], ["http://[::1]/"]),
    ],
)
def test_a_host_is_named_with_or_without_its_port(entry, allowed, refused):
    hosts = AllowedHosts.parse([entry])
    assert all(map(hosts.allows, allowed)) and not any(map(hosts.allows, refused))


@pytest.mark.parametrize("hosts", ["example.org", 3, [3], ["http://example.org"], ["a b"], [""]])
def test_what_is_no_list_of_hosts_is_refused(hosts):
    with pytest.raises(EnvironmentArgumentError, match="allow_hosts"):
        AllowedHosts.parse(hosts)


def test_a_page_that_hangs_is_ended_and_harms_no_other(tabs):
    hanging, other = tabs(), tabs()
    started = time.monotonic()
    with pytest.raises(DeadlineExceededError):
        hanging.call(lambda page: page.evaluate("while (true) {}"), within_s=0.5)
    assert time.monotonic() - started < 60
    assert not hanging.alive
    with pytest.raises(BrowserLostError):
        hanging.call(lambda page: page.title())
    assert other.call(lambda page: page.evaluate("1 + 1"), within_s=60) == 2


@pytest.mark.slow
def test_a_browser_that_does_not_answer_is_replaced():
    browser = Browser()
    try:
        tab = browser.open()
        pids = list(browser.pids)
        os.kill(pids[0], signal.SIGSTOP)
        with pytest.raises(DeadlineExceededError):
            tab.call(lambda page: page.evaluate("1"), within_s=0.5)
        assert gone(pids)
        assert browser.open().call(lambda page: page.evaluate("1 + 1")) == 2
    finally:
        browser.close()


@pytest.mark.slow
def test_tabs_are_told_when_their_browser_dies():
    browser = Browser()
    try:
        tab = browser.open()
        os.kill(browser.pids[0], signal.SIGKILL)
        with pytest.raises(BrowserLostError):
            tab.call(lambda page: page.wait_for_timeout(5000))
        assert browser.open().call(lambda page: page.evaluate("1 + 1")) == 2
    finally:
        browser.close()


def test_tabs_share_nothing(server, tabs):
    first, second = tabs(address(server)), tabs(address(server))
    for tab in (first, second):
        tab.call(lambda page: page.goto(f"http://{address(server)}/"))
    first.call(lambda page: page.evaluate("localStorage.secret = 1"))
    first.call(lambda page: page.context.clear_cookies())
    assert second.call(lambda page: page.evaluate("[document.cookie, localStorage.length]")) == ["visited=yes", 0]


DIARY = """
<style>@keyframes wide { to { width: 300px } } #box { width: 10px; animation: wide 60s forwards }</style><div id=box></div>
<script>
diary = [];
setInterval(() => diary.push(['tick', Date.now(), Math.random()]), 100);
setTimeout(() => Promise.resolve().then(() => diary.push(['once', performance.now(), crypto.randomUUID()])), 150);
requestAnimationFrame((at) => diary.push(['frame', at]));
</script>
"""


def test_chance_and_time_are_pinned(tabs):
    seen = []
    for seed in (1, 1, 2):
        tab = tabs(pinned=Pinned(seed))
        tab.call(lambda page: page.goto("about:blank"))
        tab.call(lambda page: page.set_content(DIARY))
        tab.call(lambda page: page.wait_for_timeout(200))
        assert tab.call(lambda page: page.evaluate("diary")) == [], "the clock goes on only when it is told to"
        seen.append(tab.call(lambda page: page.evaluate("__branchwise.advance(250).then(() => diary)")))
    assert [entry[0] for entry in seen[0]] == ["frame", "tick", "once", "tick"]
    assert [entry[1] for entry in seen[0]] == [16, START_MS + 100, 150, START_MS + 200]
    assert seen[0] == seen[1] and seen[0] != seen[2]
    assert tab.call(lambda page: page.evaluate("box.offsetWidth")) == 300, "animations of style sheets are brought to their end"
    assert tab.call(lambda page: page.evaluate("[new Date() instanceof Date, new Date(5).getTime(), typeof Date()]")) == [True, 5, "string"]


def test_timers_without_end_do_not_hang_the_clock(tabs):
    tab = tabs(pinned=Pinned())
    tab.call(lambda page: page.set_content("<script>n = 0; setInterval(() => n++, 0)</script>"))
    assert tab.call(lambda page: page.evaluate("__branchwise.advance(1e9).then(() => n)"), within_s=20) == 10_000


USER = """
import sys, time
from envs.web.browser import shared_browser
tab = shared_browser().open()
print(*shared_browser().pids, flush=True)
if sys.argv[1] == "wait":
    time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["exit", "wait"])
def test_nothing_is_left_running_at_exit_or_when_the_parent_is_killed(end):
    with subprocess.Popen([sys.executable, "-c", USER, end], stdout=subprocess.PIPE, text=True) as user:
        assert user.stdout is not None
        pids = [int(pid) for pid in user.stdout.readline().split()]
        assert len(pids) == 2
        if end == "wait":
            assert all(map(alive, pids))
            user.kill()
        user.wait(60)
    assert gone(pids)


def test_another_browser_can_be_named(tmp_path, monkeypatch):
    monkeypatch.setenv("BRANCHWISE_BROWSER", str(tmp_path / "mine"))
    assert find_chromium() is None
    with pytest.raises(BrowserMissingError, match=r"BRANCHWISE_BROWSER names '.*mine', which is no program"):
        Browser().open()
    (tmp_path / "mine").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "mine").chmod(0o755)
    assert find_chromium() == str(tmp_path / "mine")
    with pytest.raises(BrowserMissingError, match=r"mine does not start .* set BRANCHWISE_BROWSER to another browser"):
        Browser().open()
