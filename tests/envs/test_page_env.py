"""Pages of one's own as tasks: what they show and do is the same every time, and they reach nothing that they were not given."""

import http.server
import socket
import threading
import time

import pytest

import envs
from envs import EnvironmentArgumentError, SuccessCheckError, check_env
from envs.checking import fork_checks
from envs.deadline import DeadlineExceededError
from envs.web import web_env
from envs.web.page.env import PageEnv
from envs.web.page.rooms_env import RoomsEnv
from envs.web.page.site import Site


def solved_by_title(seen):
    return seen.title == "Done" and "<b>" in seen.html and seen.answer is None


def answered(seen):
    return None if seen.answer is None else 0.5 * (seen.answer in seen.text)


@pytest.fixture
def make(tmp_path):
    made: list[PageEnv] = []

    def make_env(html: str, success: str = "document.title === 'Done'", others: dict[str, str] | None = None, **arguments) -> PageEnv:
        folder = tmp_path / "site"
        folder.mkdir(exist_ok=True)
        for name, text in {"index.html": html, **(others or {})}.items():
            (folder / name).write_text(text)
        task = {"start": "index.html", "goal": 'Press "Go".', "success": success}
        made.append(PageEnv(tasks=[task], folder=str(folder), **arguments))
        return made[-1]

    yield make_env
    for env in made:
        env.close()


