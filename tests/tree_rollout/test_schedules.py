import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sampler_world import Maker, RandomEngine, RandomWorld, agent, engine, frozen, grow, settings, tasks

from agents.engine import Sample
from agents.errors import TurnError
from tree_rollout.errors import SamplerError
from tree_rollout.sampler import Sampler
from tree_rollout.sampler_report import Purpose, SamplerReport
from tree_rollout.stop_reason import StopReason


def doze(env: RandomWorld, action: str) -> None:
    """Take 0 to 6 ms, by chance."""
    time.sleep(float(np.random.default_rng().random()) * 0.006)


def sampler(by: RandomEngine, maker: Maker, **changes: Any) -> Sampler:
    return Sampler(by, maker, agent(), settings(**changes))


def trees_of(report: SamplerReport) -> list[Any]:
    return [frozen(tree) for tree in report.trees]


# ---------------------------------------------------------------- whoever finishes first


@pytest.mark.parametrize("changes", [{}, {"env_threads": 0}, {"max_live": 3}, {"forks": 0, "branching": "none"}])
@pytest.mark.parametrize("schedule", ["lockstep", "continuous"])
def test_trees_do_not_depend_on_who_finishes_first(schedule: str, changes: dict[str, Any]):
    calm = grow(range(8), **{name: value for name, value in changes.items() if name in ("forks", "branching")})
    by = engine()
    hasty = grow(range(8), by, Maker(doze), schedule=schedule, **changes)
    assert trees_of(hasty) == trees_of(calm) and not by.sequences and not by.pending
    assert (hasty.sampled_tokens, hasty.env_steps, hasty.stop_reasons) == (calm.sampled_tokens, calm.env_steps, calm.stop_reasons)


def test_environments_that_take_long_work_at_the_same_time():
    at_work, most, lock = 0, 0, threading.Lock()

    def work(env: RandomWorld, action: str) -> None:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        time.sleep(0.005)
        with lock:
            at_work -= 1

    for schedule in ("lockstep", "continuous"):
        most = 0
        grow(range(6), maker=Maker(work), schedule=schedule, env_threads=4)
        assert most == 4, schedule
        most = 0
        grow(range(2), maker=Maker(work), schedule=schedule, env_threads=0)
        assert most == 1, schedule


