"""`agentcli sessions rename`, `delete`, `prune` and `import`: change the saved sessions."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from agentcli.cli.help import terminal_style
from agentcli.cli.output import confirm, echo, echo_json, notice
from agentcli.cli.permissions import AsJson
from agentcli.cli.sessions import SessionArgument, find_session, session_lines, session_record, state_folder
from agentcli.config.paths import Paths
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.ids import RandomIds, SystemClock
from agentcli.core.text.format import byte_size, counted
from agentcli.core.text.plaintext import plain_line, show_name
from agentcli.history.claude_code import ForeignSession, find_files, read_session, write_session
from agentcli.history.removal import DAY_SECONDS, SessionRemover
from agentcli.session.base import sessions_dir
from agentcli.session.closed_sessions import is_open, rename_session
from agentcli.session.find import SessionInfo, list_older
from agentcli.session.search_index import IndexUnavailable, SessionIndex

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]


def rename(
    session: SessionArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new name.", show_default=False)],
) -> None:
    """Name a session. In an open session, use /rename.

    agentcli sessions rename parser "the parser"  then agentcli -r "the parser" resumes it
    """
    title = plain_line(name)
    if not title:
        raise UsageError("The name is empty.")
    info = find_session(session)
    try:
        rename_session(info.path, title, SystemClock(), RandomIds())
    except OSError as error:
        raise AgentError(f"Cannot rename the session: {error.strerror}.") from error
    echo(f"Session {info.session_id} is now called {title}.")


def delete(
    wanted: Annotated[list[str], typer.Argument(metavar="SESSION…", help="Ids or names, as for -r.")],
    yes: Yes = False,
) -> None:
    """Delete sessions with their tool output, sub-agents' transcripts and snapshots. This cannot be undone.

    agentcli sessions delete parser  shows what would be deleted and asks
    """
    found = {info.session_id: info for info in map(find_session, wanted)}
    _delete(list(found.values()), yes)


def prune(
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="Age of the last change: 12h, 30d, 8w or 1y.")
    ] = "30d",
    everywhere: Annotated[bool, typer.Option("--all", help="Include all folders.")] = False,
    named: Annotated[bool, typer.Option("--named", help="Include sessions that have a name.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be deleted.")] = False,
    yes: Yes = False,
) -> None:
    """Delete the old sessions of this folder. Open sessions are kept, and those that have a name.

    agentcli sessions prune --dry-run               list sessions older than 30 days
    agentcli sessions prune --older-than 1y --all   sessions of all folders that are older than a year
    """
    before = time.time() - _seconds(older_than)
    old = [
        info
        for info in list_older(state_folder(), None if everywhere else Path.cwd(), before)
        if (named or not info.is_named) and not is_open(info.path)
    ]
    if not old:
        echo(f"Nothing to delete: no closed session {'' if named else 'without a name '}is older than {older_than}.")
        return
    _delete(old, yes, dry_run=dry_run)


_UNITS = {"h": 3_600, "d": DAY_SECONDS, "w": 7 * DAY_SECONDS, "y": 365 * DAY_SECONDS}


def _seconds(age: str) -> int:
    found = re.fullmatch(r"([0-9]{1,6})([hdwy])", age.strip())
    if found is None:
        raise UsageError(f"--older-than: {age!r} is not an age. Give a number with h, d, w or y, such as 30d.")
    return int(found[1]) * _UNITS[found[2]]


def _delete(sessions: Sequence[SessionInfo], yes: bool, *, dry_run: bool = False) -> None:
    """Show the sessions, ask, and delete them."""
    count = counted(len(sessions), "session")
    if not yes or dry_run:
        for line in session_lines(sessions, terminal_style()[0] if sys.stdout.isatty() else None):
            echo(line)
    if dry_run:
        echo(f"{count} would be deleted: {byte_size(sum(info.size for info in sessions))} and what belongs to them.")
        return
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("No terminal to ask for confirmation. Read the list above, then use --yes.")
        if not confirm(f"Delete {count}? This cannot be undone."):
            echo("Cancelled. Nothing was deleted.")
            return
    remover, freed, deleted = SessionRemover(state_folder()), 0, list[Path]()
    for info in sessions:
        try:
            freed += remover.remove(info.path)
            deleted.append(info.path)
        except AgentError as error:
            notice(f"Not deleted: {error}")
        except OSError as error:
            notice(f"Session {info.session_id} could not be deleted: {error.strerror}.")
    with suppress(IndexUnavailable):
        SessionIndex(Paths.from_environ(os.environ).index_dir, state_folder()).forget(deleted)
    if deleted:
        echo(f"Deleted {counted(len(deleted), 'session')}: {byte_size(freed)} freed.")
    if len(deleted) < len(sessions):
        raise typer.Exit(1)


# -------------------------------------------------------------------------------------------------------------- import


def import_(
    wanted: Annotated[
        list[str] | None, typer.Argument(metavar="SESSION…", help="Ids or words of titles and first prompts.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--from", metavar="FOLDER", help="Folder of Claude Code instead of ~/.claude.")
    ] = None,
    everywhere: Annotated[bool, typer.Option("--all", help="Include the sessions of all folders.")] = False,
    list_only: Annotated[bool, typer.Option("--list", help="Only list them.")] = False,
    as_json: AsJson = False,
) -> None:
    """Import sessions of Claude Code for this folder, to continue them here. Its own files are only read.

    agentcli sessions import --list  the sessions that can be imported
    agentcli sessions import         all of this folder
    agentcli sessions import parser  those with this word
    """
    source = folder or Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")
    files = find_files(source, None if everywhere else Path.cwd())
    found = (session for path in files if (session := _read(path)) is not None and _matches(session.info, wanted))
    if as_json:
        echo_json([session_record(session.info) for session in found])
        return
    outcomes: list[str] = []
    for session in found:
        outcomes.append(_import(session, everywhere=everywhere, list_only=list_only))
        echo(_describe(session.info, outcomes[-1]))
    if not outcomes:
        where = "any folder" if everywhere else "this folder (--all includes all)"
        notice(f"{show_name(str(source))} has no such sessions of {where}.")
    elif not list_only:
        echo("To continue one: agentcli -r")
    if not {_NEW, _IMPORTED, _KNOWN}.issuperset(outcomes):
        raise typer.Exit(1)


_NEW, _IMPORTED, _KNOWN = "not imported", "imported", "imported before"


def _import(session: ForeignSession, *, everywhere: bool, list_only: bool) -> str:
    """Import a session unless that was done before; returns what was done, or why it failed."""
    info, state = session.info, state_folder()
    if any(sessions_dir(state).glob(f"*/{info.session_id}.jsonl")):
        return _KNOWN
    if list_only:
        return _NEW
    # A session of another folder can be continued there.
    folder = Path(info.cwd) if everywhere and info.cwd.startswith("/") else Path.cwd()
    try:
        write_session(session, state, folder)
    except AgentError as error:
        return str(error)
    return _IMPORTED


def _describe(info: SessionInfo, outcome: str) -> str:
    when, size = datetime.fromtimestamp(info.modified), counted(info.message_count or 0, "message")
    return f"{info.session_id}  {when:%Y-%m-%d}  {plain_line(info.label, 60)}  ({size}; {outcome})"


def _read(path: Path) -> ForeignSession | None:
    try:
        return read_session(path)
    except (AgentError, OSError) as error:
        notice(f"Skipped {show_name(str(path))}: {getattr(error, 'strerror', None) or error}")
        return None


def _matches(info: SessionInfo, wanted: Sequence[str] | None) -> bool:
    texts = (info.session_id, info.title.casefold(), info.first_prompt.casefold())
    return not wanted or any(word.casefold() in text for word in wanted for text in texts)
