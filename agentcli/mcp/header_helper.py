"""Headers that a command of the configuration prints, such as a token that is valid for an hour."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

from agentcli.core.bounded_json import parse_json
from agentcli.core.own_programs import PIPE, kill_group, shell_command, start_program_async, user_environment

_MOST_OUTPUT = 64 * 1024


async def helper_headers(
    command: str, *, environ: Mapping[str, str], working_dirs: Iterable[Path], seconds: float
) -> dict[str, str]:
    """Run the command. Raises `ValueError`, whose text never has its output."""
    try:
        process = await start_program_async(
            shell_command(command),
            cwd=_folder(environ),
            environ=user_environment(environ, working_dirs),
            stdout=PIPE,
        )
    except OSError as error:
        raise ValueError(f"headersHelper cannot be started: {error}") from None
    output = b""
    try:
        async with asyncio.timeout(seconds):
            assert process.stdout is not None
            while len(output) <= _MOST_OUTPUT and (piece := await process.stdout.read(_MOST_OUTPUT)):
                output += piece
            code = await process.wait()
    except TimeoutError:
        raise ValueError(f"headersHelper printed nothing within {seconds:g} seconds") from None
    finally:
        # Also what the command left in the background.
        kill_group(process.pid)
        await process.wait()
    if code:
        raise ValueError(f"headersHelper failed (exit {code})")
    try:
        headers = parse_json(output)
    except ValueError:
        headers = None
    if not isinstance(headers, dict) or not all(isinstance(value, str) for value in headers.values()):
        raise ValueError("headersHelper must print a JSON object of names and texts")
    return headers


def _folder(environ: Mapping[str, str]) -> Path:
    """Not a working directory, whose files could decide what the command does."""
    home = Path(environ.get("HOME") or "/")
    return home if home.is_absolute() and home.is_dir() else Path("/")
