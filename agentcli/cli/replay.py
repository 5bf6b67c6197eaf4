"""`agentcli replay`: replay a session, verify it, or try other instructions on it."""

from __future__ import annotations

import asyncio
import signal as signals
import sys
import tempfile
import zipfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentcli.cli.flags import EFFORTS
from agentcli.cli.history import stop_keys
from agentcli.cli.output import echo, echo_json, write_bytes
from agentcli.cli.permissions import AsJson
from agentcli.cli.sessions import find_session
from agentcli.core.aio import AbortController, Aborted, in_thread
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.messages import Json
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line

if TYPE_CHECKING:
    from agentcli.history.replay.process import ReplayChanges

MAX_BUNDLED = 1 << 30
"""Bytes of a session file in a bundle."""


def replay(
    session: Annotated[
        str, typer.Argument(metavar="SESSION", help="Id, name or words of a session, or a .jsonl or .zip file.")
    ],
    verify: Annotated[bool, typer.Option("--verify", help="Compare every event and request.")] = False,
    instructions: Annotated[
        str | None, typer.Option("--with", metavar="NAME=FILE", help="Use FILE as instruction file NAME.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", metavar="MODEL", help="Use another model.")] = None,
    effort: Annotated[str | None, typer.Option("--effort", metavar="LEVEL", help="Use another effort.")] = None,
    appended: Annotated[
        str | None, typer.Option("--append-system-prompt", metavar="TEXT", help="Add to the system prompt.")
    ] = None,
    speed: Annotated[float, typer.Option("--speed", metavar="N", help="Play N times as fast.", min=0.1)] = 1.0,
    as_json: AsJson = False,
) -> int:
    """Play a recorded session in the app, offline: no model is called, no tool runs. --verify runs the loop on
    what was recorded and compares what it does now; exit code 1 at a difference. --with, --model, --effort and
    --append-system-prompt show the first request that would differ.

    agentcli replay parser                              play it as it happened
    agentcli replay parser --speed 4                    four times as fast; + and - change it
    agentcli replay parser --verify                     check that the loop still does the same
    agentcli replay parser --with AGENTS.md=new.md      show what other instructions change
    """
    settings = {"model": model, "effort": effort, "appendSystemPrompt": appended}
    chosen = {name: value for name, value in settings.items() if value is not None}
    if verify and (chosen or instructions is not None):
        raise UsageError("--verify uses what was recorded. Leave out the changes, or leave out --verify.")
    if effort is not None and effort not in EFFORTS:
        raise UsageError(f"--effort must be one of {', '.join(EFFORTS)}, not {plain_line(effort, 40)!r}.")
    from agentcli.history.replay.verify import read_session

    with session_file(session) as path:
        records = read_session(path)
        if verify:
            return asyncio.run(_run(_verify(path, records, as_json)))
    if not chosen and instructions is None:
        from agentcli.cli.front_ends import play_session
        from agentcli.history.replay.playback import read_frames

        return play_session(read_frames(records), speed)
    return asyncio.run(_run(_compare(records, _read_changes(records, chosen, instructions), as_json)))


@contextmanager
def session_file(text: str) -> Iterator[Path]:
    """The session file that an argument names: a session, a file, or a bundle with one. Raises `AgentError`."""
    path = Path(text).expanduser()
    if path.suffix == ".jsonl":
        yield path
    elif path.suffix == ".zip":
        with tempfile.TemporaryDirectory() as folder:
            unpacked = Path(folder, "session.jsonl")
            unpacked.write_bytes(_read_bundle(path))
            yield unpacked
    else:
        yield find_session(text).path


def _read_bundle(path: Path) -> bytes:
    try:
        with zipfile.ZipFile(path) as bundle:
            found = [member for member in bundle.infolist() if member.filename.endswith(".jsonl")]
            if not found or found[0].file_size > MAX_BUNDLED:
                raise AgentError(f"There is no session file in {plain_line(str(path))}.")
            return bundle.read(found[0])
    except (OSError, zipfile.BadZipFile) as error:
        reason = getattr(error, "strerror", None) or "it is no zip file"
        raise AgentError(f"The bundle {plain_line(str(path))} cannot be read: {reason}.") from error


async def _run(work: Coroutine[Any, Any, int]) -> int:
    """Run until Esc or a signal stops it; returns the exit code."""
    received: list[int] = []
    try:
        with AbortController() as controller, stop_keys(controller, received):
            return await controller.signal.run(work)
    except Aborted:
        echo("Stopped.", err=True)
        return 128 + (received or [signals.SIGINT])[0]


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Shows how far the replay is, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _done, _of: None
        return
    keys = " Esc stops." if sys.stdin.isatty() else ""
    try:
        yield lambda done, of: write_bytes(f"\rLine {done:,} of {of:,}.{keys} ".encode(), 2)
    finally:
        echo("", err=True)


async def _verify(path: Path, records: Sequence[Json], as_json: bool) -> int:
    from agentcli.history.replay.compare import explain
    from agentcli.history.replay.verify import describe, verify

    with _progress() as progress:
        found = await verify(records, progress=progress)
    parts = await in_thread(explain, path, found)
    if as_json:
        echo_json({**found.to_dict(), "request_parts": [{"part": name, "diff": text} for name, text in parts]})
    else:
        for line in describe(found):
            echo(line)
        _echo_parts(parts)
    return found.exit_code


def _echo_parts(parts: Sequence[tuple[str, str]]) -> None:
    for name, text in parts:
        echo(f"\n{name}:")
        echo(text)


def _read_changes(records: Sequence[Json], settings: Json, named: str | None) -> ReplayChanges:
    from agentcli.history.replay.compare import list_instructions, replace_instructions
    from agentcli.history.replay.process import ReplayChanges
    from agentcli.memory.instruction_text import read_instructions

    if named is None:
        return ReplayChanges(settings=settings)
    name, _sign, file = named.partition("=")
    read = read_instructions(str(Path(file).expanduser().resolve()))
    if not file or not read.digest:
        raise UsageError(f"--with {plain_line(named)}: use NAME=FILE with a text file that can be read.")
    known = list_instructions(records)
    if not any(f"/{path}".endswith(f"/{name}") for path in known):
        files = ", ".join(known) or "none"
        raise UsageError(f"The session had no instruction file {plain_line(name)}. It had: {files}.")
    return ReplayChanges(replace_instructions(name, read.text), settings)


async def _compare(records: Sequence[Json], changes: ReplayChanges, as_json: bool) -> int:
    from agentcli.history.replay.compare import compare

    with _progress() as progress:
        compared = await compare(records, changes, progress)
    if as_json:
        echo_json(compared.to_dict())
    elif not compared.requests:
        echo(compared.problem)
    elif not compared.parts:
        echo(f"No request differs: {counted(compared.requests, 'request')} compared.")
        if compared.problem:
            echo(f"The replay ended early. {compared.problem}")
    else:
        names = ", ".join(name for name, _text in compared.parts)
        echo(f"Request {compared.requests} differs, in prompt {compared.prompt}: {names}")
        _echo_parts(compared.parts)
    return 1 if compared.parts or compared.problem else 0
