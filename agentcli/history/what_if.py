"""The same prompt once more, with another model or effort: from the same point of the conversation, in copies of the
folders as they were when it was sent, which tools and commands use in place of the folders.

An agent of the session runs it: its costs, questions and events are those of an agent. Its result becomes a branch of
the session. Nothing of the project is written until the user takes that.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any

from agentcli.agent.costs.costs import model_usage
from agentcli.agent.engine import Engine
from agentcli.agent.ports import EmitEvent
from agentcli.agent.profile import Profile
from agentcli.agent.subagents.run import AgentRun
from agentcli.agent.subagents.specs import AgentOrder, AgentSpec
from agentcli.assemble.project_copy import ProjectCopy
from agentcli.core import events as ev
from agentcli.core.aio import Aborted, in_thread
from agentcli.core.errors import AgentError
from agentcli.core.event_base import event_from_dict, event_to_dict
from agentcli.core.frozen import slotted
from agentcli.core.messages import Message, Origin, user_message
from agentcli.core.text.plaintext import plain_line
from agentcli.history.bisect import Copies, prepare_copies
from agentcli.history.states import States
from agentcli.history.tree import place_before
from agentcli.permissions.policy import Policy
from agentcli.permissions.rules import READING_TOOLS
from agentcli.sandbox.session_folder import SessionFolder
from agentcli.session.base import Rewind
from agentcli.session.load import LoadedSession, load_session
from agentcli.session.timeline import WHAT_IF, PromptStep, Timeline
from agentcli.shell.paths import is_protected
from agentcli.shell.restricted_files import find_denied
from agentcli.tools.base import AgentTask, ToolContext
from agentcli.tools.files.read_cache import ReadCache
from agentcli.workspace.base import Snapshot, SnapshotError
from agentcli.workspace.folders import Roots, SnapshotFolders
from agentcli.workspace.journal import SubmissionRecord

_SPEC = AgentSpec(WHAT_IF, "The same prompt with another model or effort.", "", shares_context=True)
_SECONDS = 60.0
_ELSEWHERE = (
    "[The project was copied to {copy} for what follows. Commands start there: use relative paths in them. File tools "
    "find the copy under the usual paths.]"
)


@slotted
class WhatIf:
    """`run` is work for `Engine.perform`. Afterwards `problem` says why there is no result, or the rest is set."""

    engine: Engine
    timeline: Timeline
    step: PromptStep
    profile: Profile
    name: str
    """The model and effort, for the user."""
    since: int
    """Number of the first submission whose changes the result would replace."""
    problem: str = "The what-if was stopped. Nothing was changed."
    branch: str = ""
    """The branch of the session that has the result, as in `Rewind.branch`."""
    prompt_id: str = ""
    """The prompt on that branch."""
    trees: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By folder that it changed, the trees before and after that."""
    protected: list[str] = field(default_factory=list)
    """Paths that it changed, and that programs run or obey: in the copies nothing asks about them."""
    _found: Roots = field(default_factory=dict)
    """The folders as the prompt found them."""
    _events: list[ev.Event] = field(default_factory=list)

    @property
    def reverse(self) -> SubmissionRecord:
        """Its changes with both states exchanged. To revert that is to make them."""
        states: tuple[Roots, Roots] = ({}, {})
        for root, trees in self.trees.items():
            for roots, tree in zip(states, trees, strict=True):
                roots[root] = replace(self._found.get(root) or Snapshot(tree), tree=tree)
        return SubmissionRecord(0, self.prompt_id, before=states[1], after=states[0])

    async def run(self, emit: EmitEvent) -> None:
        try:
            await self._run(emit)
        except SnapshotError as error:
            self.problem = f"The files of that prompt cannot be copied: {error}."
        except OSError as error:
            self.problem = f"The what-if failed: {error.strerror or error}."
        except AgentError as error:
            self.problem = str(error)
        except Aborted:
            pass

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
            record, there = await self._find_record(folders), await in_thread(self._load)
            self._found = record.before
            cwd = Path(there.directory) if there.directory else session.tool_context.root
            copies = await prepare_copies(States([record]), folders, session.tool_context, cwd, private)
            assert session.signal is not None
            # The copies of a large project take a while.
            await session.signal.run(copies.check_out(0))
            before = await self._take(copies, folders)
            context = await in_thread(partial(_context_in, copies, session.tool_context))
            run = await self._follow(context, there.messages, emit, is_moved=not copies.in_place)
            if run.status == "completed":
                await self._compare(copies, folders, before)
                self._keep(run, there, _originals(copies))
            elif run.status == "failed":
                self.problem = f"The what-if failed. Nothing was changed. {plain_line(run.text, 500)}"
        finally:
            if context is not None:
                await in_thread(context.launcher.close)
            await folders.aclose()
            await in_thread(private.remove)

    @property
    def _place(self) -> Rewind:
        found = place_before(self.timeline, self.step.id)
        assert found is not None
        return found

    def _load(self) -> LoadedSession:
        """The session as it was before the prompt. Blocking."""
        path = self.engine.session.store.path
        assert path is not None
        return load_session(path, with_history=False, rewind=self._place)

    async def _find_record(self, folders: SnapshotFolders) -> SubmissionRecord:
        """What changed the folders first since the prompt was sent. If nothing did, a record without changes."""
        for one in await self.engine.session.workspace.submissions():
            if one.number >= self.since and one.before:
                return one
        taken = await folders.take(self.engine.working_dirs, {}, (), with_ignored=True)
        for reason in taken.failed.values():
            raise SnapshotError(reason)
        return SubmissionRecord(0, self.step.id, taken.snapshots, taken.snapshots)

    async def _take(self, copies: Copies, folders: SnapshotFolders) -> dict[str, str]:
        """The trees of the copies as they are, without files that deny rules hide. They are removed: a sandbox covers
        those of the project, and may have left empty files in the copies to do so."""
        if not copies.in_place:
            for link in map(copies.copy_of, copies.shown):
                if link.is_symlink():
                    link.unlink()
        await in_thread(partial(_remove_hidden, copies, self.engine.session.permissions.policy))
        return {
            root: await (await folders.shadow(Path(root))).take_copy(copies.copy_of(Path(root)), _SECONDS)
            for root in copies.states.trees(0)
        }

    async def _follow(
        self, context: ToolContext, messages: Sequence[Message], emit: EmitEvent, *, is_moved: bool
    ) -> AgentRun:
        """Run the agent. `is_moved`: commands do not see the copies in place of the folders."""
        session = self.engine.session
        setup, signal = session.agent_setup, session.signal
        assert setup is not None
        assert signal is not None
        log = list(messages)
        if is_moved:
            text = _ELSEWHERE.format(copy=context.root)
            log.append(user_message(text, session.ids.new(), Origin.ATTACHMENT, {}))
        found = await self.engine.messages_with(self.step.id)
        prompt = next(message for message in found if message.id == self.step.id)
        agent_id = session.agents.new_id(WHAT_IF)
        place = ProjectCopy(context, session.permissions, session.tool_context.working_dirs)
        task = AgentTask("", WHAT_IF, plain_line(prompt.typed, 80), "")
        model, effort = self.profile.model, self.profile.effort
        order = AgentOrder(agent_id, _SPEC, task.description, model, place, tuple(log), effort)
        run = AgentRun(agent_id, WHAT_IF, task, session.clock, setup.build(session, order), prompt=prompt)

        async def take(event: ev.Event) -> None:
            is_own = event.agent == agent_id and event.policy.recorded in ("shown", "state")
            # A mode that it entered is not that of the branch.
            if is_own and not isinstance(event, ev.ModeChanged):
                self._events.append(replace(event, agent=""))
            elif isinstance(event, ev.UsageReported):
                self._events.append(replace(event, agent="", purpose="agent"))
            await emit(event)

        await run.run(signal, take)
        await emit(run.finished())
        return run

    async def _compare(self, copies: Copies, folders: SnapshotFolders, before: Mapping[str, str]) -> None:
        after = await self._take(copies, folders)
        self.trees = {root: (tree, after[root]) for root, tree in before.items() if tree != after[root]}
        for root, trees in self.trees.items():
            changed = await (await folders.shadow(Path(root))).compare(*trees)
            self.protected += [f"{root}/{path}" for path in changed if is_protected(path)]

    def _keep(self, run: AgentRun, there: LoadedSession, originals: Mapping[str, str]) -> None:
        """Record the result as a branch of the session. `originals`: the names that folders have there."""
        session, result = self.engine.session, run.result
        assert result is not None
        # The last result of a process has its totals.
        self._events.append(replace(result, model_usage=model_usage(session.costs.totals, session.catalog)))
        events = [event_from_dict(_rename(event_to_dict(event), originals)) for event in self._events]
        begun = (event.message for event in events if isinstance(event, ev.MessageAppended))
        self.prompt_id = next(message.id for message in begun if message.origin is Origin.PROMPT)
        self.branch = session.store.add_branch(self._place, there, events, f"{WHAT_IF} {self.name}")
        self.problem = ""


def _originals(copies: Copies) -> dict[str, str]:
    """The folders by their copies, `copies/10` before `copies/1`."""
    return {str(copy): str(folder) for folder, copy in reversed(copies.outer.items())}


def _remove_hidden(copies: Copies, policy: Policy) -> None:
    """Remove files that deny rules hide. Blocking. Raises `SnapshotError` if there are too many files to find them."""
    specs = [rule.spec for rule in policy.deny if rule.spec is not None and rule.tool in READING_TOOLS]
    names, working_dirs = _originals(copies), copies.context.working_dirs

    def hides(path: str) -> bool:
        return policy.hides(_rename(path, names), working_dirs[0], working_dirs)

    wanted, folders = (*specs, *policy.private), list(map(str, copies.outer.values()))
    while wanted:
        found = find_denied(folders, wanted, hides)
        for path in found.paths:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        if found.complete:
            return
        if not found.paths:
            raise SnapshotError("there are too many files to find those that deny rules hide")


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