class Answering(http.server.BaseHTTPRequestHandler):
    delay_s = 0.0

    def do_GET(self):
        time.sleep(self.delay_s)
        self.server.asked.append(self.path)  # pyright: ignore
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Access-Control-Allow-Origin", "*")
        self.end_headers()
        self.wfile.write(b"<title>Served</title><p>Hello</p>")

    def log_message(self, format, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.asked: list[str] = []


@pytest.fixture
def server():
    server = Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def address(server) -> str:
    return f"127.0.0.1:{server.server_address[1]}"


# A task


def test_a_task_in_pages_is_solved_action_by_action(make):
    env = make(
        "<title>Start</title><a href=two.html>On</a>",
        others={"two.html": "<title>Two</title><button onclick='document.title = `Done`'>Go</button>"},
    )
    observation, info = env.reset(seed=0)
    assert observation == 'Your task is to: Press "Go".\n\nStart (/index.html)\n\n[1] link "On"'
    assert info == {"valid": True, "success": False, "task_type": "task-1"}
    assert env.step("click('1')")[0] == 'Two (/two.html)\n\n[1] button "Go"'
    assert env.step("go_forward()")[0].startswith("Error: there is no page to go forward to.\n\nTwo")
    assert env.step("go_back()")[0].startswith("Start (/index.html)")
    assert env.step("go_back()")[0].startswith("Error: there is no page to go back to.")
    assert env.step("goto('https://pages.test/two.html')")[0].startswith("Two (/two.html)")
    observation, reward, terminated, truncated, info = env.step("click('1')")
    assert (observation, reward, terminated, truncated, info["success"]) == ("The episode is over.", 1.0, True, False, True)


@pytest.mark.parametrize(
    ("success", "actions", "rewards"),
    [
        ("test_page_env:solved_by_title", ["click('2')"], [1.0]),
        ("test_page_env:answered", ["noop()", "send_msg_to_user('Tea')"], [0.0, 0.5]),
        ("test_page_env:answered", ["send_msg_to_user('Coffee')"], [0.0]),
        ("answer === null ? 0 : answer === 'Tea' ? 1 : -1", ["send_msg_to_user('Coffee')"], [-1.0]),
        ("window.pressed ? -0.5 : 0", ["noop()", "click('2')"], [0.0, -0.5]),
    ],
)
def test_success_is_checked_in_javascript_or_python(make, success, actions, rewards):
    env = make("<p>Tea</p><b><button onclick='document.title = `Done`; pressed = true'>Go</button></b>", success)
    env.reset(seed=0)
    answers = [env.step(action) for action in actions]
    assert [answer[1] for answer in answers] == rewards and answers[-1][2] is True


def test_a_check_that_fails_says_so_instead_of_calling_the_task_unsolved(make):
    env = make("<p>Hello</p>", "document.querySelector('#missing').value === 'x'")
    with pytest.raises(SuccessCheckError, match=r"#missing.*fails in https://pages.test/index.html: .*TypeError"):
        env.reset(seed=0)
    env = make("<p>Hello</p>", "'yes'")
    with pytest.raises(SuccessCheckError, match="gave 'yes'; it must give true, false, null or a number"):
        env.reset(seed=0)


def test_time_and_chance_follow_from_the_seed_and_go_on_from_page_to_page(make):
    script = "<p id=p></p><script>setInterval(() => p.textContent = `${Date.now() % 1e6} ${Math.random()}`, 100)</script>"
    seen = []
    for seed in (1, 1, 2):
        env = make(f"{script}<a href=two.html>On</a>", others={"two.html": script})
        seen.append((env.reset(seed=seed)[0], env.step("noop(250)")[0], env.step("click('2')")[0]))
    assert seen[0] == seen[1] and all(one != other for one, other in zip(seen[0], seen[2], strict=True))
    times = [int(text.split('text "')[1].split(" ")[0]) for text in seen[0]]
    assert times == sorted(set(times)), "time goes on where another page is loaded"


def test_two_ways_to_the_same_page_are_one_state(make):
    env = make("<button id=a onclick='a.hidden = true'>A</button><button id=b onclick='b.hidden = true'>B</button><p>Rest</p>")
    signatures = []
    for actions in (("click('1')", "click('1')"), ("click('2')", "click('1')")):
        env.reset(seed=0)
        for action in actions:
            env.step(action)
        signatures.append(env.state_signature())
    env.step("goto('https://pages.test/index.html?again')")
    assert signatures[0] == signatures[1] != env.state_signature()


def test_what_is_stored_is_part_of_the_state_and_gone_with_the_episode(make):
    env = make(
        "<button onclick='localStorage.x = 1; document.cookie = `y=1`'>Keep</button><script>document.title = `${document.cookie}`</script>"
    )
    before = env.reset(seed=0)
    first = env.state_signature()
    env.step("click('1')")
    kept = env.state_signature()
    assert env.reset(seed=0) == before and env.state_signature() == first != kept


def test_an_answer_that_takes_long_is_waited_for(make, server, monkeypatch):
    monkeypatch.setattr(Answering, "delay_s", 0.4)
    html = f"<p id=p>-</p><button onclick=\"fetch('http://{address(server)}/').then((r) => p.textContent = r.status)\">Ask</button>"
    env = make(html, allow_hosts=[address(server)])
    env.reset(seed=0)
    assert '[1] text "200"' in env.step("click('2')")[0]


@pytest.mark.slow
def test_the_expert_of_the_example_reaches_full_reward():
    env = RoomsEnv()
    kinds = set()
    for seed in (0, 1, 6, 11, 14):
        env.reset(seed=seed)
        kinds.add(env.task_type)
        reward, ended = 0.0, False
        while not ended:
            _, reward, terminated, truncated, _ = env.step(env.expert_action())
            ended = terminated or truncated
        assert reward == 1.0, seed
    env.reset(seed=0)
    env.step("goto('https://pages.test/done.html')")
    assert env.expert_action() == "go_back()"
    env.close()
    assert kinds == {"cheapest", "cheapest-sea", "named"}


@pytest.mark.slow
def test_what_pages_declare_is_proved(monkeypatch):
    monkeypatch.setattr(fork_checks, "_MOST_KEPT", 10)
    report = check_env("branchwise/PageRooms-v0", seeds=1, steps=4)
    assert report.passed, str(report)


def test_a_site_on_this_machine_is_a_task_too(server):
    task = {"start": f"http://{address(server)}/", "goal": "Look.", "success": "answer === 'Hello'", "name": "look"}
    env = PageEnv(tasks=[task], allow_hosts=[address(server)])
    assert "Served (http://127.0.0.1" in env.reset(seed=0)[0] and server.asked[0] == "/"
    assert env.step("send_msg_to_user('Hello')")[1] == 1.0
    env.close()


# What pages may not do


def test_files_outside_the_folder_are_not_served(tmp_path):
    folder = tmp_path / "site"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "index.html").write_text("here")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    site = Site.parse(str(folder), ())
    assert site.file("https://pages.test/") == folder / "index.html"
    for path in ("../secret.txt", "%2e%2e/secret.txt", "..%2fsecret.txt", "link.txt", "/etc/passwd", "%00", "missing"):
        assert site.file(f"https://pages.test/{path}") is None, path


HOSTILE = """
<p id=p>Quiet</p><a id=file href="file:///etc/passwd">File</a><a href="http://{server}/link">Out</a>
<iframe src="file:///etc/passwd"></iframe><iframe src="http://{server}/frame"></iframe><img src="http://{server}/image">
<link rel=stylesheet href="http://{server}/sheet"><link rel=prefetch href="http://{server}/prefetch">
<a href="data:application/octet-stream,x" download=evil.bin>Download</a><button id=b onclick="attack()">Attack</button>
<script>
  said = [];
  new WebSocket('ws://{server}/socket');
  new EventSource('http://{server}/events');
  navigator.sendBeacon('http://{server}/beacon', 'x');
  fetch('file:///etc/passwd').then(() => said.push('file'), () => 0);
  navigator.serviceWorker.register('worker.js').catch(() => 0);
  const call = new RTCPeerConnection({{ iceServers: [{{ urls: 'stun:127.0.0.1:{udp}' }}] }});
  call.createDataChannel('x');
  call.createOffer().then((offer) => call.setLocalDescription(offer));
  function attack() {{
    for (let i = 0; i < 20; i++) window.open('about:blank#' + i);
    alert('Gotcha');
    p.textContent = confirm('Sure?') + prompt('Name?', 'nobody');
  }}
</script>
"""


