"""A new environment begins as one that keeps the whole contract: two files that pass `branchwise check` as they are written."""

import importlib.util
import keyword
import re
from importlib.resources import files
from pathlib import Path

from envs.errors import ScaffoldError

_NAME = re.compile(r"[a-z][a-z0-9_]*")


def write_environment(name: str, folder: Path) -> list[Path]:
    """Write `NAME.py` and `test_NAME.py` and return their paths; nothing that exists is overwritten.

    The environment is called `mine/Name-v0`, with the underscores of `name` left out and the letters after them capital.
    """
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ScaffoldError(f"{name!r} is no name for a module; use small letters, digits and underscores, for example treasure_hunt")
    paths = [folder / f"{name}.py", folder / f"test_{name}.py"]
    for path in paths:
        if path.exists():
            raise ScaffoldError(f"{path} exists already; choose another name, or another folder with --out")
    if importlib.util.find_spec(name) is not None:
        raise ScaffoldError(f"a Python module is called {name} already, and yours would hide it; choose another name")
    words = {"NAME": name, "TITLE": "".join(word.capitalize() for word in name.split("_"))}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, template in zip(paths, ("environment.py.txt", "test_environment.py.txt"), strict=True):
            text = files(__name__).joinpath(template).read_text(encoding="utf-8")
            path.write_text(re.sub(r"@(NAME|TITLE)@", lambda match: words[match[1]], text), encoding="utf-8")
    except OSError as error:
        raise ScaffoldError(f"{error.filename or folder} cannot be written: {error.strerror}; choose another folder with --out") from error
    return paths
