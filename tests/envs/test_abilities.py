"""What an environment can do is judged where it is declared, and shown as words."""

import pytest

from envs import Abilities, EnvironmentArgumentError, ForkKind


def test_a_kind_can_be_named_or_given():
    assert Abilities(fork="process") == Abilities(fork=ForkKind.PROCESS)
    assert Abilities(fork="process").fork is ForkKind.PROCESS
    assert Abilities().fork is ForkKind.NONE


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"fork": "exakt"}, "fork kind 'exakt' is unknown; did you mean exact"),
        ({"fork": None}, "fork kind None is unknown; did you mean none"),
        ({"expert": "yes"}, "ability expert is 'yes'; it must be True or False"),
        ({"portable": 1}, "ability portable is 1"),
        (
            {"fork": "replay", "deterministic": False},
            "cannot be forked by replay; declare the fork kind process, or none",
        ),
    ],
)
def test_what_cannot_be_declared_is_named(declared, message):
    with pytest.raises(EnvironmentArgumentError, match=message):
        Abilities(**declared)


def test_only_an_environment_that_copies_itself_has_snapshots_that_travel():
    assert {kind for kind in ForkKind if "portable" in Abilities(fork=kind).words} == {ForkKind.EXACT, ForkKind.SANDBOX}
    assert {kind for kind in ForkKind if Abilities(fork=kind).copies_itself} == {ForkKind.EXACT, ForkKind.SANDBOX}
    assert "portable" not in Abilities(fork="exact", portable=False).words
    assert Abilities(fork="exact", admissible=True).words == ("fork:exact", "deterministic", "signature", "portable", "admissible")
