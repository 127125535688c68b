import numpy as np
import pytest

import envs
from envs import AbilityError, EnvironmentArgumentError, check_env
from envs.answer import Answer, read_reset, read_step
from envs.checking import fork_checks
from envs.web.miniwob.basics import MiniWobBasicsEnv
from envs.web.miniwob.env import MiniWobEnv
from envs.web.miniwob.expert import SOLVERS
from envs.web.miniwob.pages import PAGES, STABLE, folder
from envs.web.view import quoted_words


@pytest.fixture
def make():
    made: list[envs.TextEnv] = []

    def make_env(*tasks: str, **arguments) -> MiniWobEnv:
        env = MiniWobEnv(tasks=tasks or None, **arguments)
        made.append(env)
        return env

    yield make_env
    for env in made:
        env.close()


def test_every_page_of_the_package_is_known():
    assert set(PAGES) == {file.stem for file in folder().glob("*.html")} and len(PAGES) == 130
    assert len(STABLE) >= 125 and "chase-circle" not in STABLE


def test_a_task_is_solved_step_by_step(make):
    env = make("enter-text")
    observation, info = env.reset(seed=0)
    assert observation == 'Your task is to: Enter "Juan" into the text field and press Submit.\n\n[1] textbox\n[2] button "Submit"'
    assert info == {"valid": True, "success": False, "task_type": "enter-text"}
    observation, reward, terminated, truncated, info = env.step("fill('1', 'Juan')")
    assert observation.startswith('[1] textbox value="Juan" focused') and (reward, terminated, truncated) == (0.0, False, False)
    observation, reward, terminated, truncated, info = env.step("click('2')")
    assert (observation, reward, terminated, info["success"]) == ("The episode is over.", 1.0, True, True)
    assert env.step("click('2')")[1:3] == (0.0, True) and env.admissible_actions() == ["noop()"]


def test_the_reward_is_raw_and_may_be_negative(make):
    env = make("enter-text")
    env.reset(seed=0)
    for _ in range(3):
        env.step("noop(60000)")
    _, reward, terminated, _, info = env.step("click('2')")
    assert (reward, terminated, info["success"]) == (-1.0, True, False)
    env.reset(seed=0)
    env.step("noop(60000)")
    env.step("fill('1', 'Juan')")
    assert env.step("click('2')")[1] == 1.0, "it does not decay with time"


def test_what_is_no_action_is_said_and_costs_a_turn(make):
    env = make("click-test-2", max_turns=2)
    env.reset(seed=0)
    before = env.state_signature()
    observation, reward, terminated, truncated, info = env.step("click the button")
    assert observation.startswith("Error: that is no action; write one such as click('1').\n\n[1] button")
    assert (reward, terminated, truncated, info["valid"]) == (0.0, False, False, False) and env.state_signature() == before
    assert env.step("goto('http://example.org')")[3] is True


def test_a_screenshot_comes_with_every_answer_where_it_is_asked_for(make):
    env = make("click-test", screenshot=True)
    _, info = env.reset(seed=0)
    assert info["screenshot"].startswith(b"\x89PNG")
    assert "screenshot" not in make("click-test").reset(seed=0)[1]


def test_splits_have_no_task_in_common(make):
    seeds = [
        {(env.reset(seed=seed), env.page_seed)[1] for seed in range(20)} for env in (make("click-test"), make("click-test", split="test"))
    ]
    assert all(seed % 2 == 0 for seed in seeds[0]) and all(seed % 2 == 1 for seed in seeds[1])


def test_states_reached_in_another_order_are_the_same(make):
    env = make("click-checkboxes")
    signatures = []
    for order in ("12", "21"):
        env.reset(seed=0)
        for ref in order:
            env.step(f"click('{ref}')")
        env.step("focus('3')")
        env.step("mouse_move(0, 0)")
        signatures.append(env.state_signature().rpartition(" ")[0])
    assert signatures[0] == signatures[1]


