"""Headers that a command of the configuration prints, such as a token that is valid for an hour."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from agentcli.core.bounded_json import parse_json
from agentcli.core.own_programs import run_helper


async def helper_headers(
    command: str, *, environ: Mapping[str, str], working_dirs: Iterable[Path], seconds: float
) -> dict[str, str]:
    """Run the command. Raises `ValueError`, whose text never has its output."""
    try:
        done = await run_helper(command, environ=environ, working_dirs=working_dirs, seconds=seconds)
    except TimeoutError:
        raise ValueError(f"headersHelper printed nothing within {seconds:g} seconds") from None
    except OSError as error:
        raise ValueError(f"headersHelper cannot be started: {error}") from None
    if done.code:
        raise ValueError(f"headersHelper failed (exit {done.code})")
    try:
        headers = parse_json(done.output)
    except ValueError:
        headers = None
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise ValueError("headersHelper must print a JSON object of names and texts")
    return headers
