"""Every error of the package is one the command line turns into a sentence and exit code 2, and crosses process borders whole."""

import pickle

import pytest

from envs import errors
from envs.errors import EnvsError, nearest

ERRORS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, EnvsError)]


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_survives_pickling(kind):
    error = kind("split is 'trian'; did you mean train?")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind and str(again) == str(error) and again.exit_code == 2


@pytest.mark.parametrize(
    ("kind", "standard"),
    [
        (errors.UnknownEnvironmentError, LookupError),
        (errors.EnvironmentArgumentError, ValueError),
        (errors.EnvironmentImportError, ImportError),
        (errors.AbilityError, AttributeError),
        (errors.NoEpisodeError, RuntimeError),
    ],
)
def test_an_error_is_also_of_the_standard_kind(kind, standard):
    assert issubclass(kind, standard) and issubclass(kind, EnvsError)


def test_the_nearest_words_are_named_and_all_where_none_is_near():
    assert nearest("trian", ("train", "valid_seen", "valid_unseen")) == "did you mean train?"
    assert nearest("valid", ("train", "valid_seen", "valid_unseen")) == "did you mean valid_seen or valid_unseen?"
    assert nearest("x", ("b", "a")) == "choose one of a, b"
