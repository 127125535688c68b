"""The shop in a browser does, action by action, what the shop as text does; its server shows a visit to its visitor alone."""

import contextlib
import http.client
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import envs
from envs.web.browser import AllowedHosts, shared_browser
from envs.web.shop.browser_env import ShopBrowserEnv
from envs.web.shop.catalogue import shared_catalogue
from envs.web.shop.html_page import html_page
from envs.web.shop.server import COOKIE, ShopServer, Visit, shared_server
from envs.web.shop.session import Page, Session, follow, links

CATALOGUE = shared_catalogue(1_000, 0)
HOSTILE = "</h1><script>alert('a')</script><img src=x onerror=alert('b')>\"'&amp;"


@pytest.fixture(scope="module")
def browser():
    env = ShopBrowserEnv(max_turns=12)
    yield env
    env.close()


@pytest.fixture(scope="module")
def server():
    server = ShopServer()
    yield server
    server.close()


class Hostile:
    """A catalogue whose only product says what would be harmful in a page."""

    def product(self, place):
        return replace(CATALOGUE.product(0), brand=HOSTILE, material=HOSTILE, attributes=(HOSTILE,) * 4)

    def find(self, query):
        return (0,)

    def query(self, text):
        return text


# Both front ends


def actions(env, rng):
    """Random play, with actions among it that are not possible, or are written otherwise."""
    listed = env.admissible_actions()
    action = listed[int(rng.integers(len(listed)))]
    others = ["search[coffee table]", "search[ ]", "click[Buy]", "click[Search]", "dance", "", action.upper(), action.replace("[", "[  ")]
    return others[int(rng.integers(len(others)))] if rng.random() < 0.4 else action


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "policy"), [(0, "random"), (1, "random"), (2, "random"), (0, "expert")])
def test_both_front_ends_agree_action_by_action(browser, seed, policy):
    text, rng, ended = envs.make("branchwise/Shop-v0", max_turns=12), np.random.default_rng(seed), False
    answer: list[Any] = []
    (said, _), (seen, _) = text.reset(seed=seed), browser.reset(seed=seed)
    assert said.partition("\n\n")[0] == seen.partition("\n\n")[0], "the task"
    while not ended:
        assert text.expert_action() == browser.expert_action() and text.admissible_actions() == browser.admissible_actions()
        action = text.expert_action() if policy == "expert" else actions(text, rng)
        said, *answer = text.step(action)
        seen, *shown = browser.step(action)
        assert answer == shown and text.state_signature() == browser.state_signature(), action
        if answer[-1]["valid"]:
            names = {name.replace('\\"', '"') for name in re.findall(r'button "(.*?)"(?: \[pressed\])?$', seen, re.MULTILINE)}
            assert names == set(links(CATALOGUE, text.snapshot()[1])) or names == {"Search"}, "the tree shows what can be clicked"
            for line in re.findall(r"^\[\w+x\] (.*)$", said, re.MULTILINE):
                assert line in seen, "titles and prices"
        else:
            assert said == seen == "Nothing happens."
        ended = answer[1] or answer[2]
    assert policy == "random" or answer[0] == 1.0


@pytest.mark.slow
def test_a_fork_is_a_copy_of_the_visit(browser):
    browser.reset(seed=4)
    browser.step(browser.expert_action())
    snapshot = browser.snapshot()
    expected = [browser.step(browser.expert_action()) for _ in range(2)]
    other = ShopBrowserEnv(max_turns=12)
    for env in (browser, other, browser):
        env.restore(snapshot)
        assert env.snapshot() == snapshot
        assert [env.step(env.expert_action()) for _ in range(2)] == expected
    held = len(shared_server()._visits)
    other.close()
    assert len(shared_server()._visits) == held - 1, "a closed environment leaves no visit"
    browser.restore(snapshot)
    browser.step("click[Back to Search]")
    assert len(shared_server()._visits) == held - 1, "a fork takes the place of the visit before"


