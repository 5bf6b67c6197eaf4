"""`agentcli sessions`: list and show the saved sessions."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from agentcli.cli.help import terminal_style
from agentcli.cli.output import echo, echo_json
from agentcli.cli.permissions import AsJson
from agentcli.config.paths import Paths
from agentcli.core.errors import AgentError
from agentcli.core.messages import Json
from agentcli.core.text.columns import cell_count, cut
from agentcli.core.text.format import byte_size, counted, local_time, money
from agentcli.core.text.plaintext import plain_line, show_name
from agentcli.core.text.secret_text import redact_values, without_secrets
from agentcli.session.find import SessionInfo, find_one, list_sessions
from agentcli.session.timeline import PromptStep, read_timeline

SessionArgument = Annotated[
    str, typer.Argument(metavar="SESSION", help="Id, beginning of an id, name or words of it, as for -r.")
]


def state_folder() -> Path:
    """The folder with the sessions. Raises `AgentError` without a home folder."""
    state = Paths.from_environ(os.environ).state_dir
    if state is None:
        raise AgentError("There is no folder for sessions: set HOME or AGENTCLI_STATE_DIR.")
    return state


def find_session(text: str) -> SessionInfo:
    """The session that an argument names. Raises `AgentError`."""
    return find_one(state_folder(), Path.cwd(), text)


def list_(
    everywhere: Annotated[bool, typer.Option("--all", help="Include all folders.")] = False,
    agents: Annotated[bool, typer.Option("--agents", help="Include transcripts of sub-agents.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the sessions of this folder, newest first.

    agentcli sessions list        the sessions of this folder
    agentcli sessions list --all  sessions of all folders
    """
    state = Paths.from_environ(os.environ).state_dir
    found = [] if state is None else list_sessions(state, None if everywhere else Path.cwd(), agents=agents)
    if as_json:
        echo_json([session_record(session) for session in found])
        return
    if not found:
        echo("No sessions in this folder yet. To list all folders: agentcli sessions list --all", err=True)
    # A session of another folder can only be resumed by its full id.
    width = terminal_style()[0] if sys.stdout.isatty() and not everywhere else None
    for line in session_lines(found, width):
        echo(line)


def session_lines(sessions: Sequence[SessionInfo], width: int | None = None) -> Iterator[str]:
    """One line per session, cut to `width`, with ids shortened to what `-r` needs. None: complete lines for
    programs. With its folder if not all are of this one."""
    ids = [session.session_id for session in sessions]
    is_elsewhere = any(session.cwd not in ("", str(Path.cwd())) for session in sessions)
    # As many leading characters as make the ids distinct; at least 8, the first part of a UUID.
    cells = next((cells for cells in range(8, 36) if len({id[:cells] for id in ids}) == len(ids)), 36)
    for session in sessions:
        changed = _local_time(session.modified)
        folder = f"  ({show_name(session.cwd)})" if is_elsewhere else ""
        if width is None:
            count = "?" if session.message_count is None else str(session.message_count)
            yield f"{session.session_id}  {changed}  {count:>5} messages  {plain_line(session.label, 80)}{folder}"
        else:
            line = f"{session.session_id[:cells]}  {changed}  {plain_line(session.label)}"
            yield cut(line, max(40, width - cell_count(folder))) + folder


def session_record(session: SessionInfo) -> Json:
    return {
        "session_id": session.session_id,
        "title": redact_values(session.title),
        "first_prompt": redact_values(session.first_prompt),
        "cwd": session.cwd,
        "modified": session.modified,
        "messages": session.message_count,
        "path": str(session.path),
    }


def _local_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")


# ---------------------------------------------------------------------------------------------------------------- show


def show(session: SessionArgument, as_json: AsJson = False) -> None:
    """Show a session: its prompts, what they cost and changed, and how each answer ended.

    agentcli sessions show parser  the session with this word in its name or first prompt
    """
    from agentcli.history.tree import measure

    info = find_session(session)
    timeline = read_timeline(info.path)
    prompts, branches = timeline.current, len(timeline.leaves) - 1
    cost = sum(prompt.cost_usd for prompt in timeline.prompts.values())
    if as_json:
        details = [_prompt_record(prompt) for prompt in prompts]
        more = {"began": timeline.began, "cost_usd": cost, "other_branches": branches, "prompts": details}
        echo_json({**session_record(info), **more})
        return
    echo(plain_line(info.label))
    facts = [
        ("id", info.session_id),
        ("folder", show_name(info.cwd)),
        ("changed", f"{_local_time(info.modified)}, began {_prompt_time(timeline.began)}"),
        ("file", f"{show_name(str(info.path))} ({byte_size(info.size)})"),
        ("cost", money(cost)),
    ]
    if branches:
        facts.append(("tree", f"{counted(branches, 'other branch', 'other branches')}, see /tree"))
    for name, value in facts:
        echo(f"  {name:<9}{value}")
    for number, prompt in enumerate(prompts, 1):
        models = ", ".join(map(plain_line, prompt.models))
        about = [_prompt_time(prompt.at), models, measure([prompt]).text, "" if prompt.result else "not finished"]
        echo(f"\n{number:>3}  {' · '.join(filter(None, about))}")
        answer = [line for line in prompt.answer.splitlines() if line.strip()][-2:]
        for sign, lines in (("❯", prompt.text.strip().splitlines()[:3]), ("◆", answer)):
            for line in lines:
                echo(f"     {sign} {plain_line(without_secrets(line), 300)}")
    echo(f"\nTo continue it: agentcli -r {info.session_id}")


def _prompt_time(timestamp: str) -> str:
    return local_time(timestamp) or "at an unknown time"


def _prompt_record(prompt: PromptStep) -> Json:
    from agentcli.history.tree import measure

    totals = measure([prompt])
    return {
        "id": prompt.id,
        "text": redact_values(prompt.text),
        "at": prompt.at,
        "answer": redact_values(prompt.answer),
        "models": prompt.models,
        "cost_usd": prompt.cost_usd,
        "calls": len(prompt.calls),
        "files": totals.files,
        "added": totals.added,
        "removed": totals.removed,
        "finished": prompt.result is not None,
    }
