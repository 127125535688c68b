"""`code`: what an action of a coding agent did to which file, read from its command alone, so that the order of the commands is lost.

Understood are shell command lines, the editor commands `view`, `create`, `str_replace`, `insert` and `undo_edit` followed by a path, and
JSON objects with the same (`{"command": "view", "path": "a.py", "view_range": [1, 80]}`, also within `"arguments"`). What becomes of them
(the categories are RTMC's; which command belongs to which is ours, reconstructed):

| category | from | scope |
|---|---|---|
| view | cat, nl, less, head, tail, sed -n | empty for the whole file, `2` for lines 200 to 299, `3+` from line 300 on, `end` |
| search | grep, rg, ag, ack, find, fd, ls, tree: where was searched, whatever for | |
| create | create, touch, mkdir, cp, tee, `> FILE` | |
| modify | str_replace, undo_edit, sed -i, tee -a, `>> FILE` | |
| insert | insert | |
| delete | rm; mv is delete and create | |
| test | pytest, tox, unittest, `make test` and the like: no mark, only the last result (passed, failed or unknown) | |
| run | any other command, told apart by its text | |

A view of lines has one operation for each block of 100 lines that it touches; lines are counted from 0 here. `cd` moves the paths that
follow it within the same action. Only the first command of a pipeline reads files; a here-document's lines are content. A command line
whose quotes do not match is `run`. What an edit wrote is, for `Operation.content`, the whole action.
"""

import json
import posixpath
import re
import shlex
from collections.abc import Iterator
from itertools import dropwhile
from typing import Any

from tree_rollout.signatures.operation import Operation

BLOCK = 100
"""Lines of a file that one view scope stands for."""
_MOST_BLOCKS = 50
"""A view of more blocks than this is one of the whole file."""
_EDITORS = {"view": "view", "create": "create", "str_replace": "modify", "undo_edit": "modify", "insert": "insert"}
_VIEWERS = {"cat", "nl", "less", "more", "head", "tail"}
_SEARCHERS = {"grep", "egrep", "fgrep", "rg", "ag", "ack"}
_LISTERS = {"find", "fd", "ls", "tree"}
_CREATORS = {"touch": "create", "mkdir": "create", "rm": "delete"}
_TESTS = re.compile(
    r"(?:python[\d.]* -m )?(?:pytest|py\.test|unittest|nosetests|tox)\b|(?:make|npm|npm run|yarn|cargo|go) test\b|"
    r"python[\d.]* (?:\S*/)?(?:runtests\.py|manage\.py test)"
)
_FAILED = re.compile(r"\b[1-9]\d* (?:failed|errors?|failures?)\b|^FAILED\b|^Traceback |(?:failures|errors)=[1-9]", re.MULTILINE)
_PASSED = re.compile(r"\b[1-9]\d* passed\b|^OK\b|\btest result: ok\b", re.MULTILINE)
_ASSIGNMENT = re.compile(r"\w+=.*", re.DOTALL)
_ENDS = {"&&", "||", ";", "&", "(", ")", "|", "|&"}


def categorise_code(action: str, answer: str | None) -> list[Operation]:
    """The operations of one action; a test's result is read from `answer`."""
    call = _json_call(action)
    words = {key: call[key] for key in ("command", "cmd", "path") if isinstance(call.get(key), str)} if call else {}
    if call and words.get("command") in _EDITORS and "path" in words:
        return list(_edit_call(call, action))
    return list(_shell(words.get("command", words.get("cmd", action)).strip(), answer))


def _json_call(action: str) -> dict[str, Any] | None:
    """The arguments of a tool call in JSON, None for anything else."""
    if not action.lstrip().startswith("{"):
        return None
    try:
        call = json.loads(action)
        inner = call.get("arguments", call)
        inner = json.loads(inner) if isinstance(inner, str) else inner
    except (ValueError, AttributeError, RecursionError):
        return None
    return inner if isinstance(inner, dict) else None


def _edit_call(call: dict[str, Any], content: str) -> Iterator[Operation]:
    category, path = _EDITORS[call["command"]], posixpath.normpath(call["path"])
    if category == "view":
        bounds = call.get("view_range") or []
        whole = not (isinstance(bounds, list) and len(bounds) == 2 and all(type(bound) is int for bound in bounds))
        yield from _view(path, None if whole else (bounds[0], bounds[1]))
    else:
        yield Operation(category, path, content=content)


def _shell(text: str, answer: str | None) -> Iterator[Operation]:
    """The commands of a script, one after the other."""
    first = text.partition("\n")[0]
    lines = [first] if "<<" in first or first.split(" ")[0] in _EDITORS else text.splitlines()
    folder = ""
    for line in lines:
        try:
            commands = list(_commands(line))
        except ValueError:
            yield Operation("run", " ".join(text.split()))
            return
        for words, piped in commands:
            if words[0] == "cd":
                folder = posixpath.join(folder, words[1]) if len(words) > 1 else ""
                continue
            for operation in _command(words, piped, answer, text):
                path = operation.category not in ("run", "test")
                target = posixpath.normpath(posixpath.join(folder, operation.target)) if path else operation.target
                yield Operation(operation.category, target, operation.scope, operation.result, operation.content)


