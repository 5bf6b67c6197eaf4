"""`agentcli sessions search`: find prompts, answers and commands in all sessions."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from agentcli.cli.help import terminal_style
from agentcli.cli.output import echo, echo_json, echo_styled, notice, write_bytes
from agentcli.cli.permissions import AsJson
from agentcli.cli.sessions import session_record, state_folder
from agentcli.config.paths import Paths
from agentcli.core.errors import UsageError
from agentcli.core.messages import Json
from agentcli.core.text.format import ago, counted
from agentcli.core.text.plaintext import plain_line
from agentcli.session.search_index import SearchHit, SessionIndex, WordsFound, can_be_found
from agentcli.session.search_text import SIGNS

_STOPPED = 130
_PROGRESS_SECONDS = 0.1


def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="Beginnings of words; quote a phrase.")],
    everywhere: Annotated[bool, typer.Option("--all", help="Search the sessions of all folders.")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="Show at most N results.", min=1)] = 20,
    as_json: AsJson = False,
) -> int:
    """Search names, prompts, answers, commands and file names of the sessions of this folder, newest first. The first
    search reads all sessions once for its index: Ctrl+C stops that, the next search continues. Exit code 1 if nothing
    is found.

    agentcli sessions search pars regex    prompts with both words, also as the beginning of a word
    agentcli sessions search "the parser"  words that follow one another
    agentcli sessions search --all regex   the sessions of all folders
    """
    if not can_be_found(words):
        raise UsageError("Give at least one word with a letter or a digit.")
    index = SessionIndex(Paths.from_environ(os.environ).index_dir, state_folder())
    progress = _Progress()
    try:
        folder = None if everywhere else Path.cwd()
        hits, problem = index.update_and_search(words, folder, limit, progress)
        progress.clear()
    except KeyboardInterrupt:
        progress.clear()
        notice(f"Stopped{progress.state}. The next search continues.")
        return _STOPPED
    if problem:
        notice(f"{problem} An index in memory was used instead, which takes longer.")
    if as_json:
        echo_json([hit_record(hit) for hit in hits])
    else:
        _show(hits, limit, everywhere)
    return 0 if hits else 1


def _show(hits: list[SearchHit], limit: int, everywhere: bool) -> None:
    if not hits:
        hint = "" if everywhere else " in the sessions of this folder. --all searches those of all folders"
        echo(f"Nothing was found{hint}.", err=True)
        return
    width, styled = terminal_style()
    # A session of another folder can only be resumed by its full id.
    is_short = sys.stdout.isatty() and not everywhere
    for hit in hits:
        session = hit.session
        head = f"{session.session_id[:8] if is_short else session.session_id}  {describe_place(hit)}  "
        room = max(20, width - len(head) - 1) if sys.stdout.isatty() else 80
        echo(head + plain_line(session.label, room))
        echo_styled(f"  {SIGNS[hit.found.role]} {_mark(hit.found) if styled else hit.found.text}")
    count = f"The newest {counted(limit, 'result')}; --limit shows more. " if len(hits) == limit else ""
    echo(f"{count}To open a session: agentcli -r {hits[0].session.session_id[: 8 if is_short else None]}", err=True)


def describe_place(hit: SearchHit) -> str:
    """Age of a hit, and the number of its prompt."""
    return f"{ago(time.time() - hit.time):>9}  {f'prompt {hit.number}' if hit.number else 'name':<10}"


def _mark(found: WordsFound) -> str:
    """The words around a hit, with the hit in bold. The text is safe already."""
    pieces, end = [], 0
    for first, last in found.marks:
        if first >= end:
            pieces += [found.text[end:first], "\x1b[1;4m", found.text[first:last], "\x1b[0m"]
            end = last
    return "".join((*pieces, found.text[end:]))


def hit_record(hit: SearchHit) -> Json:
    return {
        **session_record(hit.session),
        "prompt": hit.number or None,
        "prompt_id": hit.prompt_id,
        "at": hit.at,
        "found_in": hit.found.role,
        "text": hit.found.text,
        "marks": [list(mark) for mark in hit.found.marks],
    }


class _Progress:
    """Shows on standard error how many sessions are in the index, if that takes longer than a moment."""

    def __init__(self) -> None:
        self.state = ""
        self._shown = ""
        self._due = time.monotonic() + _PROGRESS_SECONDS

    def __call__(self, done: int, total: int) -> None:
        self.state = f" after {done:,} of {total:,} sessions"
        if time.monotonic() >= self._due and sys.stderr.isatty():
            self._due = time.monotonic() + _PROGRESS_SECONDS
            self._shown = f"Reading sessions for the index: {done:,} of {total:,}. Ctrl+C stops."
            write_bytes(f"\r{self._shown}".encode(), 2)

    def clear(self) -> None:
        if self._shown:
            write_bytes(f"\r{' ' * len(self._shown)}\r".encode(), 2)
