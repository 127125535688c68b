"""Imitation of the environment's demonstrator is the warm start of `train`, kept in the same place: whichever comes first makes it."""

from trainer.local_backend import LocalBackend, local_backend
from trainer.sft.sft_run import SftRun
from trainer.start_policy import untrained
from trainer.warm_start import WarmStart


def imitate_demonstrator(run: SftRun, resume: bool) -> None:
    """Make the start policy of the configuration, or find it, and measure it as it was built and as it was taught."""
    checkpoint = run.newest() if resume else None
    warm_start = WarmStart(run.config)
    with warm_start.held(run.progress, run.stop):
        report = warm_start.report()
        warm_start.build(run.progress)
        if report is None or checkpoint is None:
            run.progress.stage("starting processes", total=1)
            with local_backend(untrained(run.config), warm_start.initial, warm_start.initial) as backend:
                if checkpoint is None:
                    _begin(run, backend)
                if report is None:
                    report = warm_start.teach(backend, run.progress, run.stop)
                else:
                    run.progress.message(f"an earlier run has made this policy already, in {report.minutes:.1f} minutes")
    if run.state.step == 0:
        run.progress.stage("starting processes", total=1)
        with local_backend(untrained(run.config), warm_start.policy, warm_start.policy) as backend:
            _end(run, warm_start, backend)


def _begin(run: SftRun, backend: LocalBackend) -> None:
    """Measure the policy as it was built."""
    with run.metrics() as metrics:
        metrics.append({"iteration": 0, **_validated(run, backend), **run.evaluate(backend.rollout, "the start")})
    run.save(backend, backend.learner.tensors())
    run.stop.check()


def _end(run: SftRun, warm_start: WarmStart, backend: LocalBackend) -> None:
    """Measure the taught policy, and write down the course that it took."""
    state, report = run.state, warm_start.report()
    assert report is not None, "the policy was taught before"
    with run.metrics() as metrics:
        state.step, state.unique_tokens, state.flattened_tokens = report.steps, report.tokens, report.tokens
        state.seconds["training"] = 60 * report.minutes
        last = {**_validated(run, backend), **run.evaluate(backend.rollout, "the end")}
        course = warm_start.course() or [{}]
        first = report.steps - len(course) + 1
        for step, record in enumerate(course, first):
            metrics.append({"iteration": step, **record, **(last if step == report.steps else {})})
    run.save(backend, backend.learner.tensors())


def _validated(run: SftRun, backend: LocalBackend) -> dict[str, float]:
    """The loss on held-out demonstrations; nothing where none are."""
    settings = run.config.warmstart
    share = run.config.sft.held_out_share
    if not share:
        return {}
    episodes = max(1, round(share * settings.episodes))
    run.progress.stage("recording held-out demonstrations", total=1)
    with run.state.timing("validation"):
        parts = backend.learning.call("demonstrated_loss", [(episodes,)] * run.config.run.shards)
    weight = sum(part["weight"] for part in parts)
    run.state.source = {"episodes": settings.episodes, "held_out": episodes}
    return run.validated(sum(part["loss"] for part in parts) / weight) if weight else {}
