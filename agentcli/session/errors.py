"""Errors of opening a session. Later failures do not raise: the store reports them in `problem`."""

from __future__ import annotations

from agentcli.core.errors import AgentError, UsageError


class SessionBusy(AgentError):
    """Another process has this session open. The caller refuses it, or forks it."""


class SessionTooNew(AgentError):
    """A newer version wrote this session: it can be read and forked, but not continued."""


class SessionExists(UsageError):
    """The id requested for a new session is taken."""
