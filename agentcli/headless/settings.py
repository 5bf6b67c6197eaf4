"""Settings of a headless run besides the engine's `Options`: input and output."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from agentcli.core.frozen import frozen

OutputFormat = Literal["text", "json", "stream-json"]
InputFormat = Literal["text", "stream-json"]


@frozen(kw_only=True)
class HeadlessSettings:
    prompt: str | None = None
    output_format: OutputFormat = "text"
    input_format: InputFormat = "text"
    verbose: bool = False
    replay_user_messages: bool = False
    include_hook_events: bool = False
    wait_background: bool = False
    """Wait for background commands at the end instead of stopping them."""
    debug_filter: str | None = None
    """None: no debug output unless there is a `debug_file`; an empty string: every event."""
    debug_file: Path | None = None
