"""The session of one recorded process, built from its record, and the real loop that runs in it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentcli.agent.attachments.mentions import Mentions
from agentcli.agent.attachments.state_notes import PlanModeNotice, TaskListReminder
from agentcli.agent.context.compaction import CompactArguments
from agentcli.agent.context.compaction_restore import Restored
from agentcli.agent.conversation_log import Delivery
from agentcli.agent.costs.cache_watch import CacheWatch, front_from
from agentcli.agent.costs.costs import totals_from
from agentcli.agent.engine import Engine
from agentcli.agent.live_permissions import LivePermissions
from agentcli.agent.ports import QueuedPrompt
from agentcli.agent.profile import ModelSettings, Profile
from agentcli.agent.session import Resumed, Session
from agentcli.agent.submission import Submission, SubmissionWork
from agentcli.assemble.context_pipeline import clearable_tools
from agentcli.assemble.environment import Environment
from agentcli.assemble.model import ModelBuilder
from agentcli.assemble.options import Options
from agentcli.assemble.sessions import view_of
from agentcli.context.edits import edit_from_dict
from agentcli.context.old_results import Microcompact, Snip, ToolResultBudget
from agentcli.context.prompt import NON_INTERACTIVE, style_from, system_parts
from agentcli.context.steps import ContextStep, Pipeline
from agentcli.core import events as ev
from agentcli.core.aio import AbortReason, AbortSignal, cancel_and_wait, start_task
from agentcli.core.frozen import frozen
from agentcli.core.ids import RandomIds
from agentcli.core.messages import SAID, Json, Message, Origin, message_from_dict
from agentcli.core.permission import Answer, PermissionMode
from agentcli.history.replay.inputs import (
    RecordedAttachments,
    RecordedCalls,
    RecordedCollapser,
    RecordedHooks,
    RecordedMentions,
    TapeClock,
    TapeJournal,
    find_restored,
)
from agentcli.history.replay.replies import RecordedDigests, RecordedFronts, RecordedModel
from agentcli.history.replay.tape import (
    Tape,
    event_of,
    input_of,
    is_abort,
    is_copy,
    is_of_loop,
    is_prompt,
    is_settings,
    origin_of,
)
from agentcli.memory.notes import MECHANICS
from agentcli.permissions.policy import Policy
from agentcli.session.base import SessionContext, restore_event
from agentcli.session.load import LoadedSession
from agentcli.session.store import SessionStore
from agentcli.tools.base import BuiltinTool, ToolContext, ToolRun, object_schema
from agentcli.tools.registry import Registry, builtin_tools

STALLED_SECONDS = 5.0
"""Time without progress after which the loop counts as waiting for something that was not recorded."""
_SAVED = re.compile(r'(/[^\s"\\]*/tool-results)/')
_MEMORY = re.compile(r"^Memory folder: ", re.MULTILINE)
"""In the system context of a session that keeps notes."""
_OF_COMMANDS = "of commands, which are not replayed"


@frozen
class ReplayChanges:
    """What a replay uses instead of what was recorded. Empty: nothing."""

    user_context: Callable[[str], str] = str
    """Makes the user context from the recorded one."""
    settings: Mapping[str, Any] | None = None
    """Settings by name."""


class RecordedSession(Session):
    """A session whose surroundings are those of the record."""

    tape: Tape

    def mentions(self) -> Mentions | None:
        return RecordedMentions(self.tape, self.ids.new)  # type: ignore[return-value]

    async def restore(
        self, log: Sequence[Message], files: Sequence[str], budget: int, signal: AbortSignal, skills: Sequence[str]
    ) -> Restored:
        return find_restored(self.tape)


class _UnknownTool(BuiltinTool):
    """A tool whose definition is not recorded."""

    input_schema = object_schema([], {})
    subject = ""

    description = "[not known]"

    def __init__(self, name: str) -> None:
        self.name = name

    def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        raise NotImplementedError("no tool runs in a replay")


# ------------------------------------------------------------------------------------------------------------ building


class ProcessBuilder:
    """Builds the session of the process that begins at the tape's cursor."""

    def __init__(self, tape: Tape, loaded: LoadedSession, mode: ev.ModeChanged | None, changes: ReplayChanges) -> None:
        """`loaded`: the session so far, with the contexts of this process; without messages for a new one."""
        self._tape = tape
        self._loaded = loaded
        self._mode = mode
        self.changes = changes
        self._records = tape.records[tape.cursor : tape.end]
        self._fronts = RecordedFronts(tape)
        recorded = next((one for one in self._records if is_settings(one)), {})
        self.settings: Json = {**recorded.get("settings", {}), **(changes.settings or {})}
        self.interactive = bool(recorded.get("interactive"))
        self._wants_structured = bool(recorded.get("json_schema"))
        # An environment with nothing but these settings.
        options = Options(
            cwd=Path("/"),
            environ={},
            interactive=self.interactive,
            settings=json.dumps(_nested(self.settings)),
            setting_sources=(),
            token_budget=recorded.get("token_budget"),
            task_budget=recorded.get("task_budget"),
            raw_events=bool(recorded.get("raw_events")),
        )
        self._env = Environment(options)

    def build(self) -> RecordedSession:
        tape, loaded, env, ids, fronts = self._tape, self._loaded, self._env, RandomIds(), self._fronts
        models = ModelBuilder(env)
        last = front_from(loaded.choice) or front_from(loaded.front, loaded.front_version)
        profile = self.choose_model(models.profile(last.model if last is not None else "", last))
        profile = replace(profile, system=self._system())
        cwd = Path(str(self._records[0].get("cwd") or "/"))
        view = view_of(loaded)
        collapser = RecordedCollapser(tape, view)
        mode = PermissionMode(self._mode.mode) if self._mode is not None else PermissionMode.DEFAULT
        permissions = LivePermissions(Policy(mode=mode))
        context = SessionContext(Path("/"), cwd, TapeClock(tape), ids, "replay")
        journal = TapeJournal(tape, loaded.path)
        store = SessionStore(context, journal, loaded if loaded.messages else None)
        reminders = (
            PlanModeNotice(lambda: permissions.mode, ids, view.list_shown_messages, self.interactive),
            TaskListReminder(ids, view.messages),
        )
        session = RecordedSession(
            provider=RecordedModel(tape),
            own_tools=Registry(self._tools(fronts)),
            store=store,
            permissions=permissions,
            settings=ModelSettings(profile, env.catalog, models.bounds(profile), models.tuning()),
            tool_context=ToolContext(cwd=Path(loaded.directory or cwd), working_dirs=(cwd,)),
            ids=ids,
            clock=TapeClock(tape),
            interactive=self.interactive,
            hooks=RecordedHooks(tape),
            collapser=collapser,
            attachments=RecordedAttachments(tape, ids.new, *reminders),
            view=view,
            watch=CacheWatch(fronts),
            pins=set(loaded.pinned),
            pipeline=self._pipeline(collapser),
            wants_structured=self._wants_structured,
            resumed=Resumed(
                log=tuple(loaded.messages),
                mode=("default", "") if self._mode is None else (self._mode.mode, self._mode.returns_to),
                last_reply_at=loaded.last_reply_at,
                last_front=front_from(loaded.front, loaded.front_version),
                totals=totals_from(loaded.spent),
            ),
        )
        session.tape = tape
        session.digests = RecordedDigests(tape, fronts)
        session.runner = RecordedCalls(session, tape=tape)
        # Their lines are inputs.
        session.settings.tuning = replace(session.settings.tuning, tool_summaries=False)
        for boundary, (text, _sources) in loaded.user_contexts.items():
            view.set_user_context(self.changes.user_context(text), boundary)
        # Otherwise the first events of a resumed session would wait for its first message.
        store.note_seen({})
        return session

    def choose_model(self, profile: Profile) -> Profile:
        """The profile with the model, effort and thinking of the next request: a choice before the first prompt, and
        one of a command, have no line of their own."""
        sent, fixed = self._fronts.expected(), self.changes.settings or {}
        if sent is None:
            return profile
        chosen: Json = {"effort": sent.effort, "thinking": sent.thinking, "fast": sent.fast}
        if sent.model not in profile.fallback_models:
            chosen["model"] = sent.model
        return replace(profile, **{name: value for name, value in chosen.items() if name not in fixed})

    def _system(self) -> tuple[str, ...]:
        context = self._loaded.system_context or ""
        notes = [] if self.interactive else [NON_INTERACTIVE]
        if _MEMORY.search(context):
            notes.append(MECHANICS)
        custom, appended = self.settings.get("systemPrompt"), self.settings.get("appendSystemPrompt")
        return system_parts(custom, appended, context, notes, style_from(self._loaded.style))

    def _tools(self, fronts: RecordedFronts) -> list[Any]:
        expected = fronts.expected()
        known: dict[str, Any] = {tool.name: tool for tool in builtin_tools()}
        names = [name for name, _digest in expected.tools] if expected is not None else []
        return [known.get(name) or _UnknownTool(name) for name in names if name != "advisor"]

    def _pipeline(self, collapser: RecordedCollapser) -> Pipeline:
        texts = (json.dumps(one) for one in self._records if event_of(one, "ContextEdited"))
        folder = next((found[1] for text in texts if (found := _SAVED.search(text))), None)

        def save(name: str, _text: str) -> str | None:
            return f"{folder}/{name}" if folder is not None else None

        steps: list[ContextStep] = [ToolResultBudget(save), Snip(), Microcompact(clearable_tools()), collapser]
        return Pipeline([step for step in steps if self._env.settings.boolean(f"context.{step.name}")])


