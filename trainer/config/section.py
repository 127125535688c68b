"""What every section of a configuration has in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Device = Annotated[str, Field(pattern=r"^(auto|cpu|cuda(:[0-9]{1,3})?)$", examples=["cpu", "cuda", "cuda:1", "auto"])]
"""Name of a device."""


class Section(BaseModel):
    """Base of all sections. Strict: `"5"` is no integer; frozen: a run cannot change its own configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True)