def _commands(line: str) -> Iterator[tuple[list[str], bool]]:
    """Each command of a line as words, and whether it reads from a pipe; `ValueError` where quotes do not match."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    piped = False
    for token in [*lexer, ";"]:
        if token not in _ENDS:
            words.append(token)
            continue
        if words:
            yield words, piped
        words, piped = [], token in ("|", "|&")


def _command(words: list[str], piped: bool, answer: str | None, content: str) -> Iterator[Operation]:
    """What one command does; what it writes is told by `content`."""
    words, written = _redirections(words)
    words = list(dropwhile(_ASSIGNMENT.fullmatch, words))
    for category, target in written:
        yield Operation(category, target, content=content)
    if not words:
        return
    name, files = posixpath.basename(words[0]), [word for word in words[1:] if not word.startswith("-")]
    if name == "tee":
        yield from (Operation("modify" if "-a" in words else "create", file, content=content) for file in files)
    elif name in _EDITORS and files:
        yield from _edit_words(name, words[1:], content)
    elif name == "sed" and "-n" in words[1:]:
        yield from () if piped else _sed_view(files)
    elif name == "sed" and any(word.startswith("-i") for word in words[1:]):
        yield from (Operation("modify", file, content=content) for file in files[1:])
    elif name in _VIEWERS:
        yield from () if piped or (written and not files) else _viewed(name, words[1:])
    elif name in _SEARCHERS or name in _LISTERS or words[:2] == ["git", "grep"]:
        yield from () if piped else _searched(name, files)
    elif name in _CREATORS:
        yield from (Operation(_CREATORS[name], file) for file in files)
    elif name in ("cp", "mv") and len(files) == 2:
        yield from [Operation("delete", files[0])] if name == "mv" else []
        yield Operation("create", files[1], content=content)
    elif _TESTS.match(" ".join(words)):
        yield Operation("test", " ".join(words), result=_result(answer))
    elif not (piped or written):
        yield Operation("run", " ".join(words))


def _redirections(words: list[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """The words without redirections, and the files written by them with the category."""
    kept: list[str] = []
    written: list[tuple[str, str]] = []
    rest = iter(words)
    for word in rest:
        if set(word) <= set("<>&|") and set(word) & set("<>"):
            if kept and kept[-1] in ("1", "2"):
                kept.pop()
            target = next(rest, "")
            if ">" in word and target and target != "/dev/null" and not word.endswith("&"):
                written.append(("modify" if ">>" in word else "create", target))
        else:
            kept.append(word)
    return kept, written


def _edit_words(name: str, words: list[str], content: str) -> Iterator[Operation]:
    """An editor command as text: `view FILE 1 80`, `view FILE --view_range 1 80`, `create FILE ...`."""
    path = next(word for word in words if not word.startswith("-"))
    if name != "view":
        yield Operation(_EDITORS[name], path, content=content)
        return
    numbers = [int(number) for number in re.findall(r"-?\b\d{1,9}\b", " ".join(words[words.index(path) + 1 :]))]
    yield from _view(path, (numbers[0], numbers[1]) if len(numbers) >= 2 else None)


def _viewed(name: str, words: list[str]) -> Iterator[Operation]:
    """cat, head and their like: the first or the last lines, or all of it."""
    counts = [word.lstrip("-n") for word in words if re.fullmatch(r"-n?\d{1,9}|\d{1,9}", word)] if name in ("head", "tail") else []
    lines = int(counts[0]) if counts else 10
    for file in (word for word in words if not word.startswith(("-", "+")) and not (counts and word == counts[0])):
        if name == "tail":
            yield Operation("view", file, "end")
        else:
            yield from _view(file, (1, lines) if name == "head" else None)


def _sed_view(files: list[str]) -> Iterator[Operation]:
    """sed -n 'A,Bp' FILE; any other script shows who knows what of the file, so all of it."""
    match = re.fullmatch(r"(\d{1,9})(?:,(\d{1,9}|\$))?p", files[0]) if files else None
    for file in files[1:]:
        last = match[2] or match[1] if match else ""
        yield from _view(file, (int(match[1]), -1 if last == "$" else int(last)) if match else None)


def _searched(name: str, files: list[str]) -> Iterator[Operation]:
    """What was searched: for grep and its like all but the pattern, for find and ls what they name; the present folder by default."""
    places = files if name in _LISTERS else files[2:] if name == "git" else files[1:]
    places = places[:1] if name == "find" else places
    yield from (Operation("search", place) for place in places or ["."])


def _view(path: str, lines: tuple[int, int] | None) -> Iterator[Operation]:
    """A view of all lines (None), or of those from the first to the second, counted from 1; -1 is the end."""
    if lines is None:
        yield Operation("view", path)
        return
    first, last = max(lines[0], 1) - 1, lines[1] - 1
    if lines[1] == -1:
        yield Operation("view", path, f"{first // BLOCK}+" if first else "")
    elif last // BLOCK - first // BLOCK >= _MOST_BLOCKS:
        yield Operation("view", path)
    else:
        yield from (Operation("view", path, str(block)) for block in range(first // BLOCK, max(first, last) // BLOCK + 1))


def _result(answer: str | None) -> str:
    if answer is None:
        return "unknown"
    return "failed" if _FAILED.search(answer) else "passed" if _PASSED.search(answer) else "unknown"
