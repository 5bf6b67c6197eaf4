"""The contract of a tool, and what it gets to work with.

A tool says what it needs (`needs`) and never asks; it yields progress and then exactly one `Output`; it never
raises for anything in the world outside (missing file, failing command): that is an `Output` with `is_error`.
An exception is a bug and is turned into an error result by the caller.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from agentcli.core.abort import AbortSignal
from agentcli.core.grant import ORDINARY, Grant
from agentcli.core.launch import BareLauncher, Launcher
from agentcli.core.messages import Block, ImageBlock, Json, TextBlock, UnknownBlock
from agentcli.core.permission import Need, PermissionMode
from agentcli.tools.files.read_cache import ReadCache
from agentcli.tools.shell.environment import NO_FURTHER, PassedVariables

if TYPE_CHECKING:
    from agentcli.tools.shell.background import Shells

Content = str | tuple[TextBlock | ImageBlock | UnknownBlock, ...]


@dataclass(frozen=True, slots=True)
class SmallReply:
    text: str
    error: str = ""
    """Why there is no text."""
    blocks: tuple[Block, ...] = ()
    """The reply whole: what server tools found, citations."""


class SmallModel(Protocol):
    """A side question to the small model; what it costs is counted. Bound to one call by whoever runs the tool."""

    async def ask(
        self, system: str, prompt: str, signal: AbortSignal, server_tools: tuple[Json, ...] = ()
    ) -> SmallReply: ...


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Where a call runs. Immutable: a tool that changes it says so in its output, and the executor applies it."""

    cwd: Path
    """Where shell commands run. It follows their `cd`; file tools take no notice of it, see `root`."""
    working_dirs: tuple[Path, ...]
    """The folders the agent may work in, resolved; the first is where the session started."""
    results_dir: Path | None = None
    """A private folder for output too large for the conversation; None when nothing may be written."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """For child processes; keys and tokens are already taken out (S11)."""
    passed: PassedVariables = NO_FURTHER
    """Variables that the settings let through to child processes."""
    proxies: Mapping[str, str] = field(default_factory=dict)
    """Proxy variables with their credentials, for requests that tools make themselves."""
    read_cache: ReadCache = field(default_factory=ReadCache)
    """What the model has seen of which file. Shared by all calls of a conversation."""
    hides: Callable[[str], bool] | None = None
    """Whether a file (absolute path) must not show up in what a search finds; None: nothing is hidden.
    A search is allowed for a folder as a whole, so rules against single files in it have to bind here (S7)."""
    launcher: Launcher = BareLauncher()
    shells: Shells | None = None
    """The background commands of the session; None where there can be none."""
    call_id: str = ""
    """The id of the call that runs."""
    small_model: SmallModel | None = None
    """None where no model is at hand, e.g. in tests of a tool alone."""
    mode: PermissionMode = PermissionMode.DEFAULT
    """In force when the call begins."""
    reaches: Callable[[str], bool] | None = None
    """Whether a rule lets a host be fetched from although its name leads to a private address; None: no host."""
    by_person: bool = False
    """The person typed this call themselves: their environment is passed on whole."""
    credentials: Mapping[str, str] = field(default_factory=dict)
    """Variables with credentials, of which a grant may name some for one command."""
    grant: Grant = ORDINARY
    """What a command of this call may do beyond the ordinary limits of its sandbox."""
    needs: tuple[Need, ...] = ()
    """What was decided about for this call; empty when nobody decided, e.g. in tests of a tool alone."""
    also_writable: tuple[Path, ...] = ()
    """Folders beside the working directories that commands in the sandbox may write (`sandbox.allowWrite`)."""

    @property
    def root(self) -> Path:
        """The project's root, where the session started: relative paths of file tools start here."""
        return self.working_dirs[0] if self.working_dirs else self.cwd

    def folder_of(self, needs: Sequence[Need]) -> Path:
        """The folder that relative paths in a call's needs start from: the shell's own for commands, else the root."""
        return self.cwd if any(need.kind == "execute" for need in needs) else self.root


@dataclass(frozen=True, slots=True)
class Progress:
    """Something to show while the tool runs; not kept."""

    text: str = ""
    data: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Output:
    """What came of a call."""

    content: Content
    """For the model."""
    is_error: bool = False
    is_exit_code: bool = False
    """The error is the exit code of a command that ran to its end: the call itself did not fail."""
    summary: str = ""
    """One line for people, e.g. `214 lines`, `exit 1`."""
    display: Json = field(default_factory=dict)
    """For people: `{"kind": "diff" | "code" | "text" | "image" | "matches", ...}`; front ends ignore what they do not
    know."""
    structured: Any = None
    """For programs: `tool_use_result` in stream-json."""
    data: Json = field(default_factory=dict)
    """Kept with the result in the log, for later steps: see `core.messages.RESULT_DATA`."""
    new_cwd: Path | None = None
    """Where the next shell command runs, when this call changed it."""
    mode: Literal["plan", "previous"] | None = None
    """Enter plan mode, or go back to the mode before it."""
    todos: list[Json] | None = None
    """The task list, whole, when the call changed it."""
    wanted_hosts: tuple[str, ...] | None = None
    """Not None: a command failed for want of network, to these hosts as far as they are known. It may be offered to the
    user again with network."""
    cancel_siblings: bool = False
    """This failure makes the calls that run beside it pointless (T6)."""
    notices: tuple[str, ...] = ()
    """Warnings for the user, each shown as a notice of its own."""
    final: Any = None
    """Not None: the submission is complete with this value (the structured-output tool)."""


class Tool(Protocol):
    """Input is a plain dictionary that has passed `input_schema`.

    A tool may also have `preview(input, context) -> Json | Output | None`: what a call would do, in the form of
    `Output.display`, shown with a permission question. It runs in a thread and changes nothing. An `Output` from it is
    the failure that running would end with; the model gets it and nobody is asked.
    """

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def input_schema(self) -> Json: ...

    def title(self, input: Json) -> str:
        """One line for people: what this call does. Also called with input that failed its schema."""
        ...

    def is_safe(self, input: Json) -> bool:
        """Whether this very call only reads, so that it may run beside others and be thrown away and run again."""
        ...

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        """What permission has to cover. Cheap, no side effects, never asks."""
        ...

    def check(self, input: Json, context: ToolContext) -> str | None:
        """What the schema cannot say: None if fine, else a sentence for the model. Before permission is asked."""
        ...

    def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> AsyncGenerator[Progress | Output, None]:
        """Progress, then one Output. On an abort: stop soon, leave no process behind, still yield an Output."""
        ...
