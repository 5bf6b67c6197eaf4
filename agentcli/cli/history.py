"""`agentcli bisect`: find the call of a session that broke something."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal as signals
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentcli.cli.help import terminal_style
from agentcli.cli.output import echo, echo_json, echo_styled, notice
from agentcli.cli.permissions import AsJson, Sandbox
from agentcli.cli.sessions import find_session, state_folder
from agentcli.core.aio import AbortController, Aborted
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.columns import cut
from agentcli.core.text.format import counted, duration, local_time
from agentcli.core.text.plaintext import plain_line, show_name, terminal_text
from agentcli.history.states import Change, ChangeOrigin, States, find_origin, title_of
from agentcli.session.find import SessionInfo, latest
from agentcli.session.timeline import Timeline, read_timeline
from agentcli.workspace.base import SnapshotError, SnapshotLocation

if TYPE_CHECKING:
    from agentcli.assemble import Rights
    from agentcli.history.bisect import Run, Search
    from agentcli.workspace.folders import SnapshotFolders

_MAX_DIFF = 1 << 20
_STOPPED = 130
_MIN_TITLE = 8
_PROGRESS_CELLS = 65
"""Longest text of a progress line around the title of the call."""
_DELETED = "were deleted. Snapshots are kept for 30 days, for less if they take much space"


def bisect(
    words: Annotated[
        list[str], typer.Argument(metavar="[SESSION] COMMAND", help="Default: the latest session of this folder.")
    ],
    timeout: Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="Limit of a run.")] = 600,
    first: Annotated[int, typer.Option("--from", metavar="N", help="Start before prompt N.", min=1)] = 1,
    last: Annotated[
        int | None, typer.Option("--to", metavar="N", help="End after prompt N.", show_default=False)
    ] = None,
    sandbox: Sandbox = None,
    as_json: AsJson = False,
) -> int:
    """Find the call of a session after which COMMAND fails. It runs in sandboxed copies of the snapshots: exit code 0
    is good, 125 skips a state, any other is bad. Nothing in the project changes. Exit code 1 if no call is found.

    agentcli bisect 'pytest -q'            the latest session of this folder
    agentcli bisect parser 'make test'     a session by id, name or words of it
    agentcli bisect --from 4 'pytest -q'   start with the state before prompt 4
    """
    if len(words) > 2:
        raise UsageError("Quote the command: agentcli bisect 'pytest -q'.")
    info = find_session(words[0]) if len(words) == 2 else latest(state_folder(), Path.cwd())
    if info is None:
        raise AgentError("There is no session in this folder. agentcli sessions list --all shows those of all folders.")
    timeline = read_timeline(info.path)
    states = _read_states(info, timeline, first, last)
    rights = _rights(timeline, sandbox)
    work = _Bisection(states, timeline, words[-1], timeout, rights)
    try:
        return asyncio.run(work.run(as_json))
    except SnapshotError as error:
        raise AgentError(f"The snapshots cannot be read: {error}.") from None


def _read_states(info: SessionInfo, timeline: Timeline, first: int, last: int | None) -> States:
    from agentcli.workspace.journal import UndoJournal

    journal = UndoJournal(_location(info.session_id).journal)
    journal.load()
    submissions = [
        record
        for record in journal.submissions
        if first <= find_origin(timeline, record.prompt_id).prompt_number <= (last or sys.maxsize)
        or (first == 1 and last is None)
    ]
    states = States(submissions)
    if not states.changes:
        why = "no call changed files, the setting undo was off, or its snapshots were deleted after 30 days"
        raise AgentError(f"This session has no snapshots to search: {why}.")
    return states


def _location(session_id: str) -> SnapshotLocation:
    from agentcli.core.processes.own_programs import clean_search_path

    search_path = clean_search_path(os.environ.get("PATH"), [Path.cwd()])
    return SnapshotLocation(Path(os.path.realpath(state_folder())), session_id, search_path)


def _rights(timeline: Timeline, sandbox: str | None) -> Rights:
    """The rights of the agent's commands in the folder of the session. Raises `AgentError` without a sandbox."""
    from agentcli.assemble import Options, rights_for

    rights = rights_for(Options(cwd=Path(timeline.cwd or "."), environ=os.environ, sandbox=sandbox))
    if rights.context.launcher.name == "none" and sandbox != "off":
        problem = " ".join(rights.sandbox_problems) or "The settings switch it off."
        raise AgentError(
            f"Without a sandbox the command could change the project. {problem} "
            "To run it in unprotected copies: add --sandbox off. To switch the sandbox on: --sandbox on."
        )
    return rights


