"""The interface of a tool, and the context it runs in.

A tool declares what it needs (`needs`) and never asks the user. It yields progress and then exactly one `Output`. A
failure in the outside world (missing file, failing command) is an `Output` with `is_error`, never an exception. An
exception is a bug, which the caller turns into an error result.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from agentcli.core.abort import AbortSignal
from agentcli.core.frozen import frozen
from agentcli.core.messages import Block, ImageBlock, Json, TextBlock, UnknownBlock
from agentcli.core.permission import ORDINARY, Grant, Need, PermissionMode
from agentcli.core.processes.launch import Launcher
from agentcli.tools.files.read_cache import ReadCache
from agentcli.tools.shell.environment import NO_FURTHER, PassedVariables

if TYPE_CHECKING:
    from agentcli.tools.shell.background import Shells

Content = str | tuple[TextBlock | ImageBlock | UnknownBlock, ...]


@frozen
class SmallReply:
    text: str
    error: str = ""
    """Why there is no text; empty if there is."""
    blocks: tuple[Block, ...] = ()
    """All blocks of the reply, including server tool results and citations."""


class SmallModel(Protocol):
    """A side request to the small model; its cost is counted. Bound to one call by the executor."""

    async def ask(
        self, system: str, prompt: str, signal: AbortSignal, server_tools: tuple[Json, ...] = ()
    ) -> SmallReply: ...


@frozen
class AgentTask:
    """The task of a sub-agent and its options."""

    call_id: str
    agent: str
    """Name of the agent definition."""
    description: str
    prompt: str
    model: str = ""
    """Model name; empty: the definition's, else the session's."""
    background: bool = False
    worktree: bool = False
    """Whether the agent works in its own git worktree."""
    is_planned: bool = False
    """Whether plan mode is on."""


class AgentStarter(Protocol):
    """Starts sub-agents for one call; their events are reported with the call's own."""

    def problem(self, task: AgentTask) -> str | None:
        """Reason why the task cannot be started; None if it can."""
        ...

    async def start(self, task: AgentTask, signal: AbortSignal) -> Output:
        """Run a task to its end, or only start it if it runs in the background."""
        ...

    def has_background(self, agent_id: str) -> bool:
        """Whether there is a background agent with this id."""
        ...

    async def stop(self, agent_id: str) -> str:
        """Stop a background agent; returns its report."""
        ...


@frozen
class ToolContext:
    """Where a call runs. Immutable: a tool reports changes in its output, and the executor applies them."""

    cwd: Path
    """Working directory of shell commands. It follows their `cd`; file tools use `root` instead."""
    working_dirs: tuple[Path, ...]
    """The folders the agent may work in, resolved; the first is where the session started."""
    results_dir: Path | None = None
    """Private folder for output too large for the conversation; None if nothing may be written."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Environment of child processes, without keys and tokens."""
    passed: PassedVariables = NO_FURTHER
    """Additional variables that the settings pass to child processes."""
    proxies: Mapping[str, str] = field(default_factory=dict)
    """Proxy variables with their credentials, for requests that tools make themselves."""
    read_cache: ReadCache = field(default_factory=ReadCache)
    """Which file contents the model has seen. Shared by all calls of a conversation."""
    hides: Callable[[str], bool] | None = None
    """Whether a file (absolute path) must not appear in search results; None: nothing is hidden.

    A search is allowed for a folder as a whole, so rules against single files in it apply here.
    """
    launcher: Launcher = Launcher()
    shells: Shells | None = None
    """The background commands of the session; None if they are not available."""
    call_id: str = ""
    small_model: SmallModel | None = None
    """None if no model is available, e.g. in tests of a single tool."""
    agents: AgentStarter | None = None
    """None if sub-agents cannot be started."""
    mode: PermissionMode = PermissionMode.DEFAULT
    """The permission mode when the call begins."""
    before_plan: PermissionMode = PermissionMode.DEFAULT
    """The mode that an approved plan returns to."""
    reaches: Callable[[str], bool] | None = None
    """Whether a rule allows fetching from a host although its name resolves to a private address; None: no host."""
    by_user: bool = False
    """Whether the user typed this command; it then gets their whole environment."""
    credentials: Mapping[str, str] = field(default_factory=dict)
    """Variables with credentials. A grant may pass some of them to one command."""
    grant: Grant = ORDINARY
    """Permissions of this call's command beyond the usual sandbox limits."""
    needs: tuple[Need, ...] = ()
    """The needs approved for this call; empty if there was no decision, e.g. in tests of a single tool."""
    also_writable: tuple[Path, ...] = ()
    """More folders that sandboxed commands may write (`sandbox.allowWrite`)."""

    @property
    def root(self) -> Path:
        """The folder where the session started; relative paths of file tools start here."""
        return self.working_dirs[0] if self.working_dirs else self.cwd

    def folder_of(self, needs: Sequence[Need]) -> Path:
        """The base of relative paths in a call: the shell's directory for commands, else the root."""
        return self.cwd if any(need.kind == "execute" for need in needs) else self.root


