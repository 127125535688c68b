from pathlib import Path
from typing import Any

import pytest
from dangerous_world import make, make_slow_to_close, make_unforkable
from random_world import ENV_ID
from sampler_world import agent, engine, frozen, grow, settings, tasks

from envs.errors import AbilityError
from tree_rollout.env_host import EnvHost, EnvProcessError, EnvProcessLostError
from tree_rollout.errors import SamplerError
from tree_rollout.remote_env import EnvHosts
from tree_rollout.sampler import Sampler
from tree_rollout.sampler_report import SamplerReport
from tree_rollout.stepping import EnvContractError
from tree_rollout.stop_reason import StopReason


def sample(seeds: range, env_kwargs: dict[str, object] | None = None, **changes: Any) -> SamplerReport:
    with Sampler(engine(), make, agent(), settings(env_processes=2, **changes)) as sampler:
        return sampler.sample(tasks(seeds, **(env_kwargs or {})), run_seed=0)


@pytest.mark.parametrize("schedule", ["lockstep", "continuous"])
def test_trees_are_the_same_as_with_environments_in_this_process(schedule: str):
    report = sample(range(6), schedule=schedule)
    assert [frozen(tree) for tree in report.trees] == [frozen(tree) for tree in grow(range(6)).trees]
    assert report.env_s > 0 and not report.failures


def test_what_comes_out_of_a_process_is_never_unpickled_here():
    tree = sample(range(1), keep_snapshots=True, forks=0, branching="none").trees[0]
    assert all(type(turn.snapshot) is bytes for turn in tree.turns)


@pytest.mark.parametrize(
    ("deed", "message"),
    [("raise", "ZeroDivisionError: the oven is cold"), ("quit", "SystemExit: sys.exit(5)"), ("lie", "TypeError: cannot unpack")],
)
def test_a_fault_is_named_and_the_others_go_on(deed: str, message: str):
    report = sample(range(3), {"deed": deed})
    assert {failure.task.seed for failure in report.failures} == {1} and message in report.failures[0].message
    assert report.stop_reasons[StopReason.ENV_ERROR] == len(report.failures) > 0


def test_a_process_that_ends_takes_its_environments_with_it_and_is_replaced():
    hosts = EnvHosts(make, 1)
    first, second = hosts.make(ENV_ID, deed="leave"), hosts.make(ENV_ID)
    first.reset(seed=1), second.reset(seed=2)
    first.step("a"), first.step("b")
    with pytest.raises(EnvProcessLostError, match="exit code 3"):
        first.step("c")
    with pytest.raises(EnvProcessLostError):
        second.step("a")
    first.close(), second.close()
    third = hosts.make(ENV_ID)
    assert third.reset(seed=3)[0].startswith("task 3")
    hosts.close()


def test_a_step_that_cannot_be_interrupted_is_ended_with_its_process():
    report = sample(range(2), {"deed": "hang", "step_deadline_s": 0.5}, roots=2, forks=0, branching="none")
    assert report.stop_reasons[StopReason.STEP_TIMEOUT] >= 1
    assert {failure.task.seed for failure in report.failures if failure.reason is StopReason.STEP_TIMEOUT} == {1}
    assert sum(report.stop_reasons.values()) == 4


def test_environments_in_one_process_do_not_wait_for_each_other():
    hosts = EnvHosts(make, 1)
    slow, quick = hosts.make(ENV_ID, deed="hang"), hosts.make(ENV_ID)
    slow.reset(seed=1), quick.reset(seed=0)
    slow.step("a"), slow.step("b")
    host = slow._host
    with pytest.raises(TimeoutError):
        host.call(slow._number, "step", "c", within_s=0.1)
    assert quick.step("a")[0]
    slow.close()
    assert not host.alive
    hosts.close()


def test_what_the_user_can_mend_is_raised_as_it_is():
    sampler = Sampler(engine(), make_unforkable, agent(), settings(env_processes=1))
    with sampler, pytest.raises(AbilityError, match="this world takes no snapshots"):
        sampler.sample(tasks(range(2)), run_seed=0)


def test_an_answer_that_is_none_ends_the_host():
    host = EnvHost(make)
    with pytest.raises(EnvProcessError, match="AttributeError"):
        host.call(0, "make", ENV_ID, {}) and host.call(0, "nothing")
    host.end()
    with pytest.raises(EnvProcessLostError):
        host.call(0, "reset", 0)


def test_what_lived_in_a_process_that_ended_is_not_handed_out_again():
    with Sampler(engine(), make, agent(), settings(env_processes=1, roots=2, forks=0, branching="none")) as sampler:
        hanging = sampler.sample(tasks(range(2), deed="hang", step_deadline_s=0.5), run_seed=0)
        assert hanging.failures
        report = sampler.sample(tasks(range(4), deed="hang", step_deadline_s=0.5)[2:], run_seed=0)
    assert not report.failures and len(report.trees) == 2


def test_a_process_that_ends_while_others_are_made_in_it_fails_rollouts_and_no_more():
    report = sample(range(4), {"deed": "leave"}, env_threads=4, roots=1, forks=0, branching="none", schedule="continuous")
    assert {failure.reason for failure in report.failures} == {StopReason.ENV_ERROR} and len(report.trees) == 4


def test_a_request_for_a_closed_environment_leaves_its_neighbours_alone():
    hosts = EnvHosts(make, 1)
    closed, other = hosts.make(ENV_ID), hosts.make(ENV_ID)
    other.reset(seed=0)
    closed.close()
    assert not closed.alive and other.alive
    with pytest.raises(EnvContractError, match="is closed"):
        closed.snapshot()
    assert other.step("a")[0]
    hosts.close()
    assert not other.alive


def test_an_environment_has_time_to_close(tmp_path: Path):
    hosts = EnvHosts(make_slow_to_close, 1)
    env = hosts.make(ENV_ID, marker=str(tmp_path / "closed"))
    env.reset(seed=0)
    env.close()
    assert (tmp_path / "closed").exists()
    hosts.close()


def test_a_maker_that_cannot_be_sent_is_one_sentence():
    with (
        Sampler(engine(), lambda env_id: make(env_id), agent(), settings(env_processes=1)) as sampler,
        pytest.raises(SamplerError, match="give a function of a module"),
    ):
        sampler.sample(tasks(range(1)), run_seed=0)
