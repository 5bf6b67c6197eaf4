"""Limits of one MCP server: time, memory, attempts."""

from __future__ import annotations

from agentcli.core.frozen import frozen


@frozen
class ServerLimits:
    start_seconds: float = 30.0
    """From the start of the program or the first request until all lists are complete."""
    call_seconds: float = 600.0
    first_prompt_seconds: float = 10.0
    """How long the first prompt of a non-interactive run waits for connecting servers. The run then continues; tools of
    a server that connects later are added."""
    list_seconds: float = 30.0
    """For one list after a change."""
    restart_seconds: float = 1.0
    """Delay before the first attempt to reconnect; doubles with each further one."""
    restarts: int = 5
    """Maximum consecutive attempts to reconnect."""
    stable_seconds: float = 60.0
    """A connection that lasted this long resets the count of attempts."""
    grace_seconds: float = 2.0
    """For a program to exit after its stdin was closed, and again after SIGTERM."""
    helper_seconds: float = 10.0
    """For the command that prints headers."""
    debounce_seconds: float = 0.1
    """Delay between a list change and its refresh: servers report several changes at once."""
    refresh_seconds: float = 1.0
    """Minimum time between two refreshes of the lists."""
    progress_seconds: float = 1.0
    progress_reports: int = 30
    """Maximum progress reports of a call passed on within `progress_seconds`."""
    message_bytes: int = 64 * 1024 * 1024
    """Maximum size of one message from a server."""
    inline_bytes: int = 256 * 1024
    """Larger messages are parsed in a thread."""
    unread_bytes: int = 64 * 1024 * 1024
    """Maximum data that a program has not read from its stdin yet."""
    bad_lines: int = 20
    """Maximum consecutive lines that are not protocol messages."""
    result_chars: int = 50_000_000
    """Maximum text and base64 of one result."""
    pages: int = 100
    """Maximum pages of one list."""
    tools: int = 2000
    """Maximum tools of one server; the same limit applies to resources, templates and prompts."""
