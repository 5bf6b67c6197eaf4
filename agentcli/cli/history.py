"""`agentcli bisect`: find the call of a session that broke something."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal as signals
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
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
from agentcli.session.find import latest
from agentcli.session.timeline import Timeline, read_timeline
from agentcli.workspace.base import SnapshotError, SnapshotLocation

if TYPE_CHECKING:
    from agentcli.assemble import Rights
    from agentcli.history.bisect import Copies, Run, Search
    from agentcli.workspace.folders import SnapshotFolders

_MAX_DIFF = 1 << 20
_MAX_NAMED = 8
_VERDICT_CELLS = 30
"""What a progress line leaves to the verdict behind it."""
_COLOURS: Mapping[str, str] = {"+": "32", "-": "31", "@": "36", "d": "1"}


def bisect(
    words: Annotated[
        list[str], typer.Argument(metavar="[SESSION] COMMAND", help="Default: the latest session of this folder.")
    ],
    timeout: Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="Limit of a run.")] = 600,
    first: Annotated[int, typer.Option("--from", metavar="N", help="Start before prompt N.", min=1)] = 1,
    sandbox: Sandbox = None,
    as_json: AsJson = False,
) -> int:
    """Find the call of a session after which COMMAND fails. It runs in sandboxed copies of the snapshots: exit code 0
    is good, 125 skips a state, any other is bad. Nothing in the project changes. Exit code 1 if no call is found.

    agentcli bisect 'pytest -q'            the latest session of this folder
    agentcli bisect parser 'make test'     a session by id, name or words of it
    agentcli bisect --from 4 'pytest -q'   start with the state before prompt 4
    """
    if len(words) > 2 or not words[-1].strip():
        raise UsageError("Quote the command: agentcli bisect 'pytest -q'.")
    if not timeout > 0:
        raise UsageError("--timeout needs more than 0 seconds.")
    info = find_session(words[0]) if len(words) == 2 else latest(state_folder(), Path.cwd())
    if info is None:
        raise AgentError("There is no session in this folder. agentcli sessions list --all shows those of all folders.")
    timeline = read_timeline(info.path)
    work = _Bisection(_read_states(timeline, first), timeline, words[-1], timeout, _rights(timeline, sandbox))
    return asyncio.run(work.run(as_json))


def _read_states(timeline: Timeline, first: int) -> States:
    """The states from before prompt `first` on. Raises `AgentError` if there is no change between them."""
    from agentcli.workspace.journal import UndoJournal

    journal = UndoJournal(_location(timeline.session_id).journal)
    journal.load()
    submissions = journal.submissions
    if first > 1:
        submissions = [one for one in submissions if find_origin(timeline, one.prompt_id).prompt_number >= first]
    states = States(submissions)
    if not states.changes:
        since = f" since prompt {first}" if first > 1 else ""
        why = f"no call changed files{since}, the setting undo was off, or its snapshots were deleted after 30 days"
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

    async def run(self, as_json: bool) -> int:
        from agentcli.history.bisect import Search, find_missing, prepare_copies
        from agentcli.sandbox.session_folder import SessionFolder
        from agentcli.workspace.folders import SnapshotFolders

        context = self.rights.context
        folders = SnapshotFolders(_location(self.timeline.session_id))
        private = SessionFolder(Path(tempfile.gettempdir()))
        received: list[int] = []
        runs: list[Run] = []
        try:
            if missing := await find_missing(self.states, folders):
                self.states.drop(missing)
                count = counted(len(missing), "snapshot")
                notice(
                    f"{count} of this session were deleted: they are kept for 30 days, less if they take much space."
                )
            if not self.states.changes:
                raise AgentError("The snapshots of this session were deleted, so there is nothing to search.")
            copies = await prepare_copies(self.states, folders, context, context.cwd, private)
            self._describe_place(copies)
            search = Search(len(self.states.changes))
            with AbortController() as controller, stop_keys(controller, received):
                while (state := search.next()) is not None:
                    self._announce(state, len(runs) + 1, len(runs) + search.max_left)
                    runs.append(await copies.run(state, self.command, self.timeout, controller.signal))
                    search.note(state, runs[-1].verdict)
                    self._report(runs[-1])
            return await self._show(search, runs, folders, as_json)
        except (SnapshotError, OSError) as error:
            if isinstance(error, BrokenPipeError):
                raise
            reason = error.strerror if isinstance(error, OSError) else str(error)
            echo(err=True)
            raise AgentError(f"The copies in {tempfile.gettempdir()} cannot be made: {reason}.") from None
        except Aborted:
            echo("\nStopped. Nothing in the project has changed.", err=True)
            return 128 + (received or [signals.SIGINT])[0]
        finally:
            context.launcher.close()
            await folders.aclose()
            private.remove()

    # ---------------------------------------------------------------------------------------------------- progress

    def _describe_place(self, copies: Copies) -> None:
        keys = " Esc stops." if sys.stdin.isatty() else ""
        changes = counted(len(self.states.changes), "change")
        echo(f"{changes} in session {self.timeline.session_id}.{keys}", err=True)
        if copies.shown:
            names = [show_name(os.path.relpath(path, self.rights.context.cwd)) for path in copies.shown]
            more = [f"{len(names) - _MAX_NAMED} more"] if len(names) > _MAX_NAMED else []
            shown = ", ".join(names[:_MAX_NAMED] + more)
            echo(f"Not in the snapshots, shown to the command as they are now: {shown}", err=True)
        if not copies.in_place:
            echo("The command runs in another folder: an editable install would test the project itself.", err=True)

    def _announce(self, state: int, number: int, most: int) -> None:
        line = f"Run {number} of at most {most}, {self._describe_state(state)}"
        room = terminal_style()[0] - _VERDICT_CELLS if sys.stderr.isatty() else len(line)
        echo(f"{cut(line, max(_VERDICT_CELLS, room))}: ", err=True, end="")

    def _report(self, run: Run) -> None:
        ending = "timed out, " if run.timed_out else f"exit code {run.exit_code}, " if run.verdict == "bad" else ""
        echo(f"{run.verdict}, {ending}{duration(run.seconds)}", err=True)

    def _describe_state(self, state: int) -> str:
        if state == 0:
            return "before the first change"
        headline = self._headline(self.states.changes[state - 1])
        return f"after {headline[0].lower()}{headline[1:]}"

    # ----------------------------------------------------------------------------------------------------- changes

    def _origin(self, change: Change) -> ChangeOrigin:
        return find_origin(self.timeline, change.record.prompt_id, change.call_id)

    def _headline(self, change: Change) -> str:
        origin = self._origin(change)
        prompt = f"prompt {origin.prompt_number}" if origin.prompt_number else "a prompt of another session"
        if origin.is_left:
            prompt = f"{prompt} of another branch"
        if change.record.restored is not None:
            return f"Your {'rewind of the files' if change.previous is None else 'own change'} after {prompt}"
        if change.kind == "user" and change.previous is not None:
            before = find_origin(self.timeline, change.previous.prompt_id).prompt_number
            undo = " or an undo" if change.previous.undone else ""
            if before:
                return f"Your own change{undo} between prompt {before} and {prompt}"
        if change.kind == "user":
            return f"Your own change, or one of a command in the background, during {prompt}"
        if change.kind == "prompt":
            return f"One of the calls of {prompt}"
        if origin.call is None:
            return f"A call of a sub-agent in {prompt}"
        return f"Call {origin.call_number} of {origin.calls}, {origin.title}, in {prompt}"

    def _describe_change(self, change: Change) -> Iterator[str]:
        origin = self._origin(change)
        if change.kind == "user":
            yield self._headline(change)
            return
        yield f"{self._headline(change)}: “{origin.prompt_text}”" if origin.prompt_text else self._headline(change)
        if origin.others:
            yield "  Or one of these calls, which ran at the same time:"
            yield from (f"    {title_of(call)}" for call in origin.others)
        yield f"  {local_time(origin.at)}  {plain_line(origin.model)}".rstrip()

    # ------------------------------------------------------------------------------------------------------ result

    async def _show(self, search: Search, runs: Sequence[Run], folders: SnapshotFolders, as_json: bool) -> int:
        changes: Sequence[Change] = []
        diffs: dict[str, str] = {}
        if search.found is not None:
            changes = self.states.changes[search.found[0] : search.found[1]]
            for root, (before, after) in self.states.span(*search.found).items():
                diffs[root] = await (await folders.shadow(Path(root))).patch(before, after, _MAX_DIFF)
        if as_json:
            echo_json(self._record(search, runs, changes, diffs))
        elif not changes:
            echo(_explain(search, runs))
            _echo_output(runs[-1])
        else:
            self._show_found(changes, diffs, next(run for run in runs if run.state == max(search.found or ())), runs)
        return 0 if changes else 1

    def _show_found(
        self, changes: Sequence[Change], diffs: Mapping[str, str], failed: Run, runs: Sequence[Run]
    ) -> None:
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
        ending = "times out" if failed.timed_out else f"fails (exit code {failed.exit_code})"
        spent = f"{counted(len(runs), 'run')}, {duration(sum(run.seconds for run in runs))} in the command"
        echo(f"\nWith this change the command {ending}; {spent}.")
        _echo_output(failed)

    def _record(self, search: Search, runs: Sequence[Run], changes: Sequence[Change], diffs: Mapping[str, str]) -> Json:
        record: Json = {"found": bool(changes), "session_id": self.timeline.session_id, "command": self.command}
        record["runs"] = [{"place": self._describe_state(run.state), **asdict(run)} for run in runs]
        if not changes:
            return {**record, "problem": _explain(search, runs)}
        record["changes"] = [self._record_change(change) for change in changes]
        return {**record, "diffs": diffs}

    def _record_change(self, change: Change) -> Json:
        origin = self._origin(change)
        others = [title_of(call) for call in origin.others]
        return {"kind": change.kind, **origin.record(), "or_calls": others}


def _explain(search: Search, runs: Sequence[Run]) -> str:
    """Why no change was found."""
    first, last = search.verdicts.get(0), search.verdicts.get(search.last)
    if first == "bad":
        hint = "Check the command, or start later with --from N."
        if runs[0].exit_code in (126, 127):
            hint = "The command was not found or cannot run: check it."
        why = "it timed out" if runs[0].timed_out else f"exit code {runs[0].exit_code}"
        return f"The command already fails before the first change ({why}). {hint}"
    if "skipped" in (first, last):
        where = "before the first change" if first == "skipped" else "after the last one"
        return f"The command skipped the state {where} (exit code 125), so there is nothing to compare with."
    return "The command succeeds after the last change too, so no call of this session broke it."


def _echo_output(run: Run) -> None:
    for line in run.last_lines:
        echo(f"  | {line}")


def _echo_diff(diff: str) -> None:
    styled = terminal_style()[1]
    for line in diff.splitlines():
        shown = terminal_text(line)
        colour = _COLOURS.get(line[:1]) if styled else None
        echo_styled(f"\x1b[{colour}m{shown}\x1b[0m" if colour else shown)


@contextlib.contextmanager
def stop_keys(controller: AbortController, received: list[int]) -> Iterator[None]:
    """Abort on Esc and on signals, whose numbers are added to `received`."""

    def stop(number: int) -> None:
        received.append(number)
        controller.abort()

    loop = asyncio.get_running_loop()
    numbers = (signals.SIGINT, signals.SIGTERM, signals.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, stop, number)
    try:
        with _escape_key(controller.abort) if sys.stdin.isatty() else contextlib.nullcontext():
            yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def _escape_key(pressed: Callable[[], None]) -> Iterator[None]:
    """Call `pressed` when the user presses Esc in the terminal."""
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
