"""agentcli: an interactive terminal coding agent, and the same loop as a library.

    from agentcli import Result, query

Names are resolved on first use (PEP 562), so that `import agentcli` costs nothing. Public are all events, and what
`agentcli/public.py` lists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from agentcli.core.events import *  # noqa: F403 - for type checkers
    from agentcli.public import *  # noqa: F403


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "__all__":
        return sorted(_find_modules())
    if name.startswith("_") or name not in (modules := _find_modules()):
        raise AttributeError(f"module 'agentcli' has no attribute {name!r}")
    return getattr(import_module(modules[name]), name)


def _find_modules() -> dict[str, str]:
    """The module of each public name. `public.py` is read and not imported, because that would import everything."""
    import pkgutil
    import re

    from agentcli.core.events import EVENT_TYPES

    listed = (pkgutil.get_data(__name__, "public.py") or b"").decode()
    modules = {name: module for module, name in re.findall(r"^from (\S+) import (\w+)", listed, re.MULTILINE)}
    return {**dict.fromkeys(EVENT_TYPES, "agentcli.core.events"), **modules}


def __dir__() -> list[str]:
    return sorted([*globals(), *_find_modules()])
