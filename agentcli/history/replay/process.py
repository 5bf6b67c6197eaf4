"""The session of one recorded process, built from its record, and the real loop that runs in it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from agentcli.agent.attachments.mentions import Mentions
from agentcli.agent.attachments.state_notes import PlanModeNotice, TaskListReminder
from agentcli.agent.context.compaction import CompactArguments
from agentcli.agent.context.compaction_restore import Restored
from agentcli.agent.conversation_log import Delivery
from agentcli.agent.costs.cache_watch import CacheWatch, Front, front_from
from agentcli.agent.costs.costs import totals_from
from agentcli.agent.engine import Engine
from agentcli.agent.live_permissions import LivePermissions
from agentcli.agent.loop.wording import CLOSED
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
from agentcli.core.messages import EXPANDED, SAID, Json, Message, Origin, message_from_dict
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
    is_copy,
    is_of_loop,
    is_prompt,
    is_settings,
    origin_of,
    usage_of,
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
_OF_COMMANDS = "of commands, which are not replayed"
_ABORTED = ("aborted_streaming", "aborted_tools")


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

    def __init__(self, name: str, schema: Json | None = None) -> None:
        self.name = name
        self.definition = schema or {}
        self.input_schema = self.definition.get("input_schema", self.input_schema)

    @property
    def description(self) -> str:
        return str(self.definition.get("description", "[not known]"))

    def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        raise NotImplementedError("no tool runs in a replay")


# ------------------------------------------------------------------------------------------------------------ building


class ProcessBuilder:
    """Builds the session of the process that begins at the tape's cursor."""

    def __init__(self, tape: Tape, loaded: LoadedSession, mode: ev.ModeChanged | None, changes: ReplayChanges) -> None:
        """`loaded`: the session so far; without messages for a new one."""
        self._tape = tape
        self._loaded = loaded
        self._mode = mode
        self.changes = changes
        self._records = tape.records[tape.cursor : tape.end]
        self._fronts = RecordedFronts(tape)
        recorded = next((one for one in self._records if is_settings(one)), {})
        self.settings: Json = {**recorded.get("settings", {}), **(changes.settings or {})}
        self.interactive = bool(recorded.get("interactive"))
        self.schema: Json | None = recorded.get("json_schema")
        self._env = self._environment(recorded, self.settings)

    def _environment(self, recorded: Json, settings: Mapping[str, Any]) -> Environment:
        """An environment with nothing but these settings."""
        options = Options(
            cwd=Path("/"),
            environ={},
            interactive=self.interactive,
            settings=json.dumps(_nested(settings)),
            setting_sources=(),
            token_budget=recorded.get("token_budget"),
            task_budget=recorded.get("task_budget"),
            raw_events=bool(recorded.get("raw_events")),
        )
        return Environment(options)

    def change_settings(self, session: Session, recorded: Json) -> None:
        """Use what applies at once of settings that were changed during the session."""
        env = self._environment(recorded, recorded.get("settings", {}))
        settings, turns = session.settings, env.settings.integer("maxTurns")
        settings.tuning = replace(ModelBuilder(env).tuning(), tool_summaries=False)
        settings.bounds = replace(settings.bounds, max_turns=turns)

    def build(self) -> RecordedSession:
        tape, loaded, env, ids, fronts = self._tape, self._loaded, self._env, RandomIds(), self._fronts
        models = ModelBuilder(env)
        last = front_from(loaded.choice) or front_from(loaded.front, loaded.front_version)
        profile = models.profile(last.model if last is not None else "", last)
        if last is None and (first := fronts.expected()) is not None:
            # What the user chose before the first prompt has no line of its own.
            profile = self._as_sent(profile, first)
        profile = replace(profile, system=self._system(fronts))
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
            wants_structured=self.schema is not None,
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
        self._set_context(session)
        # Otherwise the first events of a resumed session would wait for its first message.
        store.note_seen({})
        return session

    def choose_model(self, profile: Profile) -> Profile:
        """The profile for the prompt of a command, which may name a model."""
        sent = self._fronts.expected()
        is_other = sent is not None and sent.model not in (profile.model, *profile.fallback_models)
        return replace(profile, model=sent.model) if sent is not None and is_other else profile

    def _as_sent(self, profile: Profile, first: Front) -> Profile:
        chosen: Json = {"effort": first.effort, "thinking": first.thinking, "fast": first.fast}
        prompt = next((one for one in self._records if is_prompt(one)), {})
        has_own_model = "model" in self.settings and EXPANDED in prompt.get("message", {}).get("meta", {})
        if first.model not in profile.fallback_models and not has_own_model:
            chosen["model"] = first.model
        return replace(profile, **{name: chosen[name] for name in chosen if name not in (self.changes.settings or {})})

    def _set_context(self, session: RecordedSession) -> None:
        contexts = dict(self._loaded.user_contexts)
        for record in self._records:
            if record.get("type") == "user-context" and record.get("boundary") == "":
                contexts[""] = (str(record["userContext"]), {})
            elif usage_of(record, "turn"):
                break
        for boundary, (text, _sources) in contexts.items():
            session.view.set_user_context(self.changes.user_context(text), boundary)

    def _system(self, fronts: RecordedFronts) -> tuple[str, ...]:
        """The system prompt: with those of the possible notes with which it is the recorded one, if there are such."""
        context, style = self._loaded.system_context or "", self._loaded.style
        for record in self._records:
            if isinstance(record.get("systemContext"), str):
                context, style = record["systemContext"], record.get("outputStyle")
            elif usage_of(record, "turn"):
                break
        notes = [] if self.interactive else [NON_INTERACTIVE]
        custom, appended = self.settings.get("systemPrompt"), self.settings.get("appendSystemPrompt")
        made = [
            system_parts(custom, appended, context, more, style_from(style)) for more in ([*notes, MECHANICS], notes)
        ]
        return max(made, key=fronts.count_same)

    def _tools(self, fronts: RecordedFronts) -> list[Any]:
        expected = fronts.expected()
        records = [tool for one in self._records if one.get("type") == "mcp-tools" for tool in one["tools"]]
        definitions = [tool.get("definition", tool) for tool in (*self._loaded.server_tools, *records)]
        servers = {str(tool["name"]): tool for tool in definitions}
        known = {tool.name: tool for tool in builtin_tools()}
        known |= {name: _UnknownTool(name, tool) for name, tool in servers.items()}
        if self.schema is not None:
            from agentcli.tools.structured import StructuredOutput

            known["StructuredOutput"] = StructuredOutput(self.schema)
        from agentcli.tools.skill import Skill

        known["Skill"] = Skill(cast(Any, None))
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
        self._end = 0
        """Index of the end of the running submission; the tape's end if it has none."""
        self._reason = AbortReason.USER_CANCEL
        self._is_stopped_elsewhere = False
        """Whether the submission was stopped without a record of its own."""
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
        if event_of(record, "SubmissionInterrupted"):
            record = next((one for _index, one in self.tape.ahead(self.tape.cursor + 1)), record)
        if is_prompt(record):
            message = message_from_dict(record["message"])
            self.tape.prompt_number += 1
            self.tape.prompt_text = message.typed
            return SubmissionWork(prompt=replace(message, id=self.session.ids.new()), mentions="")
        if event_of(record, "CompactionStarted") and event.get("trigger") == "manual":
            failed = next((found for _i, one in self.tape.ahead() if (found := event_of(one, "CompactionFailed"))), {})
            return SubmissionWork(compaction=CompactArguments(review=bool(failed.get("cancelled"))))
        if input_of(record, "prompt-hook"):
            return SubmissionWork(prompt=Message("user", (), self.session.ids.new(), Origin.PROMPT), mentions="")
        if origin_of(record) == Origin.ATTACHMENT and record["message"].get("meta", {}).get("note") == _WOKEN:
            message = message_from_dict(record["message"])
            self.session.wakes = _RecordedWakes(replace(message, id=self.session.ids.new()))  # type: ignore[assignment]
            return SubmissionWork(is_woken=True)
        return None

    async def _submit(self, work: SubmissionWork) -> None:
        tape, settings = self.tape, self.session.settings
        self._find_end()
        before = settings.profile
        if work.prompt is not None and EXPANDED in work.prompt.meta:
            settings.profile = self._builder.choose_model(before)
        events = Submission(self.session, work).run()
        consumer = start_task(self._consume(events))
        try:
            while not consumer.done() and tape.difference is None and not tape.at_end:
                tape.changed.clear()
                at = tape.cursor
                self._give_input()
                if tape.cursor == at and not await self._wait(consumer):
                    tape.differ(self._describe_stall(), tape.records[tape.cursor])
            if consumer.done() and tape.cursor <= self._end < tape.end and tape.difference is None:
                tape.differ("the replay ended this prompt here, and the recording did not", tape.records[tape.cursor])
        finally:
            await cancel_and_wait([consumer])
        if settings.profile.model != before.model and EXPANDED in (work.prompt.meta if work.prompt is not None else ()):
            settings.profile = replace(settings.profile, model=before.model)

    def _find_end(self) -> None:
        tape, stopped, closed = self.tape, False, False
        for index, record in tape.ahead():
            stopped = stopped or bool(event_of(record, "SubmissionInterrupted"))
            closed = closed or (origin_of(record) == Origin.INTERRUPTION and CLOSED in str(record["message"]))
            if record["type"] == "submission-end":
                self._end = index
                self._is_stopped_elsewhere = event_of(record).get("terminal") in _ABORTED and not stopped
                self._reason = AbortReason.SHUTDOWN if closed else AbortReason.USER_CANCEL
                return
        self._end, self._is_stopped_elsewhere = tape.end, False

    async def _wait(self, consumer: asyncio.Task[None]) -> bool:
        """Wait until something happens; false if nothing does."""
        changed = start_task(self.tape.changed.wait())
        try:
            done, _pending = await asyncio.wait(
                (consumer, changed), timeout=STALLED_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            await cancel_and_wait([changed])
        # After work that kept the event loop busy both are due at once.
        return bool(done) or self.tape.changed.is_set()

    async def _consume(self, events: AsyncGenerator[ev.Event, None]) -> None:
        async with aclosing(events) as stream:
            async for event in stream:
                if isinstance(event, ev.PermissionRequested) and not event.tool_use_id:
                    self._answer(event)
                elif isinstance(event, ev.CompactionProposed):
                    self.engine.answer(event.request_id, Answer("deny"))

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
        """Give the loop what leads to the line at the cursor."""
        tape, index = self.tape, self.tape.cursor
        record = tape.records[index]
        tape.set_time(index)
        if self._is_stopped_elsewhere and _is_interrupted(record, tape):
            self._abort(index, self._reason)
        kind, event = record["type"], event_of(record)
        call_id = str(record.get("toolUseId") or record.get("call") or event.get("tool_use_id") or "")
        if kind == "user" and record.get("origin") == Origin.TOOL_RESULTS:
            call_id = str(record["message"]["content"][0].get("tool_use_id", ""))
        if call_id and kind in ("call", "user", "input", "shown"):
            if self._calls.give(call_id, index, record) and self._denies_all(index, record):
                self._is_stopped_elsewhere = False
                asyncio.get_running_loop().call_soon(self.session.abort)
        elif event_of(record, "SubmissionInterrupted"):
            self._abort(index, AbortReason.INTERRUPT if event.get("steering") else AbortReason.USER_CANCEL)
        elif self._given != index and self.model.request is not None:
            self._given = index
            if kind == "shown" and event["event"] in ("RetryScheduled", "ModelFellBack", "FeatureDropped"):
                self.model.announce(restore_event(record["event"], {}))
            else:
                self.model.give(index, record)

    def _denies_all(self, index: int, record: Json) -> bool:
        """Whether the user declined a call and thereby stopped the work."""
        if not self._is_stopped_elsewhere or (record.get("state"), record.get("behavior")) != ("answered", "deny"):
            return False
        return not any(one.get("state") == "answered" for _i, one in self.tape.ahead(index + 1) if _i < self._end)

    def _abort(self, index: int, reason: AbortReason) -> None:
        if self.session.controller is None or self._given == index or not self.model.give_partial(index):
            return
        self._given, self._is_stopped_elsewhere = index, False
        if event_of(self.tape.records[index], "SubmissionInterrupted"):
            self.engine.abort(reason)
        else:
            self.session.abort(reason)

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
        elif is_settings(record):
            self._builder.change_settings(session, record)
        elif input_of(record, "budget"):
            session.costs.budget.set(record.get("dollars"))
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


def _is_interrupted(record: Json, tape: Tape) -> bool:
    """Whether a line shows that the work was being stopped."""
    if record["type"] == "user" and record.get("origin") == Origin.TOOL_RESULTS:
        return (record.get("event") or {}).get("outcome") == "interrupted"
    if record["type"] == "reply-end" and not is_copy(record):
        return record["message"].get("stop_reason") is None
    if usage_of(record, "turn"):
        following = next((one for _index, one in tape.ahead(tape.cursor + 1) if one["type"] != "assistant"), {})
        ended = following.get("message", {}) if following.get("type") == "reply-end" else None
        is_partial = ended is not None and ended.get("stop_reason") is None
        return is_partial or following.get("type") == "tombstone" or origin_of(following) == Origin.INTERRUPTION
    return origin_of(record) == Origin.INTERRUPTION
