"""Limits on what one MCP server may take: time, memory, tries."""

from __future__ import annotations

from agentcli.core.frozen import frozen


@frozen
class ServerLimits:
    start_seconds: float = 30.0
    """From the start of the program or the first request to the complete lists."""
    call_seconds: float = 600.0
    first_prompt_seconds: float = 10.0
    """How long the first prompt of a non-interactive run waits for servers that connect. The run continues without
    them; the tools of one that connects later join it."""
    list_seconds: float = 30.0
    """For one list after a change."""
    restart_seconds: float = 1.0
    """Before the first try to connect again; doubles with each further one."""
    restarts: int = 5
    """Tries in a row to connect again."""
    stable_seconds: float = 60.0
    """A connection that lasted so long resets the count of tries."""
    grace_seconds: float = 2.0
    """For a program to end after its stdin was closed, and again after SIGTERM."""
    helper_seconds: float = 10.0
    """For the command that prints headers."""
    debounce_seconds: float = 0.1
    """After a list changed, before it is asked for: servers report several changes at once."""
    refresh_seconds: float = 1.0
    """Between two refreshes of the lists."""
    progress_seconds: float = 1.0
    progress_reports: int = 30
    """So many progress reports of a call are passed on within `progress_seconds`."""
    message_bytes: int = 64 * 1024 * 1024
    """One message of a server."""
    inline_bytes: int = 256 * 1024
    """Larger messages are parsed in a thread."""
    unread_bytes: int = 64 * 1024 * 1024
    """What a program has not read from its stdin yet."""
    bad_lines: int = 20
    """Lines in a row that are not messages of the protocol."""
    result_chars: int = 50_000_000
    """Text and base64 of one result."""
    pages: int = 100
    """Pages of one list."""
    tools: int = 2000
    """Tools of one server; the same number limits resources, templates and prompts."""
