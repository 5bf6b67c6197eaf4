"""What a headless run is told besides the engine's `Options`: how to read and how to write."""

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
    wait_background: bool = False
    """Wait for background commands at the end instead of ending them."""
    debug_filter: str | None = None
    """None: no debugging unless there is a `debug_file`; an empty string: every event."""
    debug_file: Path | None = None
