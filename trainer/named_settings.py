"""A plug-in on the command line is one word: its name, then its settings after commas, as in `normalised,mask=numbers`."""

from typing import Any

from trainer.errors import UsageError
from trainer.yaml_file import parse_yaml


def named_settings(text: str, option: str) -> tuple[str, dict[str, Any]]:
    """The name and the settings that a word of `option` holds; a value is read as YAML."""
    name, *pairs = text.split(",")
    settings = {}
    for pair in pairs:
        setting, equals, value = pair.partition("=")
        if not equals or not setting.strip():
            raise UsageError(f"{pair!r} in {option} {text} is no setting; write NAME,setting=value")
        settings[setting.strip()] = parse_yaml(value, f"the value {value!r} of {setting.strip()} in {option} {text}")
    return name.strip(), settings
