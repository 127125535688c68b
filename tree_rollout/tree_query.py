"""A condition on recorded trees is an expression over the names in `NAMES`; it becomes SQL with parameters, and never runs as code.

`success and depth > 20`, `0 < success_share < 1`, `not forks or advantage_range >= 2 * return_max`, `env in ["branchwise/Household-v0"]`.
"""

import ast
import difflib
from dataclasses import dataclass

from tree_rollout.errors import TreeQueryError

Value = int | float | str | None

NAMES = {
    "tree": "id",
    "iteration": "iteration",
    "position": "position",
    "env": "env_id",
    "seed": "seed",
    "turns": "turns",
    "depth": "depth",
    "rollouts": "rollouts",
    "branches": "branches",
    "failed": "failed",
    "solved": "successes",
    "success": "(successes > 0)",
    "mixed": "(successes > 0 AND successes < rollouts - failed)",
    "success_share": "(1.0 * successes / NULLIF(rollouts - failed, 0))",
    "return_min": "return_min",
    "return_max": "return_max",
    "return_range": "(return_max - return_min)",
    "advantage_min": "advantage_min",
    "advantage_max": "advantage_max",
    "advantage_range": "(advantage_max - advantage_min)",
    "tokens": "sampled_tokens",
    "states": "states",
    "merge_rate": "(1.0 * merged_turns / NULLIF(turns - failed_turns, 0))",
    "forks": "forks",
    "fork_turns": "fork_turns",
}
"""What a condition may name, and the column or expression that it stands for."""

_COMPARE = {ast.Eq: "IS", ast.NotEq: "IS NOT", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_ARITHMETIC = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_LONGEST = 2000
"""Characters of a condition; an honest one is far shorter, and a hostile one cannot exhaust the parser."""
_DEEPEST = 20
"""Levels of a condition; SQLite's own parser has room for a few more."""
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TreeQuery:
    """Part of an SQL statement over the table `trees`."""

    where: str = "1"
    """A condition with a `?` for each parameter."""
    parameters: tuple[Value, ...] = ()
    order: str = "iteration, position"
    """What to sort by, in which direction."""

    @classmethod
    def of(cls, where: str | None = None, sort: str | None = None) -> "TreeQuery":
        """The query for a condition in words, and the name to sort by: largest first, or least first as `+name`.

        Trees that have no such number (no advantages were recorded, say) come last.
        """
        condition, parameters = ("1", ()) if where is None else _Translator(where).translated()
        return cls(condition, parameters, "iteration, position" if sort is None else _order(sort))


def _order(sort: str) -> str:
    name = sort.removeprefix("+").removeprefix("-")
    direction = "ASC" if sort.startswith("+") else "DESC"
    return f"{_column(name, 'sort by')} {direction} NULLS LAST, iteration, position"


def _column(name: str, use: str = "compare") -> str:
    if name not in NAMES:
        close = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.6)
        hint = f"did you mean {close[0]}?" if close else f"choose among {', '.join(NAMES)}"
        raise TreeQueryError(f"there is no {name!r} to {use}; {hint}")
    return NAMES[name]


def _depth(node: ast.AST) -> int:
    """Levels of expressions below and including this one; counted without recursion."""
    deepest, pending = 0, [(node, 1)]
    while pending:
        node, level = pending.pop()
        deepest = max(deepest, level)
        pending.extend((child, level + 1) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
    return deepest


class _Translator:
    """One condition on its way to SQL."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._parameters: list[Value] = []

    def translated(self) -> tuple[str, tuple[Value, ...]]:
        if len(self._text) > _LONGEST:
            raise TreeQueryError(f"the condition has {len(self._text):,} characters; {_LONGEST:,} are allowed")
        try:
            body = ast.parse(self._text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            reason = error.msg if isinstance(error, SyntaxError) else error
            raise TreeQueryError(f"{self._text!r} is no condition ({reason}); write one such as 'success and depth > 20'") from error
        if _depth(body) > _DEEPEST:
            raise TreeQueryError(f"the condition is nested too deeply; {_DEEPEST} levels are allowed")
        return self._sql(body), tuple(self._parameters)

    def _sql(self, node: ast.expr) -> str:
        match node:
            case ast.BoolOp(op=operator, values=values):
                word = " AND " if isinstance(operator, ast.And) else " OR "
                return f"({word.join(map(self._sql, values))})"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"(NOT {self._sql(operand)})"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"(-{self._sql(operand)})"
            case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _ARITHMETIC:
                # Division of two integers is not rounded down, as a reader of the condition expects.
                one = "1.0 * " if isinstance(operator, ast.Div) else ""
                return f"({one}{self._sql(left)} {_ARITHMETIC[type(operator)]} {self._sql(right)})"
            case ast.Compare(left=left, ops=operators, comparators=comparators):
                sides = [left, *comparators]
                return f"({' AND '.join(map(self._comparison, operators, sides, sides[1:]))})"
            case ast.Name(id=name):
                return _column(name)
            case ast.Constant(value=value) if isinstance(value, (int, float, str)) or value is None:
                return self._parameter(value)
        raise self._unsupported(node)

    def _comparison(self, operator: ast.cmpop, left: ast.expr, right: ast.expr) -> str:
        if isinstance(operator, (ast.In, ast.NotIn)):
            if not isinstance(right, (ast.List, ast.Tuple, ast.Set)) or not right.elts:
                raise TreeQueryError(f"after 'in' comes a list of values such as [1, 2], not {ast.unparse(right)!r}")
            word = "IN" if isinstance(operator, ast.In) else "NOT IN"
            return f"({self._sql(left)} {word} ({', '.join(map(self._sql, right.elts))}))"
        if type(operator) not in _COMPARE:
            raise self._unsupported(right)
        return f"({self._sql(left)} {_COMPARE[type(operator)]} {self._sql(right)})"

    def _parameter(self, value: Value) -> str:
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise TreeQueryError(f"{value} is larger than any number of a tree")
        self._parameters.append(int(value) if isinstance(value, bool) else value)
        return "?"

    def _unsupported(self, node: ast.expr) -> TreeQueryError:
        return TreeQueryError(
            f"{ast.unparse(node)!r} cannot be part of a condition; it has names ({', '.join(NAMES)}), numbers, texts, "
            "comparisons, + - * /, and, or, not, in"
        )
