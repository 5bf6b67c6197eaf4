"""The table of all settings: type, default, how layers combine, and who may set them.

`repository` says whether files of a trusted project may set a key: a repository is written by others, so it can never
raise rights or limits, nor decide where requests and keys go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from agentcli.core.frozen import frozen

Kind = Literal["text", "integer", "number", "boolean", "texts", "object", "text map", "list map"]
RepositoryRight = Literal["yes", "no", "stricter", "inside"]
Applies = Literal["now", "session", "restart"]

PERMISSION_MODES = ("plan", "dontAsk", "default", "acceptEdits", "auto", "bypassPermissions")
"""Modes from the strictest to the most permissive."""
SANDBOX_MODES = ("strict", "on", "off")
"""Modes from the strictest to the most permissive."""


@frozen
class Key:
    name: str
    """Name in the file. A dot separates objects: `permissions.allow` is `allow` inside `permissions`."""
    kind: Kind
    doc: str
    default: Any = None
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    merge: bool = False
    """Whether the values of all layers are merged: lists are concatenated, strongest layer first; objects are combined
    key by key, and in a `list map` the lists of a key are concatenated. False: only the strongest layer is used."""
    repository: RepositoryRight = "yes"
    """Whether project files may set it. `stricter`: only to a value that allows no more than the user's own. `inside`:
    only to paths in the repository."""
    aliases: tuple[str, ...] = ()
    applies: Applies = "session"
    """When a changed file takes effect: at once, in the next session (it is part of what a session begins with, such as
    the system prompt, the sandbox or the model's cache), or after a restart of agentcli."""

    @property
    def environment(self) -> tuple[str, ...]:
        """Environment variables that set it; the first that is set wins."""
        return tuple(variable for variable, name in ENVIRONMENT.items() if name == self.name)

    def strictness(self, value: Any) -> float:
        """Rank of a value, smaller is stricter; for keys with `repository="stricter"`."""
        return self.choices.index(value) if self.choices else float(value)


def _text(name: str, doc: str, default: str | None = None, **further: Any) -> Key:
    return Key(name, "text", doc, default, **further)


def _integer(name: str, doc: str, default: int | None = None, **further: Any) -> Key:
    return Key(name, "integer", doc, default, **further)


def _number(name: str, doc: str, default: float | None = None, **further: Any) -> Key:
    return Key(name, "number", doc, default, **further)


def _switch(name: str, doc: str, default: bool, **further: Any) -> Key:
    return Key(name, "boolean", doc, default, **further)


def _list(name: str, doc: str, **further: Any) -> Key:
    """A list to which every layer adds."""
    return Key(name, "texts", doc, (), merge=True, **further)


def _map(name: str, kind: Kind, doc: str, **further: Any) -> Key:
    """An object to which every layer adds."""
    return Key(name, kind, doc, {}, merge=True, **further)


KEYS: tuple[Key, ...] = (
    _text("model", "The model that answers."),
    _text("smallModel", "The model for background tasks such as summaries."),
    Key(
        "fallbackModels",
        "texts",
        "Models to fall back to, in this order, when the first is overloaded.",
        default=(),
        aliases=("fallbackModel",),
    ),
    _text(
        "effort",
        "How much effort the model spends on an answer.",
        choices=("low", "medium", "high", "xhigh", "max", "auto"),
    ),
    Key("fastMode", "boolean", "Higher speed at a higher price, for models that have it.", repository="no"),
    _text("advisorModel", "A second model that the first one may consult during a reply, on the API's side."),
    _text("thinking", "Whether the model thinks before it answers.", choices=("adaptive", "enabled", "disabled")),
    _integer("maxThinkingTokens", "Token budget for thinking when it is `enabled`.", minimum=0),
    _integer("maxOutputTokens", "Initial output token limit; raised when an answer needs more.", minimum=1),
    _text(
        "provider",
        "How requests are sent: `auto` (to the API, or from a script if one is given), `wire` (to the API), "
        "`sdk` (to the API with the anthropic package), `scripted`, or the name of a plugin's provider.",
        "auto",
        repository="no",
    ),
    _text(
        "platform",
        "The API provider.",
        "anthropic",
        choices=("anthropic", "bedrock", "vertex", "foundry"),
        repository="no",
    ),
    _text("baseUrl", "Base URL of a server with the Messages API.", repository="no"),
    _text("apiKeyHelper", "A command that prints the API key.", repository="no"),
    _integer("maxRetries", "How often a failed request is retried.", 10, minimum=0, maximum=100),
    _number("streamIdleTimeout", "Seconds without data after which a reply counts as stalled.", 90.0, minimum=1),
    _number("requestDeadline", "Seconds after which a request without content is aborted.", 600.0, minimum=1),
    _text(
        "executor",
        "When tools start: while the reply still streams, or after it.",
        "streaming",
        choices=("streaming", "batch"),
        applies="now",
    ),
    _integer(
        "maxToolConcurrency", "How many read-only tools may run at once.", 10, minimum=1, maximum=100, applies="now"
    ),
    _integer("maxAgents", "How many sub-agents may run at once.", 10, minimum=1, maximum=50),
    _text(
        "mcp.toolSearch",
        "How the model finds MCP tools that do not fit into each request: with ToolSearch (`own`). `off` defers none.",
        "own",
        choices=("own", "off"),
        repository="no",
    ),
    _integer(
        "mcp.directTokens",
        "Token limit for sending all MCP tools with each request. Above it, tools are deferred.",
        10_000,
        minimum=0,
        repository="no",
    ),
    _integer(
        "mcp.maxOutputTokens",
        "Token limit for one MCP tool result. A larger result is saved to a file.",
        25_000,
        minimum=100,
        repository="stricter",
    ),
    _switch("undo", "Copy files before the agent changes them, so that /undo can restore them.", True, repository="no"),
    _switch("instructionFiles", "Read AGENTS.md and CLAUDE.md, yours and the project's.", True, repository="no"),
    _switch(
        "memory",
        "Let the agent keep notes about each project across sessions; /memory shows them.",
        True,
        repository="stricter",
    ),
    _switch("changedFiles", "Notify the model when files it has read are changed by others.", True, repository="no"),
    _switch(
        "watchFiles",
        "Between prompts, watch files that the model has read and notify you of changes.",
        True,
        repository="no",
    ),
    _switch(
        "plugins",
        "Load Python plugins: yours, those of a trusted project, and those of installed packages.",
        True,
        repository="no",
    ),
    _switch("toolSummaries", "Let the small model summarise finished tool calls in a line.", False, applies="now"),
    _switch(
        "sessionTitles",
        "In the app and in plain mode, let the small model name a new session after its first answer.",
        True,
        repository="stricter",
        applies="now",
    ),
    _integer(
        "sessionRetentionDays",
        "Delete sessions without a name that were not changed for so many days, at most once a day; 0 keeps all.",
        0,
        minimum=0,
        repository="no",
        applies="now",
    ),
    _text(
        "otlpEndpoint",
        "Send a trace of each prompt, without texts, to the OpenTelemetry collector at this address (OTLP/HTTP). "
        "Empty: nothing is sent.",
        "",
        repository="no",
    ),
    _switch("autoCompact", "Summarise the conversation before it outgrows the context window.", True, applies="now"),
    _switch(
        "reactiveCompact", "Summarise the conversation once when the API rejects it as too long.", True, applies="now"
    ),
    _number(
        "autoCompactThreshold",
        "Share of the usable context window at which auto-compaction starts.",
        0.9,
        minimum=0.1,
        maximum=1,
        applies="now",
    ),
    _switch(
        "compactPreview",
        "With /compact, review and edit the summary before it replaces the conversation.",
        True,
        applies="now",
    ),
    _switch(
        "wakeOnBackground",
        "In the app, let the model continue when a background command or agent ends and nothing else runs.",
        True,
        applies="now",
    ),
    _integer(
        "contextWindow", "The model's context window in tokens, if it is unknown or should be smaller.", minimum=1000
    ),
    _map("models", "object", "Model data missing in the catalogue: context windows, limits, prices.", repository="no"),
    _list("permissions.allow", "Rules for calls that run without approval.", applies="now"),
    _list("permissions.ask", "Rules for calls that always need approval.", applies="now"),
    _list("permissions.deny", "Rules for calls that are always denied.", applies="now"),
    _text(
        "permissions.defaultMode",
        "The permission mode to start in.",
        "default",
        choices=PERMISSION_MODES,
        repository="stricter",
    ),
    _list(
        "permissions.additionalDirectories",
        "Working directories besides the one agentcli was started in.",
        repository="inside",
    ),
    _text(
        "sandbox.mode",
        "Sandbox for commands. `on`: if available; `strict`: required, without network; `off`: none.",
        "on",
        choices=SANDBOX_MODES,
        repository="stricter",
    ),
    _switch("sandbox.network", "Whether commands have network access.", True, repository="stricter"),
    _list("sandbox.allowWrite", "More folders that commands may write to.", repository="no"),
    _list("sandbox.allowRead", "Paths that commands may read although they contain secrets.", repository="no"),
    _list("sandbox.denyRead", "More paths that commands may not read."),
    _list(
        "sandbox.excludedCommands",
        "Prefixes of commands that run outside the sandbox, such as `docker`; permission rules still apply.",
        repository="no",
    ),
    _list(
        "sandbox.env",
        "More environment variables for commands, also without a sandbox. A full name such as `GH_TOKEN` "
        "passes any value, a pattern such as `MYAPP_*` only values that do not look like secrets.",
        repository="no",
        applies="now",
    ),
    _integer(
        "sandbox.maxMemoryMb",
        "Mebibytes of memory that the processes of one command may use together; 0 sets no limit. Default: "
        "three quarters of this machine's memory.",
        minimum=0,
        repository="no",
    ),
    _integer(
        "sandbox.maxProcesses",
        "How many processes of one command may run at once; 0 sets no limit.",
        4096,
        minimum=0,
        repository="no",
    ),
    _integer(
        "sandbox.maxCpuSeconds",
        "Seconds of processor time that one process of a command may use; 0 sets no limit.",
        43_200,
        minimum=0,
        repository="no",
    ),
    _map(
        "hooks",
        "list map",
        'Commands to run at fixed points of a session: `{"PreToolUse": [{"matcher": "Bash", "hooks": '
        '[{"type": "command", "command": "…"}]}]}`.',
        applies="now",
    ),
    _switch(
        "claudeHooks",
        "Also use the hooks of `~/.claude/settings.json` and of the project's `.claude/settings.json` and "
        "`.claude/settings.local.json`.",
        True,
        repository="no",
        applies="now",
    ),
    _map(
        "mcpServers",
        "object",
        'MCP servers: `{"NAME": {"command": "…", "args": ["…"]}}` or `{"NAME": {"type": "http", "url": "…"}}`.',
        applies="now",
    ),
    _text("systemPrompt", "Replaces the default system prompt."),
    _text("appendSystemPrompt", "Text added to the system prompt."),
    _text("outputStyle", "How the model answers: an output style's name; empty for the default.", ""),
    _integer(
        "maxTurns", "Maximum number of model replies per prompt.", minimum=1, repository="stricter", applies="now"
    ),
    _number("maxBudgetUsd", "Maximum cost of a run in dollars.", minimum=0, repository="stricter"),
    _number(
        "confirmCostAbove",
        "Ask before changing model, effort, thinking or fast mode if re-reading the context costs this many dollars.",
        0.1,
        minimum=0,
        repository="no",
        applies="now",
    ),
    _number(
        "mcp.samplingBudgetUsd",
        "Dollars per session that each MCP server may spend on model replies; 0 allows none. Each reply "
        "needs your approval, unless you allow all of a server's.",
        0.5,
        minimum=0,
        repository="no",
    ),
    _map(
        "env",
        "text map",
        "Environment variables for agentcli's requests and for the commands it runs.",
        repository="no",
        applies="now",
    ),
    _switch("context.budget", "Move large tool results to files and show only their start.", True),
    _switch("context.snip", "Leave out results that a later read or write supersedes.", True),
    _switch("context.microcompact", "Clear old tool results when space is needed.", True),
    _switch("context.collapse", "Summarise old exchanges and finished turns when space is needed.", True),
    _text(
        "theme",
        "The colours of the terminal app; `auto` follows the terminal's background.",
        "auto",
        repository="no",
        applies="now",
    ),
    _switch("reducedMotion", "Turn off animations in the terminal app.", False, repository="no", applies="now"),
    _switch(
        "plain",
        "Use plain mode instead of the full-screen app, like `--plain`.",
        False,
        repository="no",
        applies="restart",
    ),
    _text(
        "exitTranscript",
        "What the terminal app prints on exit: the last prompt and answer, everything or nothing.",
        "last",
        choices=("last", "all", "none"),
        repository="no",
        applies="now",
    ),
    _text(
        "repaint",
        "What the terminal app writes for a frame: changed cells, or whole rows if your terminal shows stale cells.",
        "changes",
        choices=("changes", "whole"),
        repository="no",
        applies="restart",
    ),
    _switch("mouse", "Whether the terminal app uses the mouse.", True, repository="no", applies="restart"),
    _text(
        "notifications",
        "How the terminal app notifies you when its window is not focused.",
        "auto",
        choices=("auto", "bell", "off"),
        repository="no",
        applies="now",
    ),
    Key(
        "statusLine",
        "object",
        'Custom status line: `{"type": "command", "command": "…"}` reads JSON and prints a line.',
        default={},
        repository="no",
        applies="now",
    ),
    Key(
        "keymap",
        "text map",
        "Keys of the terminal app, by action name.",
        default={},
        repository="no",
        applies="restart",
    ),
)

ENVIRONMENT: Mapping[str, str] = {
    "AGENTCLI_MODEL": "model",
    "ANTHROPIC_MODEL": "model",
    "AGENTCLI_SMALL_MODEL": "smallModel",
    "ANTHROPIC_SMALL_FAST_MODEL": "smallModel",
    "AGENTCLI_FALLBACK_MODEL": "fallbackModels",
    "AGENTCLI_EFFORT": "effort",
    "AGENTCLI_FAST_MODE": "fastMode",
    "AGENTCLI_ADVISOR_MODEL": "advisorModel",
    "AGENTCLI_THINKING": "thinking",
    "AGENTCLI_MAX_THINKING_TOKENS": "maxThinkingTokens",
    "MAX_THINKING_TOKENS": "maxThinkingTokens",
    "AGENTCLI_MAX_OUTPUT_TOKENS": "maxOutputTokens",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "maxOutputTokens",
    "AGENTCLI_PROVIDER": "provider",
    "AGENTCLI_PLATFORM": "platform",
    "ANTHROPIC_BASE_URL": "baseUrl",
    "AGENTCLI_MAX_RETRIES": "maxRetries",
    "CLAUDE_CODE_MAX_RETRIES": "maxRetries",
    "AGENTCLI_STREAM_IDLE_TIMEOUT": "streamIdleTimeout",
    "AGENTCLI_REQUEST_DEADLINE": "requestDeadline",
    "AGENTCLI_EXECUTOR": "executor",
    "AGENTCLI_MAX_TOOL_CONCURRENCY": "maxToolConcurrency",
    "CLAUDE_CODE_MAX_TOOL_USE_CONCURRENCY": "maxToolConcurrency",
    "AGENTCLI_MAX_MCP_OUTPUT_TOKENS": "mcp.maxOutputTokens",
    "MAX_MCP_OUTPUT_TOKENS": "mcp.maxOutputTokens",
    "AGENTCLI_UNDO": "undo",
    "AGENTCLI_INSTRUCTION_FILES": "instructionFiles",
    "AGENTCLI_MEMORY": "memory",
    "AGENTCLI_WATCH_FILES": "watchFiles",
    "AGENTCLI_PLUGINS": "plugins",
    "AGENTCLI_SESSION_TITLES": "sessionTitles",
    "AGENTCLI_AUTO_COMPACT": "autoCompact",
    "AGENTCLI_CONTEXT_WINDOW": "contextWindow",
    "AGENTCLI_SANDBOX": "sandbox.mode",
    "AGENTCLI_MAX_BUDGET_USD": "maxBudgetUsd",
    "AGENTCLI_CONFIRM_COST_ABOVE": "confirmCostAbove",
    "AGENTCLI_THEME": "theme",
    "AGENTCLI_REDUCED_MOTION": "reducedMotion",
    "AGENTCLI_PLAIN": "plain",
    "AGENTCLI_REPAINT": "repaint",
}
"""Environment variables, and the settings that they set."""

BY_NAME: Mapping[str, Key] = {name: key for key in KEYS for name in (key.name, *key.aliases)}

SECTIONS: frozenset[str] = frozenset(key.name.partition(".")[0] for key in KEYS if "." in key.name)

HOLD_WITHOUT_TRUST: tuple[str, ...] = ("permissions.deny", "permissions.ask")
"""Keys that apply even from untrusted folders, because they only restrict rights."""