def by_chance(env: MiniWobEnv, seed: int, steps: int) -> tuple[list[str], list[Answer]]:
    rng = np.random.default_rng(seed)
    actions: list[str] = []
    answers = [read_reset(env, env.reset(seed=seed))]
    while len(actions) < steps and not answers[-1].ended:
        listed = [*env.admissible_actions(), "mouse_click(80, 120)", "mouse_drag_and_drop(60, 90, 110, 150)"]
        actions.append(listed[int(rng.integers(len(listed)))])
        answers.append(read_step(env, env.step(actions[-1])))
    return actions, answers


@pytest.mark.slow
@pytest.mark.parametrize("name", ["book-flight", "drag-box", "email-inbox", "use-slider"])
def test_a_page_that_is_called_stable_is(make, name):
    used, fresh = make(name), make(name)
    played = [by_chance(used, seed, 3) for seed in range(2)]
    for env in (used, fresh):
        for seed, (actions, answers) in reversed(list(enumerate(played))):
            again = [read_reset(env, env.reset(seed=seed)), *(read_step(env, env.step(action)) for action in actions)]
            assert again == answers


@pytest.mark.slow
def test_the_expert_reaches_full_reward_on_its_pages():
    for name in SOLVERS:
        env = MiniWobBasicsEnv(tasks=[name])
        try:
            for seed in (0, 1):
                env.reset(seed=seed)
                reward, ended = 0.0, False
                while not ended:
                    _, reward, terminated, truncated, _ = env.step(env.expert_action())
                    ended = terminated or truncated
                assert reward == 1.0, (name, seed)
        finally:
            env.close()


def test_a_careless_demonstrator_clicks_anything_of_the_right_kind():
    env = MiniWobBasicsEnv(tasks=["click-test-2"])
    try:
        env.reset(seed=0)
        right = env.expert_action()
        rng = np.random.default_rng(0)
        assert {env.demonstrator(rng, careless=0.0)() for _ in range(5)} == {right}
        assert {env.demonstrator(rng, careless=1.0)() for _ in range(30)} == {"click('1')", "click('2')"} > {right}
        with pytest.raises(EnvironmentArgumentError, match="no habit 'carelss'; did you mean careless"):
            env.demonstrator(rng, carelss=0.5)
        with pytest.raises(EnvironmentArgumentError, match="from 0 to 1"):
            env.demonstrator(rng, careless=2)
    finally:
        env.close()


def test_an_expert_on_a_page_that_is_spoilt_waits():
    env = MiniWobBasicsEnv(tasks=["click-dialog"])
    try:
        env.reset(seed=0)
        env.step(env.expert_action())
        assert env.expert_action() == "noop()"
    finally:
        env.close()
    with pytest.raises(EnvironmentArgumentError, match="no script solves the page drag-box"):
        MiniWobBasicsEnv(tasks=["drag-box"])
    with pytest.raises(AbilityError):
        MiniWobEnv(tasks=["click-test"]).expert_action()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"tasks": ["click-tset"]}, "did you mean click-test"),
        ({"tasks": []}, "it must be a list of pages"),
        ({"tasks": ["click-test", "click-test"]}, "name each page once"),
        ({"tasks": ["chase-circle"]}, "cannot be forked"),
        ({"split": "valid"}, "choose one of test, train"),
        ({"max_turns": 0}, "at least 1"),
        ({"screenshot": 1}, "true or false"),
    ],
)
def test_arguments_that_cannot_be_are_refused(arguments, complaint):
    with pytest.raises(EnvironmentArgumentError, match=complaint):
        MiniWobEnv(**arguments)


def test_fields_are_filled_with_what_the_task_names():
    assert quoted_words('Enter "a b" and "c".') == ("a b", "c")
    assert quoted_words("Enter 01/18/2010 as the date, now.") == ("Enter", "01/18/2010", "as", "the", "date", "now")


def test_an_environment_outlives_its_browser(make):
    env = make("click-test-2")
    first = env.reset(seed=3)
    env._tab.close()
    assert env.reset(seed=3) == first


@pytest.mark.slow
def test_what_is_declared_is_proved(monkeypatch):
    monkeypatch.setattr(fork_checks, "_MOST_KEPT", 10)  # Snapshots that are replayed hold nothing but text.
    report = check_env("branchwise/MiniWobBasics-v0", seeds=1, steps=4, tasks=["click-checkboxes"])
    assert report.passed, str(report)
