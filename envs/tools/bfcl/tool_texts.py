"""Descriptions of tools for the agent: whole, as JSON, or a line each."""

import json
from typing import Any


def tool_text(tools: dict[str, dict[str, Any]], detail: str) -> str:
    """The tools, one a line; `full` has all that the package says of a tool, `short` its arguments and what it does."""
    return "\n".join(json.dumps(tool, ensure_ascii=False) if detail == "full" else _line(tool) for tool in tools.values())


def _line(tool: dict[str, Any]) -> str:
    parameters = tool["parameters"]
    required = set(parameters.get("required", ()))
    arguments = ", ".join(f"{name}{'' if name in required else '?'}: {field['type']}" for name, field in parameters["properties"].items())
    does = tool["description"].rpartition("Tool description:")[2].strip().splitlines()[0]
    return f"{tool['name']}({arguments}) {does}"