def test_a_hostile_page_reaches_nothing(make, server):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(0.3)
        html = HOSTILE.format(server=address(server), udp=udp.getsockname()[1])
        env = make(html, others={"worker.js": "self.addEventListener('fetch', () => 0)"})
        observation, _ = env.reset(seed=0)
        assert "root:" not in observation
        refs = {control.name: control.ref for control in env.view.controls}
        for name in ("File", "Out", "Download"):
            observation, *_ = env.step(f"click('{refs[name]}')")
            assert "(/index.html)" in observation and "root:" not in observation, name
        for url in ("file:///etc/passwd", f"http://{address(server)}/goto", "chrome://version", "javascript:alert(1)", "about:blank"):
            assert env.step(f"goto({url!r})")[0].startswith(f"Error: pages may not go to {url}.\n\n"), url
        with pytest.raises(TimeoutError):
            udp.recv(100)
        tab = env._tab
        assert tab.call(lambda page: page.evaluate("said")) == []
        workers = "navigator.serviceWorker.getRegistrations().then((all) => [all.length, navigator.serviceWorker.controller])"
        assert tab.call(lambda page: page.evaluate(workers)) == [0, None]
        assert server.asked == [] and address(server) in tab.refused
        assert len(tab.context.pages) == 1


def test_windows_open_in_the_page_and_dialogs_are_told(make):
    env = make(
        "<title>One</title><a href=two.html target=_blank>Link</a><form action=two.html target=new><button>Send</button></form>"
        "<button onclick='window.open(`two.html`)'>Open</button><button onclick='alert(`Careful`); confirm(`Sure?`)'>Ask</button>",
        others={"two.html": "<title>Two</title>"},
    )
    for ref in "123":
        env.reset(seed=0)
        assert env.step(f"click('{ref}')")[0].startswith("Two (/two.html"), ref
    env.reset(seed=0)
    assert env.step("click('1', 'middle')")[0].startswith("One (/index.html)")
    assert env.step("click('4')")[0].startswith("The page said: Careful\nThe page said: Sure?\n\nOne (/index.html)")
    assert len(env._tab.context.pages) == 1


def test_a_page_that_hangs_ends_the_episode_and_no_other(make, monkeypatch):
    monkeypatch.setattr(web_env, "CALL_S", 1.0)
    env = make("<button onclick='while (true);'>Hang</button>")
    before = env.reset(seed=0)
    with pytest.raises(DeadlineExceededError):
        env.step("click('1')")
    monkeypatch.undo()
    assert env.reset(seed=0) == before


TASK = {"start": "index.html", "goal": "Go.", "success": "true"}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"tasks": []}, "it must be a list of tables"),
        ({"tasks": ["x"]}, "task 1 is 'x'; it must be a table"),
        ({"tasks": [{**TASK, "gaol": "x"}]}, "task 1 has 'gaol', which means nothing; did you mean goal"),
        ({"tasks": [TASK, {"start": "index.html", "goal": "x"}]}, "task 2 has no success"),
        ({"tasks": [{**TASK, "goal": " "}]}, "goal of task 1 is ' '; it must be text"),
        ({"tasks": [{**TASK, "start": "other.html"}]}, "task 1: start is 'other.html', which is no file in"),
        ({"tasks": [{**TASK, "start": "file:///etc/passwd"}]}, "it must be a page of the folder, or begin with http"),
        ({"tasks": [{**TASK, "start": "http://example.org/"}]}, "pages may not ask example.org; add it to allow_hosts"),
        ({"tasks": [TASK], "folder": None}, "there is no folder; pass folder="),
        ({"tasks": [{**TASK, "success": "no.such:thing"}]}, "cannot be imported"),
        ({"tasks": [{**TASK, "success": "os:name"}]}, "which is no function"),
        ({"tasks": [{**TASK, "success": 3}]}, "it must be a JavaScript expression"),
        ({"folder": "no/such"}, "folder is 'no/such', which is no folder"),
        ({"allow_hosts": ["http://x"]}, "which is no host"),
        ({"split": "valid"}, "choose one of test, train"),
        ({"width": 10}, "from 100 to 4096"),
        ({"screenshot": "yes"}, "true or false"),
    ],
)
def test_arguments_of_pages_that_cannot_be_are_refused(tmp_path, arguments, complaint):
    (tmp_path / "index.html").write_text("x")
    with pytest.raises(EnvironmentArgumentError, match=complaint):
        envs.make("branchwise/Page-v0", **{"tasks": [TASK], "folder": str(tmp_path), **arguments})
