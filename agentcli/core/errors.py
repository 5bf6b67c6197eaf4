"""Exceptions. There are few on purpose: failures of the model, the network, tools, permissions and limits are values.

AgentError                 user message: what happened, then what to do
├── UsageError             wrong flags, settings or arguments, found before any request (exit code 2)
└── CredentialError        no usable key or token (exit code 1)
"""

from __future__ import annotations


class AgentError(Exception):
    """An error that the user can act on. `str(error)` is one or two plain sentences, never a traceback."""


class UsageError(AgentError):
    pass


class CredentialError(AgentError):
    pass


class MissingKeyError(CredentialError):
    """No API key was given or stored yet."""
