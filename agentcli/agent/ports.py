"""The extensions of the loop: what it needs from others, as protocols, and the parts that do nothing.

The loop takes policy as arguments. Whoever implements one of these must not raise for what happens in the world;
an exception that gets through is a bug and ends the submission with `model_error`, never the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal, Protocol

from agentcli.agent.loop.decide import Source, StopVerdict
from agentcli.agent.loop.state import LoopState
from agentcli.core.abort import AbortSignal
from agentcli.core.events import ContextEdited, Event
from agentcli.core.frozen import frozen
from agentcli.core.grant import Approval, Grant
from agentcli.core.messages import Json, Message, ToolResultBlock, ToolUseBlock
from agentcli.core.permission import Decision, Need, PermissionMode, RuleChoice, SaveTo
from agentcli.core.usage import Usage
from agentcli.providers.base import Provider, Request
from agentcli.tools.base import ToolContext
from agentcli.workspace.base import (
    Choices,
    DiffScope,
    FileChange,
    UndoNews,
    UndoPlan,
    UndoReport,
    WorkspaceDiff,
)


@frozen
class PreToolVerdict:
    """A hook's word before a call. `allow` never overrides a deny or ask rule."""

    decision: Literal["none", "allow", "ask", "deny"] = "none"
    reason: str = ""
    updated_input: Json | None = None
    context: tuple[str, ...] = ()
    """Text for the model, added after the results."""


@frozen
class PostToolVerdict:
    stop: str | None = None
    """Not None: the submission ends after this batch, for this reason."""
    context: tuple[str, ...] = ()
    by: Source = "hook"


class Hooks(Protocol):
    async def before_tool(self, call: ToolUseBlock, input: Json) -> PreToolVerdict: ...

    async def after_tool(self, call: ToolUseBlock, input: Json, result: ToolResultBlock) -> PostToolVerdict: ...

    async def after_refused_tool(self, call: ToolUseBlock, text: str) -> PostToolVerdict:
        """A call that did not get to run: unknown, malformed, denied, crashed (PostToolUseFailure)."""
        ...

    async def before_prompt(self, text: str) -> tuple[str, ...]:
        """A prompt was submitted; returns what to tell the model beside it."""
        ...

    async def before_stop(self, state: LoopState) -> StopVerdict: ...

    async def after_failure(self, text: str) -> None:
        """StopFailure: runs beside, nothing waits for it."""
        ...

    async def before_compact(self, trigger: str, focus: str) -> str:
        """Returns the focus to use."""
        ...

    async def after_compact(self, trigger: str) -> None: ...


class NoHooks:
    async def before_tool(self, call: ToolUseBlock, input: Json) -> PreToolVerdict:
        return PreToolVerdict()

    async def after_tool(self, call: ToolUseBlock, input: Json, result: ToolResultBlock) -> PostToolVerdict:
        return PostToolVerdict()

    async def after_refused_tool(self, call: ToolUseBlock, text: str) -> PostToolVerdict:
        return PostToolVerdict()

    async def before_prompt(self, text: str) -> tuple[str, ...]:
        return ()

    async def before_stop(self, state: LoopState) -> StopVerdict:
        return StopVerdict()

    async def after_failure(self, text: str) -> None:
        return None

    async def before_compact(self, trigger: str, focus: str) -> str:
        return focus

    async def after_compact(self, trigger: str) -> None:
        return None


class Permissions(Protocol):
    @property
    def mode(self) -> PermissionMode: ...

    def decide(self, name: str, input: Json, needs: tuple[Need, ...], context: ToolContext) -> Decision: ...

    def suggest(self, name: str, input: Json, needs: tuple[Need, ...], context: ToolContext) -> list[str]: ...

    def rule_choices(self, name: str, input: Json, needs: tuple[Need, ...], context: ToolContext) -> list[RuleChoice]:
        """What an "always" answer can save, narrowest first; the first has the rules of `suggest`."""
        ...

    def suggest_prefix(self, name: str, input: Json, needs: tuple[Need, ...], context: ToolContext) -> list[str]:
        """Rules for this call and others like it (`Bash(npm test *)`), for the hint of a refusal that nobody could
        answer; the exact rules where no prefix is safe to offer, none where no rule can cover the call."""
        ...

    def grant(self, needs: tuple[Need, ...], context: ToolContext, *, approved: Approval) -> Grant:
        """What an allowed command may do beyond its sandbox's ordinary limits. `approved`: what allowed it."""
        ...

    def credential_rules(self, needs: tuple[Need, ...], context: ToolContext) -> tuple[str, ...]:
        """Rules that would give a command the variables that its program signs in with, where those are set."""
        ...

    def learn(self, rules: Sequence[str], save_to: SaveTo) -> str:
        """Allow rules that a user gave with an answer. Returns where they are kept: `session` or a file's path."""
        ...

    def set_mode(self, mode: PermissionMode) -> None: ...

    def leave_plan(self) -> PermissionMode:
        """Out of plan mode, back to the mode before it; returns the active mode then. An answer may have left it
        already, for another mode."""
        ...


