"""What every section of a configuration has in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Base of all sections. Strict: `"5"` is no integer; frozen: a run cannot change its own configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True)
