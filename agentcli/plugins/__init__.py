"""Python plugins: the public API (`plugin.py`), loading them with a time limit (`loader.py`), and the plugins of
a session: where they are found, and their reloads (`collection.py`).

Only code that the user put there, installed or trusted is run. `agent/plugins.py` uses what a plugin adds.
"""

from __future__ import annotations

from agentcli.plugins.plugin import Plugin, ToolCall

__all__ = ["Plugin", "ToolCall"]
