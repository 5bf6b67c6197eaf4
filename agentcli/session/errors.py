"""Errors of opening a session. Later failures do not raise: the store reports them in `problem`."""

from __future__ import annotations

from agentcli.core.errors import AgentError, UsageError


class SessionBusy(AgentError):
    """Another process writes this session. The caller refuses, or forks."""


class SessionTooNew(AgentError):
    """A newer version wrote this session: it may be read and forked, but nothing may be added to it."""


class SessionExists(UsageError):
    """A new session was asked for under an id that is taken."""
