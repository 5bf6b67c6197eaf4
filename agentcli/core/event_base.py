"""The base class of all events."""

from __future__ import annotations

from agentcli.core.frozen import frozen


@frozen(kw_only=True)
class Event:
    agent: str = ""
