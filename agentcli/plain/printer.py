"""Convert events to output pieces. Pure: the time is an argument.

Printed text cannot be changed, so nothing is printed before it is certain: a call when it starts, a result when the
call has ended. All untrusted text is cleaned here, once. Keeps state for the current submission only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from agentcli.core import events as ev
from agentcli.core.messages import SAID, Json, Message, Origin, TextBlock, ThinkingBlock, ToolUseBlock, is_thinking
from agentcli.core.text.format import counted, duration, money, plural
from agentcli.core.text.plaintext import ControlStripper, plain_line, plain_text
from agentcli.core.text.unified_diff import contains_diff
from agentcli.interactive import wording
from agentcli.interactive.wording import is_entered
from agentcli.plain.pieces import AnswerEnd, AnswerText, Gap, Piece, TextLine, TextStyle, line, prose
from agentcli.plain.results import INDENT, RunningOutput, diff_lines, diff_output, result_lines, without_summary

if TYPE_CHECKING:
    from agentcli.agent.engine import Engine

Titles = Callable[[str, Json], str]
_TITLE = 2_000
_TASK = "Task"
"""Name of the tool that starts sub-agents."""
_PROGRESS_SECONDS = 5.0
"""Least number of seconds between two progress lines of a call."""
_SIGNS: dict[str, str] = {"info": "· ", "warning": "! ", "error": "! "}


@dataclass(slots=True)
class _Call:
    title: str
    started: bool = False
    began: float = 0.0
    live: bool = False
    output: RunningOutput = field(default_factory=RunningOutput)
    """Output to print if the call is interrupted. Unused for a live call, whose output is printed as it arrives."""
    stripper: ControlStripper = field(default_factory=ControlStripper)
    unended: str = ""
    last: str = ""
    seen: bool = False
    progressed: float = -_PROGRESS_SECONDS
    """Time of the last progress line."""


class Printer:
    def __init__(
        self,
        title_of: Titles = lambda name, _input: name,
        *,
        verbose: bool = False,
        aside: Callable[[], str] = lambda: "",
    ) -> None:
        """`aside` returns text to append to the last line of every submission."""
        self._aside = aside
        self._title_of = title_of
        self._verbose = verbose
        self._strippers: dict[tuple[str, int], ControlStripper] = {}
        self._thoughts: dict[tuple[str, int], float] = {}
        """Start time of each open thinking block."""
        self._calls: dict[str, _Call] = {}
        self._last_call = ""
        self._of_reply = ""
        self._mode = ""
        self._reported: set[str] = set()
        """Failure texts already shown in this submission."""
        self._cost = 0.0
        self._halted = False
        self._agents: dict[str, Printer] = {}
        """Printer for the calls of each running sub-agent."""
        self._background: set[str] = set()
        """Agents that continue when the submission is interrupted, and their descendants."""
        self._agent_calls: set[str] = set()
        """Ids of calls whose agent has started. They print no line, because the agent's own lines say the same."""
        self._changing: dict[str, str] = {}
        """Titles of ended commands whose changes of files are still being compared."""

    # ---------------------------------------------------------------------------------------------- from outside

    def interrupted(self, now: float, result: ev.Result | None = None) -> list[Piece]:
        """Print the interruption at once. Later events of the submission are not printed."""
        text = wording.interruption(result)
        said = [] if self._halted else self.note(text, "warning")
        return [*self.halt(now), *said]

    def halt(self, now: float) -> list[Piece]:
        """Print the unfinished calls. Used alone for steering, where the new prompt shows why they stopped."""
        calls = {} if self._halted else {id: call for id, call in self._calls.items() if not call.live}
        self._halted = True
        pieces: list[Piece] = [AnswerEnd()]
        for id, call in calls.items():
            if id not in self._agent_calls:
                seconds = now - call.began if call.started else 0.0
                pieces += self._outcome(id, call, _join_outcome(["interrupted"], seconds), "warning")
                pieces += call.output.lines(verbose=self._verbose)
        return pieces

    def settled(self) -> None:
        """Reset the state: the submission has ended, in whatever way."""
        self._strippers.clear()
        self._thoughts.clear()
        # Commands in the user's own shell may still be running.
        self._calls = {id: call for id, call in self._calls.items() if call.live and call.started}
        self._agents = {id: printer for id, printer in self._agents.items() if id in self._background}
        self._agent_calls.clear()
        self._last_call = self._of_reply = ""
        self._changing.clear()
        self._reported.clear()
        self._halted = False

    def note(self, text: str, level: str = "info") -> list[Piece]:
        text = plain_text(text)
        look: TextStyle = "error" if level == "error" else "warning" if level == "warning" else "quiet"
        return [prose(text, look, _SIGNS.get(level, "· "), look)]

    def seen(self, tool_use_id: str) -> None:
        """The user was shown everything that this call would do."""
        if tool_use_id in self._calls:
            self._calls[tool_use_id].seen = True

    # --------------------------------------------------------------------------------------------------- events

    def show(self, event: ev.Event, now: float) -> list[Piece]:
        if isinstance(event, ev.SessionResumed):
            self.settled()
            self._cost = 0.0
            return self.note(wording.CLOSED, "warning") if event.cut_off else []
        if ev.is_of_subagent(event):
            return self._show_agent(event, now)
        if self._halted and event.agent != ev.USER_AGENT:
            return []
        pieces = self._show(event, now)
        if pieces and not isinstance(event, ev.ToolStarted):
            self._last_call = ""
        return pieces

    def _show_agent(self, event: ev.Event, now: float) -> list[Piece]:
        """Print a sub-agent's start, end and session-wide events, and with `--verbose` its calls. Its text is its
        report, not part of the answer."""
        pieces: list[Piece] = []
        match event:
            case ev.AgentStarted():
                self._agents[event.agent] = Printer(self._title_of)
                self._agents.get(event.parent, self)._agent_calls.add(event.tool_use_id)
                if event.background or event.parent in self._background:
                    self._background.add(event.agent)
            case ev.AgentMoved():
                self._background.update(event.agents)
            case ev.AgentFinished():
                self._agents.pop(event.agent, None)
            case ev.BlockFinished(block=ToolUseBlock()) | ev.ToolStarted() | ev.ToolFinished() if self._verbose:
                calls = self._agents.get(event.agent)
                pieces = calls.show(replace(event, agent=""), now) if calls is not None else []
                pieces = [_after(f"[{plain_line(event.agent)}] ", piece) for piece in pieces]
        if wording.shown_of_subagent(event):
            text, level = wording.event_line(event)
            pieces = self.note(f"{wording.whose(event)}{text}", level)
        is_halted = self._halted and event.agent not in self._background
        if isinstance(event, ev.AgentFinished):
            self._background.discard(event.agent)
        if pieces and not is_halted:
            self._last_call = ""
            return pieces
        return []

    def _show(self, event: ev.Event, now: float) -> list[Piece]:
        match event:
            case ev.TextStreamed():
                return self._text(event)
            case ev.ThinkingStreamed():
                self._thoughts.setdefault((event.message_id, event.index), now)
                return []
            case ev.BlockFinished():
                return self._block_finished(event, now)
            case ev.ReplyTombstoned():
                return self._withdraw(event)
            case ev.ToolStarted():
                return self._call_started(event, now)
            case ev.ToolProgressed():
                return self._progress(event, now)
            case ev.ToolFinished():
                return self._call_finished(event)
            case ev.CommandChangedFiles():
                return self._files_changed(event)
        return self._show_notice(event, now)

    def _show_notice(self, event: ev.Event, now: float) -> list[Piece]:
        match event:
            case ev.MessageAppended():
                return self._added(event.message)
            case ev.Result():
                return [AnswerEnd(), *self._end_line(event, now)]
            case ev.SubmissionInterrupted():
                return self.halt(now) if event.steering else self.interrupted(now)
            case ev.NoticeRaised(code="command"):
                if event.level != "error" and contains_diff(event.text):
                    return [*diff_output(plain_text(event.text))]
                return [prose(plain_text(event.text), "error" if event.level == "error" else "text")]
            case ev.NoticeRaised():
                self._reported.add(event.text)
                return self.note(event.text, event.level)
            case ev.ModeChanged():
                before, self._mode = self._mode, event.mode
                if event.mode == before or event.reason == ev.MODE_CHOSEN:
                    return []
            case ev.CompactionFailed():
                self._reported.add(event.text)
        return self.note(*wording.event_line(event)) if wording.has_line(event) else []

    def _added(self, message: Message) -> list[Piece]:
        if message.is_copy or message.origin is Origin.PROMPT or SAID in message.meta:
            # The user has just typed it, so only the expansion of a command from a file is shown.
            return self.note(text) if (text := wording.expansion_line(message)) else []
        return self.message(message)

    def message(self, message: Message) -> list[Piece]:
        """Print a message that is neither a reply nor a tool result."""
        match message.origin:
            case Origin.PROMPT | Origin.QUEUED:
                return [Gap(), *prompt_lines(plain_text(message.typed)), Gap()]
            case Origin.ATTACHMENT | Origin.HOOK | Origin.RECOVERY:
                text = wording.message_line(message)
                return self.note(text) if text else []
            case Origin.BOUNDARY:
                return [Gap(), prose(f"--- {wording.boundary(message)} ---", "quiet"), Gap()]
            case Origin.SUMMARY:
                text = wording.summary(message)
                count = text.count("\n") + 1
                if self._verbose:
                    return [line(wording.SUMMARY_TITLE, "strong"), AnswerText(text), AnswerEnd(), Gap()]
                them = plural(count, "it", "them")
                return self.note(f"{wording.SUMMARY_TITLE}: {counted(count, 'line')}. --verbose shows {them}.")
        return []

    # ------------------------------------------------------------------------------------------------- the reply

    def _text(self, event: ev.TextStreamed) -> list[Piece]:
        place = (event.message_id, event.index)
        first = place not in self._strippers
        text = self._strippers.setdefault(place, ControlStripper()).feed(event.text)
        if first:
            text = text.lstrip("\n")
            if not text:
                del self._strippers[place]
                return []
        self._of_reply = event.message_id
        return [Gap(), AnswerText(text)] if first else [AnswerText(text)] if text else []

    def _block_finished(self, event: ev.BlockFinished, now: float) -> list[Piece]:
        block, place = event.block, (event.message_id, event.index)
        streamed = self._strippers.pop(place, None)
        if isinstance(block, ToolUseBlock):
            title = self._title_of(block.name, block.input) or block.name
            self._calls[block.id] = _Call(plain_line(title, _TITLE))
            return []
        if isinstance(block, TextBlock):
            text = plain_text(block.text).strip("\n")
            if streamed is not None:
                return [AnswerEnd(), Gap()]
            return [Gap(), AnswerText(text), AnswerEnd(), Gap()] if text.strip() else []
        if is_thinking(block):
            began = self._thoughts.pop(place, now)
            thought = plain_text(block.thinking).strip("\n") if isinstance(block, ThinkingBlock) else ""
            rows = thought.split("\n") if self._verbose and thought.strip() else []
            seconds = max(0.0, now - began) if event.duration_ms is None else event.duration_ms / 1_000
            return [
                *(line(row, "quiet", "| ") for row in rows),
                line(f"thought for {duration(seconds)}", "quiet", "· "),
            ]
        return []

    def _withdraw(self, event: ev.ReplyTombstoned) -> list[Piece]:
        self._strippers.clear()
        self._thoughts.clear()
        if self._of_reply != event.message_id:
            return []
        self._of_reply = ""
        return [AnswerEnd(), *self.note(*wording.event_line(event))]

    # ----------------------------------------------------------------------------------------------------- tools

    def _call_started(self, event: ev.ToolStarted, now: float) -> list[Piece]:
        call = self._calls.setdefault(event.tool_use_id, _Call(plain_line(event.title, _TITLE)))
        call.title = plain_line(event.title, _TITLE)
        if event.name == _TASK:
            return []  # its agent's line follows; a call that fails earlier is printed with its result
        call.started, call.live, call.began = True, event.name == "!", now
        self._last_call = event.tool_use_id
        if call.live:
            # The user has just typed the command. Show its folder if that is not the project's root.
            folder = event.input.get("folder")
            return [line(f"(in {plain_line(str(folder), _TITLE)})", "quiet")] if folder else []
        if event.name == "Bash" and (description := event.input.get("description")):
            return [line(plain_line(str(description), _TITLE), "text", "* ", "mark"), line(call.title, "quiet", INDENT)]
        return [line(call.title, "text", "* ", "mark")]

    def _progress(self, event: ev.ToolProgressed, now: float) -> list[Piece]:
        call = self._calls.get(event.tool_use_id)
        if call is not None and (progress := wording.progress_line(event)):
            if now - call.progressed < _PROGRESS_SECONDS:
                return []
            call.progressed = now
            return [line(progress, "quiet", "  ")]
        if call is None or not event.text:
            return []
        if not call.live:
            call.output.add(event)
            return []
        text = event.text.removeprefix("\r")
        before = call.unended if text == event.text else ""
        *whole, call.unended = (before + call.stripper.feed(text)).split("\n")
        call.last = next((row for row in reversed(whole) if row.strip()), call.last)
        return [line(row) for row in whole]

    def _call_finished(self, event: ev.ToolFinished) -> list[Piece]:
        call = self._calls.pop(event.tool_use_id, None) or _Call(plain_line(event.name))
        if event.tool_use_id in self._agent_calls or (event.name == _TASK and event.display.get("background")):
            self._agent_calls.discard(event.tool_use_id)
            return []
        if event.display.get("changed_files") is True:
            self._changing[event.tool_use_id] = call.title
        status = wording.tool_outcome(event)
        # The summary of a denied call contains the outcome; that of an interrupted call adds nothing.
        summary = "" if status == "interrupted" else plain_line(event.summary)
        outcome = "" if status == "done" or (status == "denied" and summary) else status
        hint = "/tasks shows it" if event.display.get("background") else ""
        words = [outcome, summary, hint, wording.count_accepted_hunks(event)]
        look: TextStyle = "error" if status == "failed" else "warning" if status != "done" else "quiet"
        said = _join_outcome(words, event.duration_ms / 1_000)
        if call.live:
            rest: list[Piece] = [line(row) for row in _list_unprinted(event, call.last)]
            return rest if status == "done" else [*rest, prose(said, look, "! ", look)]
        pieces = self._outcome(event.tool_use_id, call, said, look)
        if status != "denied" or call.started:
            pieces += result_lines(event, verbose=self._verbose, seen=call.seen)
        return pieces

    def _files_changed(self, event: ev.CommandChangedFiles) -> list[Piece]:
        title = self._changing.pop(event.tool_use_id, "")
        if not title or self._halted:
            return []
        pieces = self.note(f"{title}: {wording.describe_changed_files(event)} · /diff shows them")
        return [*pieces, *diff_lines(event.diff)] if self._verbose else pieces

    def _outcome(self, id: str, call: _Call, said: str, look: TextStyle) -> list[Piece]:
        """Print the end of a call below the line that names it."""
        if not call.started:
            return [line(call.title, "text", "* ", "mark"), prose(said, look, INDENT)]
        if self._last_call == id:
            return [prose(said, look, INDENT)]
        # Other calls ran in parallel: name the call again.
        return [line(f"{INDENT}{call.title}: {said}", look)]

    # ------------------------------------------------------------------------------------------------------- end

    def _end_line(self, event: ev.Result, now: float) -> list[Piece]:
        cost, self._cost = event.total_cost_usd - self._cost, event.total_cost_usd
        if event.terminal in wording.ABORTED:
            return self.interrupted(now, event)
        if event.is_error:
            last = wording.result_line(event, self._reported)
            if last is None:
                return []
            text, level, errors = last
            return [*self.note(text, level), *(prose(error, "error", INDENT) for error in errors)]
        if not event.turns:
            return []
        words = [duration((event.duration_ms - event.waited_ms) / 1_000)]
        if event.turns > 1:
            words.append(counted(event.turns, "turn"))
        if event.total_cost_usd > 0:
            whole = f" ({money(event.total_cost_usd)} so far)" if event.total_cost_usd - cost > 1e-9 else ""
            words.append(f"{money(cost)}{whole}")
        words.append(self._aside())
        return [prose(" · ".join(filter(None, words)), "quiet", "= ")]