@frozen
class _Bisection:
    states: States
    timeline: Timeline
    command: str
    timeout: float
    rights: Rights
    reports: list[Json] = field(default_factory=list)

    async def run(self, as_json: bool) -> int:
        from agentcli.history.bisect import Search, bisect, find_missing, prepare_copies
        from agentcli.sandbox.session_folder import SessionFolder
        from agentcli.workspace.folders import SnapshotFolders

        context = self.rights.context
        folders = SnapshotFolders(_location(self.timeline.session_id))
        private = SessionFolder(Path(os.environ.get("TMPDIR") or tempfile.gettempdir()))
        runs: list[Run] = []
        try:
            missing = await find_missing(self.states, folders)
            self.states.drop(missing)
            if missing:
                notice(f"{counted(len(missing), 'snapshot')} of this session {_DELETED}.")
            if not self.states.changes:
                raise AgentError("The snapshots of this session were deleted, so there is nothing to search.")
            copies = await prepare_copies(self.states, folders, context, context.cwd, private)
            self._describe_place(copies.in_place, [*copies.shown])
            search = Search(len(self.states.changes))
            with AbortController() as controller, _stops(controller) as stopped_by:
                runs = await bisect(
                    search,
                    lambda state: copies.run(state, self.command, self.timeout, controller.signal),
                    self._report,
                )
            return await self._show(search, runs, folders, as_json)
        except Aborted:
            echo("\nStopped. Nothing in the project has changed.", err=True)
            return 128 + stopped_by[0] if stopped_by else _STOPPED
        finally:
            context.launcher.close()
            await folders.aclose()
            private.remove()

    def _describe_place(self, in_place: bool, shown: Sequence[Path]) -> None:
        calls = counted(len(self.states.changes), "change")
        keys = " Esc stops." if sys.stdin.isatty() else ""
        echo(f"{calls} in session {self.timeline.session_id}.{keys}", err=True)
        if shown:
            names = ", ".join(show_name(os.path.relpath(path, self.rights.context.cwd)) for path in shown[:8])
            more = f" and {len(shown) - 8} more" if len(shown) > 8 else ""
            echo(f"Not in the snapshots, shown to the command as they are now: {names}{more}", err=True)
        if not in_place:
            echo("The command runs in another folder: an editable install would test the project itself.", err=True)

    def _report(self, number: int, most: int, state: int, run: Run | None) -> None:
        if run is None:
            place = self._describe_state(state)
            echo(f"Run {number} of at most {most}, {place}: ", err=True, end="")
            return
        ending = "timed out, " if run.timed_out else f"exit code {run.code}, " if run.verdict == "bad" else ""
        echo(f"{run.verdict}, {ending}{duration(run.seconds)}", err=True)

    def origin(self, change: Change, call_id: str = "") -> ChangeOrigin:
        return find_origin(self.timeline, change.record.prompt_id, call_id)

    def _origin_before(self, change: Change) -> ChangeOrigin | None:
        return None if change.previous is None else find_origin(self.timeline, change.previous.prompt_id)

    def _describe_state(self, state: int) -> str:
        if state == 0:
            return "before the first change"
        change = self.states.changes[state - 1]
        origin = self.origin(change, change.call_ids[-1] if change.call_ids else "")
        if origin.call is not None:
            title = plain_line(origin.title, 60)
            if sys.stderr.isatty():
                # With the verdict behind it the line fits the terminal.
                title = cut(title, max(_MIN_TITLE, terminal_style()[0] - _PROGRESS_CELLS))
            return f"after call {origin.call_number} ({title})"
        return f"after {_headline(change, origin, self._origin_before(change), short=True)}"

    # ------------------------------------------------------------------------------------------------------ result

    async def _show(self, search: Search, runs: Sequence[Run], folders: SnapshotFolders, as_json: bool) -> int:
        found = search.found
        spent = f"{counted(len(runs), 'run')}, {duration(sum(run.seconds for run in runs))} in the command"
        record: Json = {"found": found is not None, "session_id": self.timeline.session_id, "command": self.command}
        record["runs"] = [self._record_run(run) for run in runs]
        if found is None:
            problem = self._explain(search, runs)
            if as_json:
                echo_json({**record, "problem": problem})
            else:
                echo(problem)
                for line in runs[-1].last_lines:
                    echo(f"  | {line}")
            return 1
        changes = self.states.changes[found[0] : found[1]]
        diffs = {}
        for root, (before, after) in self.states.span(*found).items():
            diffs[root] = await (await folders.shadow(Path(root))).patch(before, after, _MAX_DIFF)
        if as_json:
            records = [self._record_change(change) for change in changes]
            echo_json({**record, "changes": records, "diffs": diffs})
            return 0
        if sys.stdout.isatty():
            echo()
        if len(changes) > 1:
            echo("One of these changes, because the states between them were skipped:")
        for change in changes:
            for line in self._describe_change(change):
                echo(line)
        for root, diff in diffs.items():
            echo(f"\n{show_name(root)}:" if len(diffs) > 1 else "")
            _echo_diff(diff)
        failed = next(run for run in runs if run.state == found[1])
        ending = "times out" if failed.timed_out else f"fails (exit code {failed.code})"
        echo(f"\nWith this change the command {ending}; {spent}.")
        for line in failed.last_lines:
            echo(f"  | {line}")
        return 0

    def _explain(self, search: Search, runs: Sequence[Run]) -> str:
        first, last = search.verdicts.get(0), search.verdicts.get(search.last)
        if first == "bad":
            hint = "Check the command, or start later with --from N."
            if runs[0].code in (126, 127):
                hint = "The command was not found or cannot run: check it."
            return f"The command already fails before the first change (exit code {runs[0].code}). {hint}"
        if first == "skipped" or last == "skipped":
            where = "before the first change" if first == "skipped" else "after the last one"
            return f"The command skipped the state {where} (exit code 125), so there is nothing to compare with."
        return "The command succeeds after the last change too, so no call of this session broke it."

    def _describe_change(self, change: Change) -> Iterator[str]:
        origins = [self.origin(change, id) for id in change.call_ids] or [self.origin(change)]
        others = list(dict.fromkeys(title_of(call) for origin in origins for call in origin.others))
        yield _headline(change, origins[-1], self._origin_before(change))
        if len(origins) > 1 or others:
            yield "  One of these calls, which ran at the same time or have no snapshot of their own:"
            for title in (*(origin.title for origin in origins if origin.title), *others):
                yield f"    {title}"
        at, model = origins[-1].at, origins[-1].model
        if change.kind != "user" and at:
            yield f"  {local_time(at)}  {plain_line(model)}"

    def _record_change(self, change: Change) -> Json:
        origins = [self.origin(change, id) for id in change.call_ids] or [self.origin(change)]
        titles = [title_of(call) for origin in origins for call in origin.others]
        return {"kind": change.kind, **origins[-1].record(), "call_ids": change.call_ids, "or_calls": titles}

    def _record_run(self, run: Run) -> Json:
        verdict = {"state": run.state, "place": self._describe_state(run.state), "verdict": run.verdict}
        return {**verdict, "exit_code": run.code, "timed_out": run.timed_out, "seconds": round(run.seconds, 3)}