class Workspace(Protocol):
    """Keeps what files were like before a call that may change them, so that it can be put back."""

    async def warm(self, working_dirs: Sequence[Path]) -> None:
        """Do ahead of time what makes the first snapshot slow, where that may be done."""
        ...

    def begin(self, prompt_id: str) -> None:
        """A submission begins."""
        ...

    async def before_change(self, call_id: str, input: Json, cwd: Path, working_dirs: Sequence[Path]) -> None:
        """Called right before a call that is not safe begins to work. Must be quick and must not raise."""
        ...

    async def after_change(self, only: Sequence[str] | None = None, background: bool = False) -> None:
        """Called when such a call has ended. It may have changed the paths in `only` and what is below them; None: any
        file. `background`: commands go on in the background. What changes until the next call is the user's. Must not
        raise."""
        ...

    async def before_user_command(self, command: str, only: Sequence[str] | None) -> None:
        """The user runs a command of their own, maybe beside a call; it may change the paths in `only`; None: any file.
        Must not raise."""
        ...

    async def after_user_command(self) -> None:
        """That command has ended. Must not raise."""
        ...

    async def end(self, hurry: bool = False) -> None:
        """The submission is over, in whichever way; what changes from here on is the user's. `hurry`: within a
        second, because the program is to end."""
        ...

    def take_notice(self) -> str | None:
        """The next sentence for the user, once each: why something cannot be undone."""
        ...

    async def changes(self) -> list[FileChange]: ...

    async def diff(self, scope: DiffScope, working_dirs: Sequence[Path]) -> WorkspaceDiff: ...

    async def undo(self, choices: Choices | None = None) -> UndoReport: ...

    async def redo(self, choices: Choices | None = None) -> UndoReport: ...

    async def plan(self, again: bool, choices: Choices | None = None) -> UndoPlan:
        """What an undo (`again`: a redo) would have to ask about beyond `choices`. Changes nothing."""
        ...

    async def take_undo_news(self) -> list[UndoNews]:
        """The net effect of the undos and redos since this was last asked, by an earlier process too."""
        ...

    async def aclose(self) -> None: ...


class NoWorkspace:
    def __init__(self, reason: str = "No copies of files are kept here, so nothing can be undone.") -> None:
        self._reason = reason

    async def warm(self, working_dirs: Sequence[Path]) -> None:
        return None

    def begin(self, prompt_id: str) -> None:
        return None

    async def before_change(self, call_id: str, input: Json, cwd: Path, working_dirs: Sequence[Path]) -> None:
        return None

    async def after_change(self, only: Sequence[str] | None = None, background: bool = False) -> None:
        return None

    async def before_user_command(self, command: str, only: Sequence[str] | None) -> None:
        return None

    async def after_user_command(self) -> None:
        return None

    async def end(self, hurry: bool = False) -> None:
        return None

    def take_notice(self) -> str | None:
        return None

    async def changes(self) -> list[FileChange]:
        return []

    async def diff(self, scope: DiffScope, working_dirs: Sequence[Path]) -> WorkspaceDiff:
        return WorkspaceDiff(problem="No copies of files are kept here, so there is nothing to compare with.")

    async def undo(self, choices: Choices | None = None) -> UndoReport:
        return UndoReport(False, self._reason)

    async def redo(self, choices: Choices | None = None) -> UndoReport:
        return UndoReport(False, self._reason)

    async def plan(self, again: bool, choices: Choices | None = None) -> UndoPlan:
        return UndoPlan()

    async def take_undo_news(self) -> list[UndoNews]:
        return []

    async def aclose(self) -> None:
        return None


class Attachments(Protocol):
    async def collect(self, state: LoopState) -> Sequence[Message]:
        """What to tell the model before the next request (SPEC 2.6), each thing at most once per change."""
        ...


class NoAttachments:
    async def collect(self, state: LoopState) -> Sequence[Message]:
        return ()


class Requests(Protocol):
    """Makes requests for the conversation as it is set up now: model, system prompt, tools, effort."""

    def build(
        self, messages: tuple[Json, ...], max_tokens: int, purpose: str, budget_spent: int | None = None
    ) -> Request:
        """`budget_spent`: tokens of the task budget that the messages no longer show; None when they show all."""
        ...

    def small(self, system: str, prompt: str) -> Request:
        """A side request to the small model, without tools and thinking."""
        ...


@frozen
class ContextLimits:
    """The room there is. Estimates are compared with `usable`."""

    window: int = 200_000
    reserved: int = 8_192
    overhead: int = 0
    """System prompt and tools, estimated; for when no response has told the truth yet."""
    auto_compact: bool = True
    auto_threshold: float = 0.9
    max_auto_failures: int = 3

    @property
    def usable(self) -> int:
        return max(self.window - self.reserved, 1)


PriceOf = Callable[[str, Usage], float | None]


@frozen
class Staging:
    """What summaries of old spans are made with, and of, as things stand before a request."""

    provider: Provider
    requests: Requests
    price: PriceOf
    late: list[Event]
    """Where what it costs is put, for the loop to take when it passes by."""
    log: Sequence[Message]
    estimate: int
    usable: int
    pinned: frozenset[str] = frozenset()
    """Blocks that the user wants kept, by the ids they have now."""


class Collapser(Protocol):
    """Old spans, summarised in the background and staged until they are needed (SPEC 2.1 step 5)."""

    def staged(self) -> int: ...

    def stage(self, staging: Staging, signal: AbortSignal) -> None:
        """Begin summaries if they may be needed soon; returns at once."""
        ...

    def drain(self, log: Sequence[Message], pinned: frozenset[str]) -> ContextEdited | None:
        """Commit all staged spans to the view; what was done, for the record."""
        ...

    async def aclose(self) -> None:
        """End what runs in the background, with the submission. What is staged stays."""
        ...


class NoCollapser:
    def staged(self) -> int:
        return 0

    def stage(self, staging: Staging, signal: AbortSignal) -> None:
        return None

    def drain(self, log: Sequence[Message], pinned: frozenset[str]) -> ContextEdited | None:
        return None

    async def aclose(self) -> None:
        return None


@frozen
class Extensions:
    """The parts of a loop that policy decides, each with a default that does nothing."""

    hooks: Hooks = field(default_factory=NoHooks)
    collapser: Collapser = field(default_factory=NoCollapser)
    attachments: Attachments = field(default_factory=NoAttachments)
    workspace: Workspace = field(default_factory=NoWorkspace)
