"""All settings of a configuration as text that a person can search: name, value, what is allowed, what it does."""

import json

from rich.console import Console
from rich.text import Text

from trainer.config import Config
from trainer.overrides import lookup
from trainer.settings import settings


def print_settings(config: Config, console: Console) -> None:
    """Print every setting with its value in `config`, section by section; nothing is shortened."""
    values = config.model_dump(mode="json")
    section = ""
    for setting in settings().values():
        if (head := setting.name.partition(".")[0]) != section:
            section = head
            field = Config.model_fields[section]
            model = field.annotation
            gap = "\n" if section != "env" else ""
            console.print(Text.assemble(gap, (section, "bold"), f"  {getattr(model, '__doc__', '') or ''}"), soft_wrap=True)
        value = json.dumps(lookup(values, setting.name))
        line = Text.assemble("  ", (setting.name, "cyan"), " = ", value, (f"  ({setting.allowed})", "dim"))
        console.print(line, soft_wrap=True)
        console.print(Text(f"      {setting.description}"), soft_wrap=True)