def test_cheap_work_is_done_by_the_sampler_itself(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tree_rollout.env_workers.WORTH_A_THREAD_S", 60.0)
    threads: set[str] = set()
    grow(range(6), maker=Maker(lambda env, action: threads.add(threading.current_thread().name)), schedule="continuous")
    assert threads == {threading.current_thread().name}


def test_while_one_environment_is_busy_the_engine_serves_the_others():
    """Task 0 is slow: in lockstep all wait for it, continuously the others are done long before it."""

    def slow(env: RandomWorld, action: str) -> None:
        time.sleep(0.05 if env.task == 0 else 0.002)

    def order(schedule: str) -> list[int]:
        report = SamplerReport()
        with sampler(engine(), Maker(slow), schedule=schedule, forks=0, branching="none", max_turns=4) as running:
            return [tree.seed for tree in running.stream(tasks(range(4)), run_seed=0, report=report)]

    assert order("continuous")[-1] == 0


# ---------------------------------------------------------------- deadlines


@pytest.mark.parametrize("schedule", ["lockstep", "continuous"])
def test_a_rollout_beyond_its_time_is_recorded_and_ends_alone(schedule: str):
    def slow(env: RandomWorld, action: str) -> None:
        if env.task == 1:
            time.sleep(0.6)

    report = grow(range(3), maker=Maker(slow), rollout_deadline_s=1.0, schedule=schedule, roots=2, forks=1, max_turns=8)
    assert report.stop_reasons[StopReason.ROLLOUT_TIMEOUT] >= 1 and report.stop_reasons[StopReason.STEP_TIMEOUT] == 0
    assert {failure.task.seed for failure in report.failures} == {1}
    assert all(failure.reason.failed and "the rollout's time in its environment" in failure.message for failure in report.failures)
    undisturbed = grow(range(3), roots=2, forks=1, max_turns=8)
    assert [trees_of(report)[place] for place in (0, 2)] == [trees_of(undisturbed)[place] for place in (0, 2)]


def test_the_steps_own_deadline_is_named_where_it_is_the_shorter_one():
    maker = Maker(lambda env, action: time.sleep(1), step_deadline_s=0.05)
    report = grow([0], maker=maker, rollout_deadline_s=30.0, roots=2, forks=0, branching="none")
    assert report.stop_reasons == {StopReason.STEP_TIMEOUT: 2}


@pytest.mark.parametrize("method", ["reset", "restore"])
def test_a_reset_or_restore_beyond_its_deadline_is_a_failure(method: str):
    class Stuck(RandomWorld):
        reset_deadline_s = 0.05

    def hang(*args: Any, **kwargs: Any) -> None:
        time.sleep(1.5)

    def make(env_id: str) -> Stuck:
        env = Stuck()
        setattr(env, method, hang)
        return env

    with Sampler(engine(), make, agent(), settings(roots=3, forks=0, branching="none")) as running:
        report = running.sample(tasks([0]), run_seed=0)
    assert report.stop_reasons[StopReason.STEP_TIMEOUT] == (3 if method == "reset" else 2)


# ---------------------------------------------------------------- pausing


def unversioned(trees: Sequence[Any]) -> list[Any]:
    """The trees without what says which weights sampled a turn."""
    version = [field for field in range(len(trees[0][3][0])) if trees[0][3][0][field] == 7]
    return [[*tree[:3], [[value for place, value in enumerate(turn) if place not in version] for turn in tree[3]]] for tree in trees]


@pytest.mark.parametrize("schedule", ["lockstep", "continuous"])
def test_a_paused_tree_goes_on_under_later_weights_and_every_turn_names_its_own(schedule: str):
    whole = sorted(unversioned(trees_of(grow(range(10)))), key=lambda tree: tree[1])
    by, maker = engine(), Maker(doze if schedule == "continuous" else None)
    with sampler(by, maker, schedule=schedule) as running:
        first = running.sample(tasks(range(6)), run_seed=0, finish=3)
        assert len(first.trees) >= 3 and first.paused_trees == 6 - len(first.trees) > 0
        assert not by.pending and by.sequences
        assert {turn.policy_version for tree in first.trees for turn in tree.turns} == {7}
        by.version = 8
        second = running.sample(tasks(range(6, 10)), run_seed=0)
    assert second.paused_trees == 0 and len(first.trees) + len(second.trees) == 10 and not by.sequences
    versions = [{turn.policy_version for turn in tree.turns} for tree in second.trees]
    assert {7, 8} in versions and {8} in versions
    for tree in first.trees + second.trees:
        for turn in tree.turns:
            turn.policy_version = 7
    assert sorted(unversioned(trees_of(first) + trees_of(second)), key=lambda tree: tree[1]) == whole


def test_lockstep_pauses_at_the_same_place_every_time():
    def run() -> list[Any]:
        with sampler(engine(), Maker(doze)) as running:
            reports = [running.sample(tasks(range(6)), run_seed=0, finish=2), running.sample(tasks(range(6, 8)), run_seed=0, iteration=1)]
        return [trees_of(report) for report in reports]

    assert run() == run()


def test_what_is_paused_is_dropped_when_the_sampler_closes():
    by, maker = engine(), Maker()
    with sampler(by, maker) as running:
        assert running.sample(tasks(range(6)), run_seed=0, finish=1).paused_trees > 0
        assert by.sequences
    assert not by.sequences and all(env.closed for env in maker.made)


@pytest.mark.parametrize("finish", [0, 3, True, 1.0])
def test_no_more_trees_can_finish_than_there_are(finish: Any):
    with sampler(engine(), Maker()) as running, pytest.raises(SamplerError, match="from 1 to 2"):
        running.sample(tasks(range(2)), run_seed=0, finish=finish)


# ---------------------------------------------------------------- how much at once


@pytest.mark.parametrize("schedule", ["lockstep", "continuous"])
def test_no_more_rollouts_run_than_may_and_no_tree_starts_before_there_is_room(schedule: str):
    by = engine()
    seen: list[int] = []
    fork = by.fork
    by.fork = lambda handle, length: (seen.append(len(by.sequences)), fork(handle, length))[1]
    report = grow(range(12), by, roots=3, forks=0, branching="none", max_live=6, schedule=schedule)
    assert len(report.trees) == 12 and max(seen) < 6
    assert max(len(batch) for batch in by.batches) <= 6


def test_a_slow_reader_slows_the_sampler():
    resets: list[RandomWorld] = []
    with sampler(engine(), Maker(reset_fault=resets.append), max_live=3) as running:
        report = SamplerReport()
        stream = running.stream(tasks(range(20)), run_seed=0, report=report)
        first = next(stream)
        begun = len(resets)
        assert begun <= 3 and frozen(first) == frozen(grow([first.seed]).trees[0])
        assert len(list(stream)) == 19 and len(resets) == 20


def test_a_reader_that_leaves_drops_the_rest():
    by, maker = engine(), Maker()
    with sampler(by, maker) as running:
        stream = running.stream(tasks(range(5)), run_seed=0, report=SamplerReport())
        next(stream)
        stream.close()  # type: ignore[attr-defined]
        assert not by.sequences
        assert trees_of(running.sample(tasks(range(5)), run_seed=0)) == trees_of(grow(range(5)))


# ---------------------------------------------------------------- faults


@pytest.mark.parametrize("fault", [RuntimeError, KeyboardInterrupt])
def test_after_a_fault_of_the_engine_late_answers_reach_nobody(fault: type[BaseException]):
    by, maker = engine(), Maker(lambda env, action: time.sleep(0.01))
    with sampler(by, maker, schedule="continuous") as running:
        step = by.step
        by.step = lambda: step() if len(by.batches) < 12 else (_ for _ in ()).throw(fault("lost"))
        with pytest.raises(fault):
            running.sample(tasks(range(6)), run_seed=0)
        assert not by.sequences and not by.pending
        by.step = step
        assert trees_of(running.sample(tasks(range(4)), run_seed=0)) == trees_of(grow(range(4)))


def test_a_turn_that_the_engine_gives_up_is_a_failed_rollout_and_the_others_go_on():
    by, given_up = engine(), 0
    step = by.step

    def lossy() -> list[tuple[int, Sample]]:
        nonlocal given_up
        if by.asked and by.asked[0].seed[2] == 1 and by.asked[0].seed[4] == 2:  # Task 1, third turn.
            given_up += 1
            raise TurnError.of(by.asked.pop(0).handle, "no answer")
        return step()

    by.step = lossy
    report = grow(range(3), by, schedule="continuous")
    assert report.stop_reasons[StopReason.ENGINE_ERROR] == given_up > 0 and not by.sequences
    assert {(failure.task.seed, failure.depth, failure.message) for failure in report.failures} == {(1, 2, "TurnError: no answer")}
    lost = [turn for turn in report.trees[1].turns if turn.stop_reason is StopReason.ENGINE_ERROR]
    assert len(lost) == given_up and all(not len(turn.ids_T) and turn.observation and turn.parent >= 0 for turn in lost)
    calm = grow(range(3))
    assert [trees_of(report)[place] for place in (0, 2)] == [trees_of(calm)[place] for place in (0, 2)]


# ---------------------------------------------------------------- what was spent


@pytest.mark.parametrize("schedule", ["lockstep", "continuous"])
def test_what_was_spent_adds_up(schedule: str):
    report = grow(range(6), maker=Maker(doze), schedule=schedule)
    spent = report.spent
    assert sum(part.rollouts for part in spent.values()) == report.rollouts == sum(report.stop_reasons.values())
    assert sum(part.tokens for part in spent.values()) == report.sampled_tokens
    assert sum(part.steps for part in spent.values()) == report.env_steps
    assert spent[Purpose.FORKS].rollouts == report.branches > 0 and spent[Purpose.ROOTS].rollouts == 18
    assert spent[Purpose.FURTHER_ROOTS].rollouts == 0
    assert 0 < report.engine_idle_share < 1 and 0 < report.env_idle_share < 1
    assert 0 < report.env_busy_s <= report.wall_s and report.env_s >= report.env_busy_s
    assert 0 <= report.rest_s <= report.wall_s
    assert (report.lag_s() >= report.lag_s(0.5) > 0) == (schedule == "continuous")


def test_a_step_budget_stops_new_forks_and_lets_the_rest_finish():
    assert grow(range(10)).branches == 40
    tight = grow(range(10), step_budget=1)
    assert tight.branches == 0 and tight.unforked_trees == 10 and tight.budget_reached
    middle = grow(range(10), step_budget=tight.env_steps * 3 // 4)
    assert 0 < middle.unforked_trees < 10


# ---------------------------------------------------------------- found by trying to break it


@pytest.mark.parametrize("schedule", ["lockstep", "continuous"])
def test_the_first_round_of_slow_work_is_done_together_too(schedule: str):
    at_work, most, lock = 0, 0, threading.Lock()

    def work(env: RandomWorld, action: str) -> None:
        nonlocal at_work, most
        with lock:
            at_work, most = at_work + 1, max(most, at_work + 1)
        time.sleep(0.25)
        with lock:
            at_work -= 1

    grow(range(8), maker=Maker(work), schedule=schedule, roots=1, forks=0, branching="none", max_turns=1)
    assert most > 2


def test_where_the_first_turn_of_a_tree_is_given_up_its_other_roots_go_on():
    by = engine()
    step, given_up = by.step, [0]

    def lossy() -> list[tuple[int, Sample]]:
        for request in by.asked:
            if request.seed[2:] == (1, 0, 0) and not given_up[0]:
                given_up[0] += 1
                by.cancel(request.handle)
                raise TurnError.of(request.handle, "no answer")
        return step()

    by.step = lossy
    maker = Maker()
    report = grow(range(3), by, maker, schedule="continuous")
    assert report.stop_reasons[StopReason.ENGINE_ERROR] == 1 and report.rollouts == 3 * 7 and not by.sequences
    assert len(report.trees[1].leaves()) == 7 and len(maker.made) <= 3 * 4
    assert by.computed == report.prefilled_tokens + report.sampled_tokens


def test_nothing_is_made_for_rollouts_that_were_dropped():
    made: list[RandomWorld] = []

    def slow_maker(env_id: str) -> RandomWorld:
        time.sleep(0.05)
        made.append(RandomWorld())
        return made[-1]

    by = engine()
    by.step = lambda: (_ for _ in ()).throw(RuntimeError("lost"))
    running = Sampler(by, slow_maker, agent(), settings(schedule="continuous", env_threads=2, roots=2))
    with running, pytest.raises(RuntimeError, match="lost"):
        running.sample(tasks(range(12)), run_seed=0)
    before = len(made)
    time.sleep(0.3)
    assert len(made) <= before + 2 and all(env.closed for env in made)


def test_trees_that_are_complete_are_never_paused():
    for seed in range(10):
        with sampler(engine(), Maker(), schedule="continuous", max_live=6) as running:
            report = running.sample(tasks(range(6)), run_seed=seed, finish=1)
            assert all(not growth.tree.turns or growth.live for growth in running._paused)
            assert len(report.trees) + report.paused_trees == 6


def test_a_paused_task_cannot_be_given_again():
    with sampler(engine(), Maker()) as running:
        paused = {0, 1, 2} - {tree.seed for tree in running.sample(tasks(range(3)), run_seed=0, finish=1).trees}
        with pytest.raises(SamplerError, match="is paused"):
            running.sample(tasks(sorted(paused)), run_seed=0)
        running.sample(tasks(sorted(paused)), run_seed=0, iteration=1)


def test_a_close_that_raises_leaves_no_other_environment_open():
    maker = Maker()
    running = sampler(engine(), maker)
    running.sample(tasks(range(3)), run_seed=0)
    maker.made[0].close = lambda: (_ for _ in ()).throw(OSError("stuck"))
    running.close()
    assert all(env.closed for env in maker.made[1:])


def test_a_turn_that_a_stop_text_ends_was_not_cut_off():
    by = engine()
    generate = by.generate
    by.generate = lambda requests: [replace(sample, stopped=False, stop_text="</action>") for sample in generate(requests)]
    assert grow(range(3), by, forks=0, branching="none").cut_turns == 0
    assert grow(range(3), max_new_tokens=1, forks=0, branching="none").cut_turns > 0


@pytest.mark.parametrize("schedule", ["lockstep", "continuous"])
def test_no_call_begins_while_a_stream_is_open(schedule: str):
    by = engine()
    with sampler(by, Maker(), schedule=schedule) as running:
        stream = running.stream(tasks(range(3)), run_seed=0, report=SamplerReport())
        next(stream)
        with pytest.raises(SamplerError, match="still open"):
            running.sample(tasks(range(3, 5)), run_seed=0)
        assert len(list(stream)) == 2
        assert trees_of(running.sample(tasks(range(3, 5)), run_seed=0)) == trees_of(grow(range(3, 5)))
    assert not by.sequences
