"""The allocation rules by name; a name or an option that none has is an error that names the nearest one."""

from collections.abc import Callable, Mapping
from typing import Any

from tree_rollout.allocation.dars import Dars
from tree_rollout.allocation.fixed import Fixed
from tree_rollout.allocation.pilot_commit import PilotCommit
from tree_rollout.allocation.rule import AllocationRule
from tree_rollout.allocation.trace import TraceRule
from tree_rollout.allocation.user_rule import UserAllocation
from tree_rollout.allocation.vigor import Vigor
from tree_rollout.errors import AllocationError, UnknownAllocationError
from tree_rollout.rule_table import RuleTable

ALLOCATION_RULES: dict[str, type[Any]] = {rule.name: rule for rule in (Fixed, Vigor, PilotCommit, Dars, TraceRule)}
"""The rules of this package, in the order of its documentation."""
_TABLE: RuleTable[AllocationRule] = RuleTable(
    "allocation rule", ALLOCATION_RULES, AllocationError, UnknownAllocationError, UserAllocation.of
)


def allocation_rules() -> list[str]:
    """The names of all rules: those of this package, then those that were registered."""
    return _TABLE.names()


def register_allocation_rule(name: str, rule: Callable[..., Any]) -> None:
    """Add a rule to the table; a name that is taken is an error.

    `rule` is a class with `first`, `further` and a `decision`, see `AllocationRule`, whose constructor takes and checks the options.
    What its objects answer is checked.
    """
    _TABLE.register(name, rule)


def allocation_rule(name: str, options: Mapping[str, Any] | None = None) -> AllocationRule:
    """The rule called `name` (or `module:Class`) with its options, for example `allocation_rule("dars", {"schedule": "hardness"})`."""
    return _TABLE.make(name, options)
