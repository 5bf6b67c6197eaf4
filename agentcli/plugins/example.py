"""The plugin that `agentcli plugins new` writes, and its test."""

from __future__ import annotations

import re

from agentcli.core.errors import UsageError

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_PLUGIN = '''"""NAME: a plugin for agentcli. It is loaded again when you save it."""

from collections.abc import Iterator

from agentcli import Engine, Plugin

plugin = Plugin()


@plugin.tool(safe=True)
def NAME_word_count(text: str) -> int:
    "Count the words of a text."
    return len(text.split())


@plugin.command("NAME", "Count the messages of this conversation")
def count_messages(engine: Engine, arguments: str) -> Iterator[str]:
    yield f"{len(engine.messages)} messages"
'''
_TEST = '''"""Run with: python -m pytest test_NAME.py"""

from NAME import NAME_word_count


def test_words_are_counted():
    assert NAME_word_count("one two  three") == 3
'''


def example_files(name: str) -> dict[str, str]:
    """File names and contents. Raises `UsageError` for a name that cannot be a module."""
    if not _NAME.fullmatch(name) or name.startswith("test_"):
        raise UsageError(f"Not a plugin name: {name!r}. Use small letters, digits and _, starting with a letter.")
    return {f"{name}.py": _PLUGIN.replace("NAME", name), f"test_{name}.py": _TEST.replace("NAME", name)}