def _join_outcome(words: Iterable[str], seconds: float) -> str:
    """Join the outcome of a call and, from one second on, its duration."""
    took = duration(seconds) if seconds >= 1 else ""
    return " · ".join(filter(None, (*words, took))) or "done"


def _after(prefix: str, piece: Piece) -> Piece:
    """Put the name of its agent before a piece."""
    return replace(piece, runs=((prefix, "quiet"), *piece.runs)) if isinstance(piece, TextLine) else piece


def _list_unprinted(event: ev.ToolFinished, last: str) -> list[str]:
    """Rows of a command's result after the last row printed live: the end of the output is never streamed."""
    rows = plain_text(event.result.text).rstrip("\n").split("\n")
    if last in rows:
        rows = rows[len(rows) - rows[::-1].index(last) :] if last else rows
    if event.result.is_error:
        # The outcome line below repeats it.
        rows = without_summary(rows, plain_line(event.summary))
    return rows if rows != [""] else []


def prompt_lines(text: str) -> Iterable[Piece]:
    """A line that the user sent, if they have not just typed it."""
    first, *rest = text.strip("\n").split("\n")
    return [line(first, "strong", "> ", "mark"), *(line(f"  {row}", "strong") for row in rest)]


PROMPTS_SHOWN = 2


async def past_of(engine: Engine, *, verbose: bool = False) -> list[Piece]:
    """Replay the end of an engine's conversation. In a thread: reading a long one takes seconds."""
    return await asyncio.to_thread(lambda: replay_history(engine.take_history(), engine.title_of, verbose=verbose))


