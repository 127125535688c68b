"""A package that an extra brings is imported where it is needed, and its absence is an error that says what to type."""

from importlib import import_module
from types import ModuleType

from agents.errors import MissingPackageError


def imported(name: str, extra: str, what: str) -> ModuleType:
    """The module `name`, which `what` needs and the extra `extra` installs."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingPackageError(missing_package(error.name or name, extra, what)) from error


def missing_package(name: str, extra: str, what: str) -> str:
    """The error's sentence."""
    return f'{what} needs the package {name}; type: pip install "branchwise[{extra}]"'