def _headline(change: Change, origin: ChangeOrigin, before: ChangeOrigin | None, *, short: bool = False) -> str:
    """`before`: the prompt before, for a change of the user between two prompts."""
    number = origin.prompt_number
    prompt = f"prompt {number}" if number else "a prompt of another session"
    quoted = prompt if short or not origin.prompt_text else f"{prompt}: “{origin.prompt_text}”"
    if change.kind == "user":
        own = "your own change" if short else "Your own change"
        if change.previous is None or before is None:
            return f"{own}, or one of a command in the background, during {prompt}"
        undo = " or an undo" if change.previous.undone else ""
        return f"{own}{undo} between prompts {before.prompt_number} and {number}"
    if change.kind == "prompt":
        return quoted if short else f"One of the calls of {quoted}"
    if origin.call is not None:
        return f"Call {origin.call_number} of {origin.calls}, {origin.title}, in {quoted}"
    return f"{'a' if short else 'A'} call of a sub-agent in {quoted}"


_COLOURS: Mapping[str, str] = {"+": "32", "-": "31", "@": "36", "d": "1"}


def _echo_diff(diff: str) -> None:
    styled = terminal_style()[1]
    for line in diff.splitlines():
        shown = terminal_text(line)
        colour = _COLOURS.get(line[:1]) if styled else None
        echo_styled(f"\x1b[{colour}m{shown}\x1b[0m" if colour else shown)


@contextlib.contextmanager
def _stops(controller: AbortController) -> Iterator[list[int]]:
    """Abort on Esc and on signals, whose numbers are added to the result."""
    received: list[int] = []

    def stop(number: int = 0) -> None:
        received.extend([number] if number else [])
        controller.abort()

    loop = asyncio.get_running_loop()
    numbers = (signals.SIGINT, signals.SIGTERM, signals.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, stop, number)
    try:
        with _escape_key(stop):
            yield received
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def _escape_key(pressed: Callable[[], None]) -> Iterator[None]:
    """Call `pressed` when the user presses Esc; nothing without a terminal."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    def read() -> None:
        # More behind it is another key, such as an arrow.
        if os.read(0, 1024).endswith(b"\x1b"):
            pressed()

    loop, before = asyncio.get_running_loop(), termios.tcgetattr(0)
    tty.setcbreak(0, termios.TCSANOW)
    loop.add_reader(0, read)
    try:
        yield
    finally:
        loop.remove_reader(0)
        termios.tcsetattr(0, termios.TCSANOW, before)
