import io
from collections.abc import Callable

from rich.console import Console

from trainer.progress import Progress
from trainer.statistics import Proportion


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def plain(act: Callable[[Progress, Clock], None]) -> list[str]:
    """What `act` prints where stdout is no terminal."""
    console, clock = Console(file=io.StringIO(), width=60), Clock()
    with Progress(console, clock=clock) as progress:
        act(progress, clock)
    return console.file.getvalue().splitlines()  # pyright: ignore


def test_plain_lines_are_periodic_and_the_last_one_of_a_stage_is_never_lost() -> None:
    def act(progress: Progress, clock: Clock) -> None:
        progress.stage("warm start", 100)
        for done in range(1, 101):
            clock.now += 1
            progress.update(done, loss=2.0 - done / 100)
        progress.stage("learning", 10)
        for done in range(1, 4):
            clock.now += 1
            progress.update(done, tokens=1000 * done)

    lines = plain(act)
    assert lines[0] == "warm start: 100 to do"
    assert lines[1] == "warm start 1/100; loss 1.99; 0:01 elapsed, 1:39 left"
    assert lines[2] == "warm start 11/100; loss 1.89; 0:11 elapsed, 1:29 left"
    ends = [line for line in lines if line.startswith("warm start 100/100")]
    assert ends == ["warm start 100/100; loss 1; 1:40 elapsed"]
    assert lines[-1] == "learning 3/10; tokens generated 3,000; 1:43 elapsed, 0:07 left"
    assert len(lines) < 18


def test_an_interrupted_run_keeps_its_last_figures() -> None:
    console, clock = Console(file=io.StringIO(), width=60), Clock()
    try:
        with Progress(console, clock=clock) as progress:
            progress.stage("learning", 10)
            for done in (1, 2):
                clock.now += 1
                progress.update(done, tokens=done)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        pass
    assert console.file.getvalue().splitlines()[-1] == "learning 2/10; tokens generated 2; 0:02 elapsed, 0:08 left"  # pyright: ignore


def test_figures_are_written_by_their_kind() -> None:
    def act(progress: Progress, clock: Clock) -> None:
        progress.stage("learning", 2)
        progress.update(1, train_success=0.25, merge_rate=0.381, sampled=Proportion(81, 263), lr=5e-4, phase="sampling")
        clock.now += 20
        progress.update(2, train_success=0.75)

    line = plain(act)[-1]
    assert "training success 75.0 % (mean of 2: 50.0 %)" in line
    assert "held-out success, sampled 30.8 % [25.5, 36.6]" in line
    assert "states merged 38.1 %" in line
    assert "lr 0.0005" in line
    assert "phase sampling" in line


def test_time_left_counts_what_this_run_did() -> None:
    def act(progress: Progress, clock: Clock) -> None:
        progress.stage("learning", 100, done=90)
        clock.now += 30
        progress.update(95)

    assert plain(act) == ["learning: 10 to do", "learning 95/100; 0:30 elapsed, 0:30 left"]


def test_messages_are_printed_as_they_are() -> None:
    assert plain(lambda progress, clock: progress.message("saved [bold]x[/bold] " + "y" * 80)) == ["saved [bold]x[/bold] " + "y" * 80]


def test_terminal_shows_a_picture_and_keeps_the_end_of_every_stage() -> None:
    console, clock = Console(file=io.StringIO(), width=100, force_terminal=True, record=True), Clock()
    with Progress(console, clock=clock) as progress:
        progress.stage("warm start", 2)
        progress.update(2, loss=0.5)
        progress.stage("learning", 60)
        for done in range(1, 13):
            clock.now += 5
            progress.update(done, tokens=9000 * done, train_success=done / 20, branches=64)
        picture = Console(file=io.StringIO(), width=100)
        picture.print(progress.render())
        progress.message("a checkpoint was written")
    drawn = picture.file.getvalue()  # pyright: ignore
    for words in (
        "learning  12/60",
        "1:00 elapsed, 4:00 left",
        "tokens generated  108,000",
        "60.0 % (mean of 5: 50.0 %)",
        "branches",
        "▁▁▂▂▃▃▃▄▄▅",
    ):
        assert words in drawn.replace("    ", "  "), drawn
    shown = console.export_text()
    assert "warm start 2/2; loss 0.5; 0:00 elapsed" in shown
    assert "a checkpoint was written" in shown
    assert "12/60" in shown.rstrip().splitlines()[-4], "the last picture stays"


def test_picture_fits_a_narrow_terminal_and_an_empty_stage() -> None:
    console = Console(file=io.StringIO(), width=30, force_terminal=True)
    with Progress(console, clock=Clock()) as progress:
        progress.render()
        progress.stage("nothing", 0)
        progress.update(0, train_success=1.0)
        console.print(progress.render())
