"""`agentcli sessions rename`, `delete`, `prune` and `import`: change the saved sessions."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
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
from agentcli.history.claude_code import find_files, read_session, write_session
from agentcli.history.removal import SessionRemover, list_old
from agentcli.session.base import sessions_dir
from agentcli.session.closed_sessions import rename_session
from agentcli.session.find import SessionInfo
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
    days: Annotated[int, typer.Option("--days", metavar="N", help="Days since the last change.", min=0)] = 30,
    everywhere: Annotated[bool, typer.Option("--all", help="Include all folders.")] = False,
    yes: Yes = False,
) -> None:
    """Delete the old sessions of this folder, after showing them. Those with a name are kept.

    agentcli sessions prune                   sessions not changed for 30 days
    agentcli sessions prune --days 365 --all  sessions of all folders not changed for a year
    """
    old = list_old(state_folder(), None if everywhere else Path.cwd(), days)
    if not old:
        echo(f"Nothing to delete: no session without a name is older than {counted(days, 'day')}.")
        return
    _delete(old, yes)


def _delete(sessions: Sequence[SessionInfo], yes: bool) -> None:
    """Show the sessions, ask, and delete them."""
    if not yes:
        count, size = counted(len(sessions), "session"), byte_size(sum(info.size for info in sessions))
        for line in session_lines(sessions, terminal_style()[0] if sys.stdout.isatty() else None):
            echo(line)
        if not sys.stdin.isatty():
            raise UsageError("No terminal to ask for confirmation. Read the list above, then use --yes.")
        if not confirm(f"Delete {count} ({size}) with what belongs to them? This cannot be undone."):
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


def import_(
    wanted: Annotated[
        list[str] | None, typer.Argument(metavar="SESSION…", help="Ids or words of titles and first prompts.")
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
    source = Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude")
    state, infos, has_failed = state_folder(), list[SessionInfo](), False
    imported = {path.stem for path in sessions_dir(state).glob("*/*.jsonl")}
    for path in find_files(source, None if everywhere else Path.cwd()):
        if path.stem.lower() in imported:
            continue
        try:
            session = read_session(path)
            if session is None or not _matches(session.info, wanted):
                continue
            if not list_only and not as_json:
                # A session of another folder can be continued there.
                is_elsewhere = everywhere and session.info.cwd.startswith("/")
                write_session(session, state, Path(session.info.cwd) if is_elsewhere else Path.cwd())
            infos.append(session.info)
        except (AgentError, OSError) as error:
            notice(f"Skipped {show_name(str(path))}: {getattr(error, 'strerror', None) or error}")
            has_failed = True
    if as_json:
        echo_json([session_record(info) for info in infos])
        return
    for line in session_lines(infos):
        echo(line)
    if not infos:
        where = "any folder" if everywhere else "this folder (--all includes all)"
        notice(f"{show_name(str(source))} has no such sessions of {where} that are not imported yet.")
    elif not list_only:
        echo(f"Imported {counted(len(infos), 'session')}. To continue one: agentcli -r")
    if has_failed:
        raise typer.Exit(1)


def _matches(info: SessionInfo, wanted: Sequence[str] | None) -> bool:
    texts = (info.session_id, info.title.casefold(), info.first_prompt.casefold())
    return not wanted or any(word.casefold() in text for word in wanted for text in texts)