def replay_history(history: Sequence[ev.Event], title_of: Titles, *, verbose: bool = False) -> list[Piece]:
    """Print everything from the last but one prompt on; the messages before it are only counted."""
    printer = Printer(title_of, verbose=verbose)
    start = _find_start(history)
    before = sum(isinstance(event, ev.MessageAppended | ev.ReplyStarted) for event in islice(history, start))
    if not before:
        start = 0
    for event in islice(history, start):
        match event:
            # Later lines depend on these: the cost so far, the permission mode, shell commands still running.
            case ev.Result() | ev.SessionResumed() | ev.ModeChanged() | ev.ToolStarted(agent=ev.USER_AGENT):
                _print(event, printer)
    pieces: list[Piece] = [line(f"… {counted(before, 'message')} before", "quiet")] if before else []
    for event in islice(history, start, None):
        pieces += _print(event, printer)
    return [*pieces, Gap()] if pieces else []


def _find_start(history: Sequence[ev.Event]) -> int:
    prompts = (place for place in range(len(history) - 1, -1, -1) if _is_prompt(history[place]))
    return next(islice(prompts, PROMPTS_SHOWN - 1, None), 0)


def _is_prompt(event: ev.Event) -> bool:
    return isinstance(event, ev.MessageAppended) and event.message.origin is Origin.PROMPT


def _print(event: ev.Event, printer: Printer) -> list[Piece]:
    if isinstance(event, ev.MessageAppended) and _is_prompt(event) and not is_entered(event.message):
        return printer.message(event.message)
    if isinstance(event, ev.CommandEntered):
        return [Gap(), *prompt_lines(plain_text(event.text))]
    pieces = printer.show(event, 0.0)
    if isinstance(event, ev.Result):
        printer.settled()
    return pieces