def _nested(settings: Mapping[str, Any]) -> Json:
    """Settings as in a file, in which `context.snip` is `{"context": {"snip": …}}`."""
    made: Json = {}
    for name, value in settings.items():
        *folders, last = name.split(".")
        inside = made
        for folder in folders:
            inside = inside.setdefault(folder, {})
        inside[last] = value
    return made


# ------------------------------------------------------------------------------------------------------------- running


class Process:
    """Runs the submissions of one process, and gives each its inputs when the tape is there."""

    def __init__(self, session: RecordedSession, builder: ProcessBuilder) -> None:
        self.session = session
        self._builder = builder
        self.engine = Engine(session)
        self.tape = session.tape
        assert isinstance(session.provider, RecordedModel)
        self.model = session.provider
        self._calls: RecordedCalls = session.runner  # type: ignore[assignment]
        self._given = -1
        """The line whose input was given last."""
        self.tape.apply, self.tape.advanced = self._apply, self._offer_prompt

    async def run(self, progress: Callable[[int, int], None]) -> None:
        tape = self.tape
        tape.apply_inputs()
        while not tape.at_end and tape.difference is None:
            progress(tape.cursor, len(tape.records))
            work = self._next_work()
            if work is None:
                if is_of_loop(tape.records[tape.cursor]):
                    tape.counts.set_apart(_OF_COMMANDS)
                tape.apply_input()
                continue
            await self._submit(work)

    def _next_work(self) -> SubmissionWork | None:
        """The submission that begins at the cursor; None if none does."""
        record = self.tape.records[self.tape.cursor]
        event = event_of(record)
        if is_abort(record):
            record = next((one for _index, one in self.tape.ahead(self.tape.cursor + 1)), record)
        if is_prompt(record):
            message = message_from_dict(record["message"])
            self.tape.prompt_number += 1
            self.tape.prompt_text = message.typed
            return SubmissionWork(prompt=replace(message, id=self.session.ids.new()), mentions="")
        if event_of(record, "CompactionStarted") and event.get("trigger") == "manual":
            return SubmissionWork(compaction=CompactArguments())
        if input_of(record, "prompt-hook"):
            return SubmissionWork(prompt=Message("user", (), self.session.ids.new(), Origin.PROMPT), mentions="")
        if origin_of(record) == Origin.ATTACHMENT and record["message"].get("meta", {}).get("note") == _WOKEN:
            message = message_from_dict(record["message"])
            self.session.wakes = _RecordedWakes(replace(message, id=self.session.ids.new()))  # type: ignore[assignment]
            return SubmissionWork(is_woken=True)
        return None

    async def _submit(self, work: SubmissionWork) -> None:
        tape, settings = self.tape, self.session.settings
        if work.prompt is not None:
            settings.profile = self._builder.choose_model(settings.profile)
        consumer = start_task(self._consume(Submission(self.session, work).run()))
        consumer.add_done_callback(lambda _task: tape.changed.set())
        try:
            while not consumer.done() and tape.difference is None and not tape.at_end:
                tape.changed.clear()
                at = tape.cursor
                self._give_input()
                if tape.cursor == at:
                    await self._wait()
            if consumer.done() and tape.last_type != "submission-end" and not tape.at_end:
                tape.differ("the replay ended this prompt here, and the recording did not", tape.records[tape.cursor])
        finally:
            await cancel_and_wait([consumer])

    async def _wait(self) -> None:
        """Wait until something happens; if nothing does, that is a difference."""
        tape = self.tape
        try:
            # Unlike `wait_for` of Python 3.11, a timeout never swallows that the user stops the replay.
            async with asyncio.timeout(STALLED_SECONDS):
                await tape.changed.wait()
        except TimeoutError:
            # After work that kept the event loop busy both are due at once.
            if not tape.changed.is_set():
                tape.differ(self._describe_stall(), tape.records[tape.cursor])

    async def _consume(self, events: AsyncGenerator[ev.Event, None]) -> None:
        async with aclosing(events) as stream:
            async for event in stream:
                if isinstance(event, ev.PermissionRequested) and not event.tool_use_id:
                    self._answer(event)

    def _answer(self, question: ev.PermissionRequested) -> None:
        record = next((one for _index, one in self.tape.ahead() if input_of(one, "answer")), None)
        if record is not None:
            fields = {name: record[name] for name in Answer.__dataclass_fields__ if name in record}
            self.engine.answer(question.request_id, Answer(**fields))

    def _describe_stall(self) -> str:
        record = self.tape.records[self.tape.cursor]
        what = event_of(record).get("event") or record.get("kind") or origin_of(record) or record["type"]
        waits = "the replay waits for a reply" if self.model.request is not None else "nothing more came in the replay"
        return f"recorded: {what}\nnow: {waits}"

    # -------------------------------------------------------------------------------------------------------- inputs

    def _give_input(self) -> None:
        """Give the loop what leads to the line at the cursor, once."""
        tape, index = self.tape, self.tape.cursor
        tape.set_time(index)
        if self._given != index and self._give(index, tape.records[index]):
            self._given = index

    def _give(self, index: int, record: Json) -> bool:
        """False: nothing waits for it yet."""
        if origin_of(record) == Origin.TOOL_RESULTS:
            return self._calls.give(str(record["message"]["content"][0].get("tool_use_id", "")), index, record)
        if record["type"] == "shown" and (call_id := event_of(record).get("tool_use_id")):
            return self._calls.give(str(call_id), index, record)
        return self._abort(index, record) if is_abort(record) else self.model.give(index, record)

    def _abort(self, index: int, record: Json) -> bool:
        if self.session.controller is None or not self.model.give_partial(index):
            return False
        if input_of(record, "abort"):
            self.session.abort(AbortReason(record["reason"]))
        else:
            self.engine.abort(AbortReason.INTERRUPT if event_of(record).get("steering") else AbortReason.USER_CANCEL)
        return True

    def _offer_prompt(self) -> None:
        """Queue the prompt that the loop takes in next."""
        record = self.tape.peek()
        if self.session.controller is None or origin_of(record) != Origin.QUEUED or is_copy(record):
            return
        message = message_from_dict(record["message"])
        if SAID not in message.meta and not self.session.queue.ids:
            self.session.queue.add(QueuedPrompt(self.session.ids.new(), message.content, "now", ""))

    def _apply(self, record: Json) -> None:
        """Apply an input, with the ids of the replay."""
        session, kind = self.session, record["type"]
        if kind == "user-context":
            text = self._builder.changes.user_context(str(record["userContext"]))
            session.view.set_user_context(text, str(record["boundary"]))
        elif kind == "model-choice" and (front := front_from(record["front"])) is not None:
            if front.model != session.profile.model:
                session.context.change_count += 1
            session.settings.profile = replace(
                session.profile, model=front.model, effort=front.effort, thinking=front.thinking, fast=front.fast
            )
        elif input_of(record, "call-stop"):
            self._calls.stops[record["call"]] = record
        delivery = session.delivery or Delivery(session, lambda _event: None)
        event: ev.Event | None = None
        if kind in ("event", "shown"):
            event = restore_event(record["event"], {})
        elif kind in ("user", "boundary", "error") and record.get("origin") != Origin.TOOL_RESULTS:
            event = ev.MessageAppended(message=message_from_dict(record["message"]))
        if event is not None:
            self._change_state(event)
            delivery.record(event)

    def _change_state(self, event: ev.Event) -> None:
        session = self.session
        match event:
            case ev.ContextEdited():
                session.view.edit(map(edit_from_dict, event.edits), after=session.log.messages[-1].id)
            case ev.RequestRepaired():
                session.view.repair(event.repair, event.through)
            case ev.ModeChanged():
                session.permissions.set_mode(PermissionMode(event.mode))
            case ev.ContextPinned():
                session.pins.clear()
                session.pins.update(event.items)
            case ev.UsageReported() if ev.is_of_subagent(event):
                session.costs.take(event)


_WOKEN = {"about": "background"}


class _RecordedWakes:
    """Starts a submission with the recorded message."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self.turns = 0

    def begin(self, _ids: Any) -> tuple[ev.NoticeRaised, Message]:
        return ev.NoticeRaised(text="", code="background"), self._message

    def reset(self) -> None:
        self.turns = 0
