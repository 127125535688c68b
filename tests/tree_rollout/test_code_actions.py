import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tree_rollout.signatures.code_actions import categorise_code


@pytest.mark.parametrize(
    ("action", "marks"),
    [
        ("cat src/a.py", ["view@src/a.py"]),
        ("cat src/../a.py b.py", ["view@a.py", "view@b.py"]),
        ("view a.py", ["view@a.py"]),
        ("view a.py 1 100", ["view:0@a.py"]),
        ("view a.py 100 101", ["view:0@a.py", "view:1@a.py"]),
        ("view a.py --view_range 150 310", ["view:1@a.py", "view:2@a.py", "view:3@a.py"]),
        ("view a.py 301 -1", ["view:3+@a.py"]),
        ("view a.py 1 -1", ["view@a.py"]),
        ("view a.py 1 100000", ["view@a.py"]),
        ('{"command": "view", "path": "a.py", "view_range": [201, 210]}', ["view:2@a.py"]),
        ('{"name": "editor", "arguments": {"command": "insert", "path": "a.py", "insert_line": 3}}', ["insert@a.py"]),
        ('{"name": "editor", "arguments": "{\\"command\\": \\"create\\", \\"path\\": \\"a.py\\"}"}', ["create@a.py"]),
        ('{"name": "bash", "arguments": {"command": "cat a.py"}}', ["view@a.py"]),
        ("head -n 20 a.py", ["view:0@a.py"]),
        ("head -250 a.py", ["view:0@a.py", "view:1@a.py", "view:2@a.py"]),
        ("tail -n 3 a.py", ["view:end@a.py"]),
        ("sed -n '120,180p' a.py", ["view:1@a.py"]),
        ("sed -n '120,$p' a.py", ["view:1+@a.py"]),
        ("sed -n '/def/p' a.py", ["view@a.py"]),
        ("sed -i 's/a/b/' a.py", ["modify@a.py"]),
        ("grep -rn 'x y' src lib", ["search@src", "search@lib"]),
        ("grep x a.py", ["search@a.py"]),
        ("grep y a.py", ["search@a.py"]),
        ("git grep x src", ["search@src"]),
        ("rg x", ["search@."]),
        ("find . -name '*.py'", ["search@."]),
        ("ls -la src", ["search@src"]),
        ("cat a.py | grep x", ["view@a.py"]),
        ("cat a.py > /dev/null 2>&1", ["view@a.py"]),
        ("cat > f.py <<'EOF'\nimport os\nrm -rf /\nEOF", ["create@f.py"]),
        ("echo 'x; y' >> log.txt", ["modify@log.txt"]),
        ("echo x | tee -a log.txt", ["run@echo x", "modify@log.txt"]),
        ("str_replace a.py\nold\nnew", ["modify@a.py"]),
        ("mv a.py b.py", ["delete@a.py", "create@b.py"]),
        ("rm -f a.py && touch b.py", ["delete@a.py", "create@b.py"]),
        ("cd src && cat a.py; cd .. && cat a.py", ["view@src/a.py", "view@a.py"]),
        ("LANG=C python run.py --fast", ["run@python run.py --fast"]),
        ("echo 'no end", ["run@echo 'no end"]),
        ("", []),
        ("cd src", []),
    ],
)
def test_the_table_of_categories(action: str, marks: list[str]) -> None:
    assert [operation.mark for operation in categorise_code(action, "")] == marks


@pytest.mark.parametrize(
    "command", ["pytest -q tests", "python -m pytest", "python3 -m unittest -v", "tox", "make test", "cargo test", "FAST=1 pytest"]
)
@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ("== 3 passed in 1s ==", "passed"),
        ("== 1 failed, 3 passed in 1s ==", "failed"),
        ("Ran 3 tests\n\nOK\n", "passed"),
        ("Ran 3 tests\n\nFAILED (failures=1)", "failed"),
        ("test result: ok. 3 passed; 0 failed", "passed"),
        ("Traceback (most recent call last):\n  ...", "failed"),
        ("2 errors during collection", "failed"),
        ("nothing was collected", "unknown"),
        (None, "unknown"),
    ],
)
def test_a_test_leaves_its_result(command: str, answer: str | None, result: str) -> None:
    operations = categorise_code(f"{command} 2>&1 | tail -5", answer)
    assert [(operation.category, operation.result) for operation in operations] == [("test", result)]


def test_what_an_edit_wrote_is_kept() -> None:
    one, other = (categorise_code(f"str_replace a.py\nold\n{new}", "")[0] for new in ("x", "y"))
    assert one.mark == other.mark and one.content != other.content


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="abc .,/'\"\\|&;<>(){}[]:-0123456789\n=$~`", max_size=60), st.none() | st.text(max_size=20))
def test_any_text_has_operations(action: str, answer: str | None) -> None:
    for prefix in ("", "view ", "sed -n ", "head -", "{", "cat > ", "find "):
        for operation in categorise_code(prefix + action, answer):
            assert operation.category and isinstance(operation.mark, str)
