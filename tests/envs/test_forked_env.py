"""A process fork is an exact copy of a simulator that nothing else can copy; it ends when it should, and never outlives its program."""

import gc
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from uncopied_world import UncopiedEnv

import envs
from envs import Abilities, AbilityError, EnvironmentArgumentError, ForkLimitError
from envs.deadline import DeadlineExceededError
from envs.forking import fork_process, fork_server
from envs.forking.choice import forkable
from envs.forking.fork_server import ForkServer, shared_server
from envs.forking.forkable_env import ForkableEnv
from envs.forking.forked_env import ForkedEnv
from envs.forking.state_process import ProcessEndedError, ProcessFaultError, StateProcess

ROOT = Path(__file__).parents[2]


@pytest.fixture
def env() -> Iterator[ForkedEnv]:
    env = ForkedEnv(UncopiedEnv, {"max_turns": 30, "shared": True})
    yield env
    env.close()


@pytest.fixture
def other() -> Iterator[ForkedEnv]:
    env = ForkedEnv(UncopiedEnv, {"max_turns": 30, "shared": True})
    yield env
    env.close()


def play(env: envs.TextEnv, *actions: str) -> list[Any]:
    return [(*env.step(action), env.state_signature()) for action in actions]


def running(pid: int) -> bool:
    """Whether a process is there and has not ended; one that nobody has buried yet has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone_within(pid: int, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while running(pid) and time.monotonic() < end:
        time.sleep(0.01)
    return not running(pid)


# Copies


def test_the_simulator_cannot_be_copied_in_any_other_way():
    env = UncopiedEnv()
    env.reset(seed=0)
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(env)


def test_it_behaves_as_it_does_here(env):
    here = UncopiedEnv(max_turns=30)
    assert env.reset(seed=5) == here.reset(seed=5)
    actions = ("a", "bad", "ccc", "a", "win")
    assert play(env, *actions) == play(here, *actions)
    assert (env.admissible_actions(), env.expert_action()) == (here.admissible_actions(), here.expert_action())


def test_a_copy_goes_on_as_the_original_does(env, other):
    env.reset(seed=5)
    play(env, "a", "bb")
    snapshot, signature = env.snapshot(), env.state_signature()
    ahead = play(env, "a", "ccc", "bb", "win")
    for world in (other, env, other, env):
        world.restore(snapshot)
        assert world.state_signature() == signature
        assert play(world, "a", "ccc", "bb", "win") == ahead


def test_siblings_and_their_parent_see_nothing_of_each_other(env, other):
    env.reset(seed=5)
    play(env, "a")
    snapshot = env.snapshot()
    reference = {}
    for action in ("a", "bb", "ccc"):
        env.restore(snapshot)
        reference[action] = play(env, *[action] * 4)
    env.restore(snapshot)
    other.restore(snapshot)
    third = ForkedEnv(UncopiedEnv, {})  # The arguments come with the snapshot's process.
    third.restore(snapshot)
    rounds = [[play(world, action)[0] for world, action in ((env, "a"), (other, "bb"), (third, "ccc"))] for _ in range(4)]
    third.close()
    assert [list(said) for said in zip(*rounds, strict=True)] == [reference["a"], reference["bb"], reference["ccc"]]


def test_a_snapshot_costs_no_process_until_someone_moves(env):
    env.reset(seed=5)
    before = shared_server().live
    snapshots = [env.snapshot() for _ in range(5)]
    assert shared_server().live == before
    env.step("a")
    assert shared_server().live == before + 1
    env.restore(snapshots[0])
    assert shared_server().live == before, "the copy that nobody kept has ended"
    env.step("a")
    del snapshots
    gc.collect()
    assert shared_server().live == before


def test_a_snapshot_outlives_its_environment(other):
    env = ForkedEnv(UncopiedEnv, {})
    env.reset(seed=5)
    snapshot = env.snapshot()
    ahead = play(env, "a")
    env.close()
    other.restore(snapshot)
    assert play(other, "a") == ahead


def test_the_fork_manager_replays_where_a_snapshot_has_travelled():
    env = forkable(Abilities(fork="process"), UncopiedEnv, {})
    env.reset(seed=5)
    play(env, "a", "bb")
    snapshot = env.snapshot()
    ahead = play(env, "a", "win")
    travelled = pickle.loads(pickle.dumps(snapshot))
    assert snapshot.native is not None and travelled.native is None and travelled == snapshot
    env.restore(travelled)
    assert play(env, "a", "win") == ahead
    os.kill(snapshot.native.snapshot[0].pid, 9)
    assert gone_within(snapshot.native.snapshot[0].pid)
    env.restore(snapshot)
    assert play(env, "a", "win") == ahead, "the process that held the state is gone, the way to it is not"
    env.close()


def test_what_is_not_deterministic_is_forked_all_the_same():
    env = forkable(Abilities(fork="process", deterministic=False), UncopiedEnv, {"drift": True})
    env.reset(seed=5)
    env.reset(seed=5)
    play(env, "a")
    snapshot = env.snapshot()
    ahead = play(env, "a", "bb")
    for _ in range(2):
        env.restore(snapshot)
        assert play(env, "a", "bb") == ahead
    with pytest.raises(AbilityError, match="not deterministic cannot be replayed"):
        env.restore(pickle.loads(pickle.dumps(snapshot)))
    env.close()


# Faults


def test_a_step_that_hangs_ends_at_its_deadline_and_so_does_its_process():
    env = ForkedEnv(UncopiedEnv, {"deadline_s": 0.3})
    env.reset(seed=5)
    snapshot, pid = env.snapshot(), env.snapshot()[0].pid
    started = time.monotonic()
    with pytest.raises(DeadlineExceededError, match=r"no answer within 0.3 s"):
        env.step("hang")
    assert time.monotonic() - started < 5 and running(pid), "the state before it is still there"
    env.restore(snapshot)
    assert env.step("a")[0] != ""
    hung = env._process.pid
    with pytest.raises(DeadlineExceededError):
        env.step("hang")
    assert gone_within(hung)
    with pytest.raises(ProcessEndedError, match="was ended; reset it"):
        env.step("a")
    assert env.reset(seed=5)[0] == UncopiedEnv().reset(seed=5)[0], "a reset makes a new process"
    env.close()


def test_a_process_that_is_stopped_altogether_is_ended_too():
    env = ForkedEnv(UncopiedEnv, {"deadline_s": 0.3})
    env.reset(seed=5)
    pid = env._process.pid
    env.suspend()
    with pytest.raises(DeadlineExceededError):
        env.step("a")
    assert gone_within(pid)


def test_closing_ends_a_step_that_hangs_in_another_thread(env):
    env.reset(seed=5)
    pid = env._process.pid
    faults: list[BaseException] = []

    def hang() -> None:
        try:
            env.step("hang")
        except BaseException as fault:
            faults.append(fault)

    thread = threading.Thread(target=hang)
    thread.start()
    time.sleep(0.2)
    env.close()
    thread.join(10)
    assert not thread.is_alive() and isinstance(faults[0], ProcessEndedError) and gone_within(pid)


def test_a_process_that_dies_says_how(env):
    env.reset(seed=5)
    with pytest.raises(ProcessEndedError, match=r"the process of this environment ended with exit code 7$"):
        env.step("die")
    env.reset(seed=5)
    os.kill(env._process.pid, 9)
    with pytest.raises(ProcessEndedError, match="exit code -9; it may have run out of memory"):
        env.step("a")


def test_an_error_of_the_environment_is_an_error_here(env):
    env.reset(seed=5)
    with pytest.raises(ProcessFaultError, match="ValueError: no such luck"):
        env.step("raise")
    assert play(env, "a"), "the process goes on"
    with pytest.raises(EnvironmentArgumentError, match="max_turns is 0"):
        ForkedEnv(envs.registry.construction(envs.spec("branchwise/Household-v0"), {})[0], {"max_turns": 0})


def test_threads_would_be_lost_and_are_refused(env):
    env.reset(seed=5)
    env.step("thread")
    snapshot = env.snapshot()
    with pytest.raises(AbilityError, match="has threads, which a forked process would lose; declare that it forks by replay"):
        env.step("a")
    del snapshot


def test_what_cannot_be_sent_is_one_sentence():
    with pytest.raises(EnvironmentArgumentError, match=r"cannot be sent to another process .*; name it as text, module:attribute"):
        ForkedEnv(lambda: UncopiedEnv(), {})


def test_the_number_of_processes_is_bounded(monkeypatch):
    server = ForkServer(limit=3)
    monkeypatch.setattr(fork_server, "_shared", {None: server})
    env = ForkedEnv(UncopiedEnv, {})
    env.reset(seed=5)
    kept = []
    with pytest.raises(ForkLimitError, match="3 copies of environments in processes are alive, as many as may be; let go of snapshots"):
        for _ in range(9):
            kept.append(env.snapshot())
            env.step("a")
    assert server.live == 3 == len(kept)
    with pytest.raises(ForkLimitError):
        ForkedEnv(UncopiedEnv, {})
    del kept[:2]
    assert play(env, "a"), "there is room again"
    env.close()
    del kept, env
    gc.collect()
    assert server.live == 0
    server.close()


def test_the_bound_can_be_set(monkeypatch):
    monkeypatch.setenv("BRANCHWISE_MAX_FORKS", "11")
    server = ForkServer()
    assert server.limit == 11
    server.close()
    for wrong in ("0", "many", "-1"):
        monkeypatch.setenv("BRANCHWISE_MAX_FORKS", wrong)
        with pytest.raises(EnvironmentArgumentError, match=f"BRANCHWISE_MAX_FORKS is '{wrong}'; it must be a whole number of at least 1"):
            ForkServer()


def test_making_environments_while_the_server_imports_is_refused(monkeypatch):
    monkeypatch.setattr(fork_process, "serving", True)
    with pytest.raises(EnvironmentArgumentError, match="while it is imported"):
        ForkServer()


# Ends


def test_the_dead_are_buried(env):
    env.reset(seed=5)
    pids = []
    for _ in range(5):
        snapshot = env.snapshot()
        env.step("a")
        pids.append(snapshot[0].pid)
    del snapshot
    gc.collect()
    end = time.monotonic() + 5
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < end:
        time.sleep(0.01)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


PROGRAM = """
import os, sys, time
sys.path.insert(0, "tests/envs")
from envs.forking.forked_env import ForkedEnv
from uncopied_world import UncopiedEnv

