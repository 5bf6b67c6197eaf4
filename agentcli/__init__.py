"""agentcli: an interactive terminal coding agent, and the same loop as a library.

    from agentcli import query, Engine, tool

Names are resolved on first use (PEP 562), so that `import agentcli` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine
    from agentcli.assemble import Options, build_engine
    from agentcli.core.permission import Answer
    from agentcli.sdk import query
    from agentcli.tools.function import tool

__all__ = ["Answer", "Engine", "Options", "build_engine", "query", "tool"]

_HOMES = {
    "Answer": "agentcli.core.permission",
    "Engine": "agentcli.agent.engine",
    "Options": "agentcli.assemble",
    "build_engine": "agentcli.assemble",
    "query": "agentcli.sdk",
    "tool": "agentcli.tools.function",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'agentcli' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
