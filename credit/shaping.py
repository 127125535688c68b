"""A shaping method reweights the advantages of any other method, its `base`, and inherits from it whatever it does not change.

Its settings have a field made by `credit.base.base`. What the base needs, it needs too; a lone rollout is allowed, and turns of a unanimous
group are judged, exactly where the base does so.
"""

from collections.abc import Callable
from typing import Any

from credit.base import base_method
from credit.batch import Batch
from credit.moments import FloatArray
from credit.registry import Estimator


def shaping(settings: type[Any], function: Callable[[Batch, Any], FloatArray], doc: str, *needs: str, by_state: bool = False) -> Estimator:
    """The table's entry for a shaping method that itself reads the optional fields `needs`."""
    return Estimator(
        settings,
        function,
        doc,
        "turn",
        needs=lambda chosen: base_method(chosen.base).needs.union(needs),
        by_state=lambda chosen: by_state or base_method(chosen.base).by_state,
        lone=lambda chosen: base_method(chosen.base).lone,
        diagnostics=lambda batch, chosen: base_method(chosen.base).diagnostics(batch),
        judges_turns=lambda chosen: base_method(chosen.base).judges_turns,
    )
