"""A record with tables in it becomes one level of figures, whose names say the way to them."""

import math
from collections.abc import Mapping
from typing import Any


def flatten(record: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Every finite number of a record by name, `/` between the names of nested tables; texts and lists are no figures."""
    figures: dict[str, float] = {}
    for name, value in record.items():
        if isinstance(value, Mapping):
            figures |= flatten(value, f"{prefix}{name}/")
            continue
        number = value.item() if hasattr(value, "item") else value
        if isinstance(number, int | float) and math.isfinite(number):
            figures[f"{prefix}{name}"] = float(number)
    return figures
