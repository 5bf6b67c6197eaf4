"""The same prompt once more, with another model or effort: from the same point of the conversation, in copies of the
folders as they were when it was sent, which tools and commands use in place of the folders.

An agent of the session runs it: its costs, questions and events are those of an agent. Nothing of the project is
written until the user takes its result.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any

from agentcli.agent.costs.cache_watch import Front
from agentcli.agent.costs.costs import model_usage
from agentcli.agent.engine import Engine
from agentcli.agent.ports import EmitEvent
from agentcli.agent.profile import Profile
from agentcli.agent.subagents.run import AgentRun
from agentcli.agent.subagents.specs import AgentOrder, AgentSpec
from agentcli.assemble.project_copy import ProjectCopy
from agentcli.core import events as ev
from agentcli.core.aio import in_thread
from agentcli.core.errors import AgentError
from agentcli.core.event_base import event_from_dict, event_to_dict
from agentcli.core.frozen import frozen, slotted
from agentcli.core.messages import Json, Message, Origin, user_message
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.unified_diff import parse_files
from agentcli.history.bisect import Copies, prepare_copies
from agentcli.history.rewind import find_since
from agentcli.history.states import States
from agentcli.history.tree import place_before
from agentcli.providers.catalog import nearest_effort
from agentcli.sandbox.session_folder import SessionFolder
from agentcli.session.base import Rewind
from agentcli.session.load import LoadedSession, load_session
from agentcli.session.timeline import WHAT_IF, PromptStep, Timeline
from agentcli.shell.paths import is_protected
from agentcli.tools.base import AgentTask, ToolContext
from agentcli.tools.files.read_cache import ReadCache
from agentcli.workspace.base import OtherChanges, SnapshotError
from agentcli.workspace.folders import SnapshotFolders
from agentcli.workspace.journal import SubmissionRecord, UndoJournal

_SPEC = AgentSpec(WHAT_IF, "The same prompt with another model or effort.", "", shares_context=True)
_MAX_DIFF = 1 << 20
_SECONDS = 60.0
_ELSEWHERE = (
    "[The project was copied to {copy} for what follows. Commands start there: use relative paths in them. File tools "
    "find the copy under the usual paths.]"
)


@frozen
class Side:
    """One of the two results. Texts are untrusted."""

    model: str
    effort: str
    """"" if it is not known, or not sent."""
    cost_usd: float | None
    seconds: float
    tokens: int
    turns: int
    answer: str
    diff: str
    changes: tuple[int, int, int]
    """Files, lines added and lines removed."""


def _count(diff: str) -> tuple[int, int, int]:
    files = [file for file in parse_files(diff) if file.path]
    return len(files), sum(file.added for file in files), sum(file.removed for file in files)


@slotted
class WhatIf:
    """`run` is work for `Engine.perform`; afterwards `other` is its result, or `problem` says why there is none."""

    engine: Engine
    timeline: Timeline
    step: PromptStep
    profile: Profile
    present: Side | None = None
    other: Side | None = None
    problem: str = ""
    prompt_id: str = ""
    """Id of the prompt as the agent has sent it."""
    protected: list[str] = field(default_factory=list)
    """Paths that the other result changed, and that programs run or obey: in the copies nothing asks about them."""
    _events: list[ev.Event] = field(default_factory=list)
    _trees: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def effort(self) -> str:
        """The effort that the model gets; "" if it has no levels."""
        return self._effort_with(self.profile)

    def _effort_with(self, profile: Profile) -> str:
        info, wanted = self.engine.session.catalog.get(profile.model), profile.effort
        return (info.default_effort if wanted is None else nearest_effort(info, wanted)[0]) or ""

    @property
    def rewind(self) -> Rewind:
        found = place_before(self.timeline, self.step.id)
        assert found is not None
        return found

    async def run(self, emit: EmitEvent) -> None:
        try:
            await self._run(emit)
        except SnapshotError as error:
            self.problem = f"The files of that prompt cannot be copied: {error}."
        except OSError as error:
            self.problem = f"The what-if failed: {error.strerror or error}."
        except AgentError as error:
            self.problem = str(error)

    async def _run(self, emit: EmitEvent) -> None:
        session = self.engine.session
        location = session.workspace.place
        if location is None:
            raise AgentError("A what-if needs the copies of files that undo keeps, and there are none in this session.")
        folders = SnapshotFolders(replace(location, session_id=session.ids.new()))
        temp = (session.environ or os.environ).get("TMPDIR") or tempfile.gettempdir()
        private = await in_thread(lambda: SessionFolder(Path(temp)))
        context: ToolContext | None = None
        try:
            journal = UndoJournal(location.journal)
            await in_thread(journal.load)
            record = await self._find_record(journal, folders)
            there = await in_thread(partial(self._load, self.rewind))
            cwd = Path(there.directory) if there.directory else session.tool_context.root
            copies = await prepare_copies(States([record]), folders, session.tool_context, cwd, private)
            await copies.check_out(0)
            context = await in_thread(partial(_context_in, copies, session.tool_context))
            log = list(there.messages)
            if not copies.in_place:
                text = _ELSEWHERE.format(copy=context.root)
                log.append(user_message(text, session.ids.new(), Origin.ATTACHMENT, {}))
            run = await self._follow(context, tuple(log), emit)
            if run.status == "stopped":
                self.problem = "The what-if was stopped. Nothing was changed."
                return
            await self._compare(copies, folders, record, run)
        finally:
            if context is not None:
                await in_thread(context.launcher.close)
            await folders.aclose()
            await in_thread(private.remove)

    def _load(self, rewind: Rewind) -> LoadedSession:
        path = self.engine.session.store.path
        assert path is not None
        return load_session(path, with_history=False, rewind=rewind)

    async def _find_record(self, journal: UndoJournal, folders: SnapshotFolders) -> SubmissionRecord:
        """The folders as the prompt found them and left them. If it changed nothing, as the next one found them that
        did, or as they are."""
        line = [step.id for step in self.timeline.current]
        since = line[line.index(self.step.id) :]
        records = [one for one in journal.submissions if one.prompt_id in since and one.before]
        if records and records[0].prompt_id == self.step.id:
            return records[0]
        if records:
            return SubmissionRecord(0, self.step.id, records[0].before, records[0].before)
        taken = await folders.take(self.engine.working_dirs, {}, (), with_ignored=True)
        for reason in taken.failed.values():
            raise SnapshotError(reason)
        return SubmissionRecord(0, self.step.id, taken.snapshots, taken.snapshots)

    async def _follow(self, context: ToolContext, log: tuple[Message, ...], emit: EmitEvent) -> AgentRun:
        session = self.engine.session
        setup, signal = session.agent_setup, session.signal
        assert setup is not None
        assert signal is not None
        messages = await self.engine.messages_with(self.step.id)
        prompt = next(message for message in messages if message.id == self.step.id)
        agent_id = session.agents.new_id(WHAT_IF)
        place = ProjectCopy(context, session.permissions, session.tool_context.working_dirs)
        task = AgentTask("", WHAT_IF, plain_line(prompt.typed, 80), "")
        model, effort = self.profile.model, self.profile.effort
        order = AgentOrder(agent_id, _SPEC, task.description, model, place, log, effort)
        engine = setup.build(session, order)
        run = AgentRun(agent_id, WHAT_IF, task, session.clock, engine, prompt=prompt)

        async def take(event: ev.Event) -> None:
            is_recorded = event.agent == agent_id and event.policy.recorded in ("shown", "state")
            # A mode that it entered is not that of the branch.
            if is_recorded and not isinstance(event, ev.ModeChanged):
                self._events.append(event)
            await emit(event)

        await run.run(signal, take)
        await emit(run.finished())
        if run.result is not None:
            self._events.append(run.result)
        return run

    async def _compare(self, copies: Copies, folders: SnapshotFolders, record: SubmissionRecord, run: AgentRun) -> None:
        diffs: tuple[list[str], list[str]] = ([], [])
        if not copies.in_place:
            for link in map(copies.copy_of, copies.shown):
                if link.is_symlink():
                    link.unlink()
        for root, before in copies.states.trees(0).items():
            shadow = await folders.shadow(Path(root))
            tree = await shadow.take_copy(copies.copy_of(Path(root)), _SECONDS)
            self._trees[root] = (before, tree)
            self.protected += [f"{root}/{path}" for path in await shadow.compare(before, tree) if is_protected(path)]
            then = (record.after or record.before).get(root)
            for texts, after in zip(diffs, (before if then is None else then.tree, tree), strict=True):
                texts.append(await shadow.patch(before, after, _MAX_DIFF))
        self._move_paths(copies)
        step, usage = self.step, self.step.usage
        turns = [one for one in step.requests if one.purpose == "turn" and not one.agent]
        waited = step.result.waited_ms if step.result is not None else 0
        seconds = ((step.result.duration_ms if step.result is not None else 0) - waited) / 1000
        # Only of the last prompt is the effort known.
        is_last = self.timeline.current[-1:] == [step] and step.models[-1:] == (self.engine.model,)
        self.present = Side(
            step.models[-1] if step.models else self.engine.model,
            self._effort_with(self.engine.profile) if is_last else "",
            step.cost_usd,
            seconds,
            usage.prompt_tokens + usage.output_tokens,
            len(turns),
            step.answer,
            "".join(diffs[0]),
            _count("".join(diffs[0])),
        )
        numbers = (run.cost_usd, run.seconds, run.tokens, run.turns)
        diff = "".join(diffs[1])
        self.other = Side(run.model, self.effort, *numbers, run.text, diff, _count(diff))

    def _move_paths(self, copies: Copies) -> None:
        """Make the agent's events those of the session: without its id, and with the names of the originals."""
        names = {str(copy): str(folder) for folder, copy in copies.outer.items()}
        self._events = [
            event_from_dict(_rename(event_to_dict(replace(event, agent="")), names)) for event in self._events
        ]
        begun = (event.message for event in self._events if isinstance(event, ev.MessageAppended))
        self.prompt_id = next(message.id for message in begun if message.origin is Origin.PROMPT)

    async def keep(self) -> str:
        """Record the other result as a branch of the session; returns its id for `Rewind.branch`."""
        session = self.engine.session
        usage = model_usage(session.costs.totals, session.catalog)
        # The last result of a process has its totals.
        events = [replace(one, model_usage=usage) if isinstance(one, ev.Result) else one for one in self._events]
        there = await in_thread(partial(self._load, self.rewind))
        name = " ".join(filter(None, (WHAT_IF, self.profile.model, self.profile.effort)))
        return session.store.add_branch(self.rewind, there, events, name)

    @property
    def choice(self) -> Json:
        """Model and parameters for `Store.note_choice`."""
        profile = self.profile
        return Front(profile.model, profile.effort, profile.thinking, fast=profile.fast).to_dict()

    async def since(self) -> int:
        """Number of the first submission whose changes the other result replaces."""
        submissions = await self.engine.session.workspace.submissions()
        found = find_since(submissions, self.timeline, self.step.id, after=False)
        return found if found is not None else max((one.number for one in submissions), default=0) + 1

    @property
    def replacement(self) -> OtherChanges:
        return OtherChanges(self.prompt_id, self._trees)


def _rename(value: Any, names: Mapping[str, str]) -> Any:
    """JSON with other names of folders. Thinking is signed, so it stays."""
    match value:
        case str():
            for name, other in names.items():
                value = value.replace(name, other)
            return value
        case dict() if value.get("type") not in ("thinking", "redacted_thinking"):
            return {key: _rename(one, names) for key, one in value.items()}
        case list() | tuple():
            return [_rename(one, names) for one in value]
    return value


def _context_in(copies: Copies, context: ToolContext) -> ToolContext:
    """The session's context for calls in the copies. Blocking."""
    launcher = copies.launcher()
    copied = (one for one in context.working_dirs if any(one.is_relative_to(root) for root in copies.outer))
    own: Sequence[Path] = list(copied)
    if not own or own[0] != context.root:
        raise SnapshotError(f"there is no snapshot of {context.root}")
    hides = context.hides
    cwd = copies.cwd
    if not copies.in_place:
        own, cwd = [*map(copies.copy_of, own)], copies.copy_of(cwd)
    return replace(
        context,
        cwd=cwd,
        working_dirs=tuple(own),
        launcher=launcher,
        read_cache=ReadCache(),
        hides=None if hides is None else lambda path: hides(launcher.inside(path)),
    )
