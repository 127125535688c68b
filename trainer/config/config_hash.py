"""The hash of a configuration, or of parts of one."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel


def config_hash(*parts: BaseModel | Mapping[str, Any] | str | int) -> str:
    """SHA-256 (hex) of the parts as canonical JSON: equal for equal contents, whatever the order of keys."""
    plain = [part.model_dump(mode="json") if isinstance(part, BaseModel) else part for part in parts]
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