@pytest.mark.slow
def test_a_lost_tab_costs_a_rollout_and_not_the_environment(browser):
    browser.reset(seed=4)
    browser._tab.close()
    observation, *_, info = browser.step("search[coffee table]")
    assert info["valid"] and "Page 1 of" in observation


# Pages


@pytest.mark.parametrize("page", [page for page in Page if page is not Page.SEARCH])
def test_what_products_say_is_escaped(page):
    session = Session(page, "table", 1, 0, ("",) * len(CATALOGUE.product(0).options))
    written = html_page(Hostile(), session, HOSTILE)  # pyright: ignore[reportArgumentType]
    assert "<script" not in written and "<img" not in written and "&lt;script&gt;" in written


@pytest.mark.slow
def test_hostile_titles_do_nothing_in_a_browser(server):
    session = Session(Page.ITEM, "table", 1, 0, ("",) * len(CATALOGUE.product(0).options))
    key = server.open(Visit(Hostile(), HOSTILE, session))  # pyright: ignore[reportArgumentType]
    tab = shared_browser().open(AllowedHosts((server.address,)))
    try:
        tab.call(lambda page: tab.context.add_cookies([{"name": COOKIE, "value": key, "url": server.url}]))
        tab.call(lambda page: page.goto(server.url))
        assert HOSTILE in tab.call(lambda page: page.inner_text("h1"))
        assert not tab.dialogs and tab.call(lambda page: page.locator("script, img").count()) == 0
    finally:
        tab.close()


# The server


def ask(server, method="GET", path="/", key="", form="", **headers):
    """The status and the body of an answer."""
    with contextlib.closing(http.client.HTTPConnection(server.address, timeout=10)) as connection:
        connection.request(method, path, body=form or None, headers={"Cookie": f"{COOKIE}={key}", **headers})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def visit(server):
    return server.open(Visit(CATALOGUE, "Buy a table.", Session()))


def test_a_visit_goes_on_by_forms(server):
    key, other = visit(server), visit(server)
    assert "Buy a table." in ask(server, key=key)[1]
    assert ask(server, "POST", "/search", key, "words=coffee+table")[0] == 303
    assert server.visit(key).session == follow(CATALOGUE, Session(), "search[coffee table]")
    assert ask(server, "POST", "/click", key, "label=Next+%3E")[0] == 303 and server.visit(key).session.number == 2
    assert ask(server, "POST", "/click", key, "label=Buy+Now")[0] == 303 and server.visit(key).session.number == 2
    assert server.visit(other).session == Session(), "another visitor notices nothing"


def test_only_who_holds_the_key_sees_a_visit(server):
    key = visit(server)
    assert ask(server)[0] == ask(server, key="x" * 43)[0] == ask(server, key=key[:-1])[0] == 403
    assert ask(server, key=key, Host="shop.example.org")[0] == 403, "a name that was made to resolve to this machine"
    assert ask(server, "POST", "/search", "", "words=table")[0] == 403
    server.end(key)
    assert ask(server, key=key)[0] == 403
    assert len({visit(server) for _ in range(50)}) == 50 and len(key) >= 43


@pytest.mark.parametrize(
    ("method", "path", "form", "status"),
    [("GET", "/click", "", 404), ("GET", "/../x", "", 404), ("POST", "/", "a=b", 400), ("POST", "/search", "words=" + "a" * 2**20, 400)],
)
def test_other_requests_are_refused(server, method, path, form, status):
    try:
        assert ask(server, method, path, visit(server), form)[0] == status
    except (BrokenPipeError, ConnectionResetError):
        assert status == 400, "refused before all of it was sent"


def test_the_server_listens_on_this_machine_alone(server):
    assert server._http.server_address[0] == "127.0.0.1"
    connection = http.client.HTTPConnection(server.address, timeout=10)
    connection.request("GET", "/", headers={"Cookie": f"{COOKIE}={visit(server)}"})
    answer = connection.getresponse()
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"] and answer.headers["Cache-Control"] == "no-store"
    connection.close()