@frozen
class Progress:
    """Shown while the tool runs; not stored. See `ToolProgressed`."""

    text: str = ""
    data: Json = field(default_factory=dict)


@frozen
class Output:
    """The result of a call."""

    content: Content
    """For the model."""
    is_error: bool = False
    is_exit_code: bool = False
    """Whether the error is only the exit code of a command that ran to its end; the call itself did not fail."""
    summary: str = ""
    """One line for the user, e.g. `214 lines`, `exit 1`."""
    display: Json = field(default_factory=dict)
    """For the user: `{"kind": "diff" | "code" | "text" | "image" | "matches", ...}`; unknown kinds are ignored."""
    structured: Any = None
    """Value for programs: `tool_use_result` in stream-json."""
    data: Json = field(default_factory=dict)
    """Stored with the result in the log, for later steps: see `core.messages.RESULT_DATA`."""
    new_cwd: Path | None = None
    """New working directory of shell commands, if this call changed it."""
    mode: Literal["plan", "previous"] | None = None
    """Enter plan mode, or return to the mode before it."""
    todos: list[Json] | None = None
    """The complete task list, if the call changed it."""
    wanted_hosts: tuple[str, ...] | None = None
    """If not None, a command failed for lack of network access, to these hosts as far as known; it may be run again."""
    allows: tuple[str, ...] = ()
    """Allow rules that apply until the submission ends, from a skill that the user trusts."""
    allows_from: str = ""
    """The file that these rules come from."""
    cancel_siblings: bool = False
    """Whether this failure makes the parallel calls pointless."""
    notices: tuple[str, ...] = ()
    """Warnings for the user, each shown as a separate notice."""
    final: Any = None
    """If not None, the submission ends with this value (structured output)."""


ToolRun = AsyncGenerator[Progress | Output, None]
"""Progress, then exactly one `Output`."""


class Tool(Protocol):
    """A tool. Its input is a plain dictionary that has passed `input_schema`.

    A tool may also have `runs_beside(input) -> bool`: whether a call that is not safe may still run in parallel with
    others; and `preview(input, context) -> Json | Output | None`: what a call would do, in the form of
    `Output.display`, shown with a permission question. It runs in a thread and changes nothing. If it returns an
    `Output`, that is the failure of the call: the model gets it and the user is not asked.
    """

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def input_schema(self) -> Json: ...

    def title(self, input: Json) -> str:
        """One line for the user that describes this call. Also called with input that failed its schema."""
        ...

    def is_safe(self, input: Json) -> bool:
        """Whether this call is read-only, so that it may run in parallel, be discarded and be repeated."""
        ...

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        """The needs that permissions must cover. Cheap, no side effects, never asks."""
        ...

    def check(self, input: Json, context: ToolContext) -> str | None:
        """Checks beyond the schema, before permission is asked: None if valid, else a message for the model."""
        ...

    def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        """Yield progress, then one Output. On an abort: stop soon, leave no process behind, still yield an Output."""
        ...