class Mine(UncopiedEnv):
    "Lives in the main module."

if __name__ == "__main__":
    env = ForkedEnv(Mine, {})
    env.reset(seed=0)
    kept = [(env.snapshot(), env.step("a"))[0] for _ in range(3)]
    print(*[process.pid for process, _ in kept], env._process.pid, flush=True)
    END
"""


@pytest.mark.parametrize("end", ["sys.exit(3)", "os._exit(3)", "os.kill(os.getpid(), 9)", "env.step('hang')"])
def test_nothing_outlives_the_program(tmp_path, end):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.replace("END", end))
    program = subprocess.Popen([sys.executable, str(script)], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE)
    assert program.stdout is not None
    pids = [int(pid) for pid in program.stdout.readline().split()]
    assert len(pids) == 4
    if "hang" in end:
        assert all(running(pid) for pid in pids)
        program.kill()
    program.wait(30)
    program.stdout.close()
    assert all(gone_within(pid) for pid in pids)


def test_a_forked_program_has_a_server_of_its_own_and_ends_nothing_of_ours(env):
    env.reset(seed=5)
    ours, theirs = Pipe()
    child = os.fork()
    if child == 0:
        theirs_env = ForkedEnv(UncopiedEnv, {})
        theirs.send(theirs_env.reset(seed=6)[0])
        env._process.end()
        theirs_env.close()
        os._exit(0)
    assert ours.recv() == UncopiedEnv().reset(seed=6)[0]
    os.waitpid(child, 0)
    assert play(env, "a")


def test_answers_are_never_unpickled(env):
    """A process answers in JSON; anything else ends it."""
    ours, theirs = Pipe()
    process = StateProcess(ours, os.getpid(), type("Nobody", (), {"group": -1, "leave_place": lambda _: None, "why": lambda *_: ""})())
    theirs.send_bytes(pickle.dumps({"value": 1}))
    with pytest.raises(ValueError):
        process.ask("step", "a")


@pytest.mark.parametrize("kind", ["process", "replay"])
def test_vectors_of_environments_that_cannot_copy_themselves(kind):
    def make() -> gym.Env:
        return forkable(Abilities(fork=kind), UncopiedEnv, {"max_turns": 2})

    single = UncopiedEnv()
    for vector in (
        SyncVectorEnv([make] * 2, autoreset_mode=AutoresetMode.DISABLED),
        AsyncVectorEnv([make] * 2, autoreset_mode=AutoresetMode.DISABLED, shared_memory=False),
    ):
        assert vector.reset(seed=[4, 5])[0] == (single.reset(seed=4)[0], single.reset(seed=5)[0])
        observations = vector.step(("a", "bb"))[0]
        single.reset(seed=5)
        assert observations[1] == single.step("bb")[0]
        assert vector.step(("a", "a"))[3].tolist() == [True, True]
        observations, _ = vector.reset(seed=[6, None], options={"reset_mask": np.array([True, False])})
        assert observations[0] == single.reset(seed=6)[0]
        vector.close()


def test_the_manager_is_what_make_gives():
    envs.register_env("tests/Uncopied-v0", UncopiedEnv, abilities=Abilities(fork="process"))
    env = envs.make("tests/Uncopied-v0", max_turns=4)
    assert isinstance(env, ForkableEnv) and isinstance(env.env, ForkedEnv)
    assert isinstance(envs.make_bare("tests/Uncopied-v0"), UncopiedEnv)
    env.close()
    del envs.registry._SPECS["tests/Uncopied-v0"]
