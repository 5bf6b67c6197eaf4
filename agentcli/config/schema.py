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
    environment: tuple[str, ...] = ()
    """Environment variables that set it; the first that is set wins."""
    aliases: tuple[str, ...] = ()
    applies: Applies = "session"
    """When a changed file takes effect: at once, in the next session (it is part of what a session begins with, such as
    the system prompt, the sandbox or the model's cache), or after a restart of agentcli."""

    def strictness(self, value: Any) -> float:
        """Rank of a value, smaller is stricter; for keys with `repository="stricter"`."""
        return self.choices.index(value) if self.choices else float(value)


KEYS: tuple[Key, ...] = (
    Key("model", "text", "The model that answers.", environment=("AGENTCLI_MODEL", "ANTHROPIC_MODEL")),
    Key(
        "smallModel",
        "text",
        "The model for background tasks such as summaries.",
        environment=("AGENTCLI_SMALL_MODEL", "ANTHROPIC_SMALL_FAST_MODEL"),
    ),
    Key(
        "fallbackModels",
        "texts",
        "Models to fall back to, in this order, when the first is overloaded.",
        default=(),
        environment=("AGENTCLI_FALLBACK_MODEL",),
        aliases=("fallbackModel",),
    ),
    Key(
        "effort",
        "text",
        "How much effort the model spends on an answer.",
        choices=("low", "medium", "high", "xhigh", "max", "auto"),
        environment=("AGENTCLI_EFFORT",),
    ),
    Key(
        "fastMode",
        "boolean",
        "Higher speed at a higher price, for models that have it.",
        repository="no",
        environment=("AGENTCLI_FAST_MODE",),
    ),
    Key(
        "advisorModel",
        "text",
        "A second model that the first one may consult during a reply, on the API's side.",
        environment=("AGENTCLI_ADVISOR_MODEL",),
    ),
    Key(
        "thinking",
        "text",
        "Whether the model thinks before it answers.",
        choices=("adaptive", "enabled", "disabled"),
        environment=("AGENTCLI_THINKING",),
    ),
    Key(
        "maxThinkingTokens",
        "integer",
        "Token budget for thinking when it is `enabled`.",
        minimum=0,
        environment=("AGENTCLI_MAX_THINKING_TOKENS", "MAX_THINKING_TOKENS"),
    ),
    Key(
        "maxOutputTokens",
        "integer",
        "Initial output token limit; raised when an answer needs more.",
        minimum=1,
        environment=("AGENTCLI_MAX_OUTPUT_TOKENS", "CLAUDE_CODE_MAX_OUTPUT_TOKENS"),
    ),
    Key(
        "provider",
        "text",
        "How requests are sent: `auto` (chosen by front end), `sdk`, `wire`, `scripted`, or the name of a plugin's "
        "provider.",
        default="auto",
        repository="no",
        environment=("AGENTCLI_PROVIDER",),
    ),
    Key(
        "platform",
        "text",
        "The API provider.",
        default="anthropic",
        choices=("anthropic", "bedrock", "vertex", "foundry"),
        repository="no",
        environment=("AGENTCLI_PLATFORM",),
    ),
    Key(
        "baseUrl",
        "text",
        "Base URL of a server with the Messages API.",
        repository="no",
        environment=("ANTHROPIC_BASE_URL",),
    ),
    Key("apiKeyHelper", "text", "A command that prints the API key.", repository="no"),
    Key(
        "maxRetries",
        "integer",
        "How often a failed request is retried.",
        default=10,
        minimum=0,
        maximum=100,
        environment=("AGENTCLI_MAX_RETRIES", "CLAUDE_CODE_MAX_RETRIES"),
    ),
    Key(
        "streamIdleTimeout",
        "number",
        "Seconds without data after which a reply counts as stalled.",
        default=90.0,
        minimum=1,
        environment=("AGENTCLI_STREAM_IDLE_TIMEOUT",),
    ),
    Key(
        "requestDeadline",
        "number",
        "Seconds after which a request without content is aborted.",
        default=600.0,
        minimum=1,
        environment=("AGENTCLI_REQUEST_DEADLINE",),
    ),
    Key(
        "executor",
        "text",
        "When tools start: while the reply still streams, or after it.",
        default="streaming",
        choices=("streaming", "batch"),
        environment=("AGENTCLI_EXECUTOR",),
        applies="now",
    ),
    Key(
        "maxToolConcurrency",
        "integer",
        "How many read-only tools may run at once.",
        default=10,
        minimum=1,
        maximum=100,
        environment=("AGENTCLI_MAX_TOOL_CONCURRENCY", "CLAUDE_CODE_MAX_TOOL_USE_CONCURRENCY"),
        applies="now",
    ),
    Key("maxAgents", "integer", "How many sub-agents may run at once.", default=10, minimum=1, maximum=50),
    Key(
        "mcp.toolSearch",
        "text",
        "How the model finds deferred MCP tools: ToolSearch (`own`) or the API's search (`api`). `off` defers none.",
        default="own",
        choices=("own", "api", "off"),
        repository="no",
    ),
    Key(
        "mcp.directTokens",
        "integer",
        "Token limit for sending all MCP tools with each request. Above it, tools are deferred.",
        default=10_000,
        minimum=0,
        repository="no",
    ),
    Key(
        "mcp.maxOutputTokens",
        "integer",
        "Token limit for one MCP tool result. A larger result is saved to a file.",
        default=25_000,
        minimum=100,
        repository="stricter",
        environment=("AGENTCLI_MAX_MCP_OUTPUT_TOKENS", "MAX_MCP_OUTPUT_TOKENS"),
    ),
    Key(
        "undo",
        "boolean",
        "Copy files before the agent changes them, so that /undo can restore them.",
        default=True,
        repository="no",
        environment=("AGENTCLI_UNDO",),
    ),
    Key(
        "instructionFiles",
        "boolean",
        "Read AGENTS.md and CLAUDE.md, yours and the project's.",
        default=True,
        repository="no",
        environment=("AGENTCLI_INSTRUCTION_FILES",),
    ),
    Key(
        "memory",
        "boolean",
        "Let the agent keep notes about each project across sessions; /memory shows them.",
        default=True,
        repository="stricter",
        environment=("AGENTCLI_MEMORY",),
    ),
    Key(
        "changedFiles",
        "boolean",
        "Notify the model when files it has read are changed by others.",
        default=True,
        repository="no",
    ),
    Key(
        "watchFiles",
        "boolean",
        "Between prompts, watch files that the model has read and notify you of changes.",
        default=True,
        repository="no",
        environment=("AGENTCLI_WATCH_FILES",),
    ),
    Key(
        "plugins",
        "boolean",
        "Load Python plugins: yours, those of a trusted project, and those of installed packages.",
        default=True,
        repository="no",
        environment=("AGENTCLI_PLUGINS",),
    ),
    Key(
        "toolSummaries",
        "boolean",
        "Let the small model summarise finished tool calls in a line.",
        default=False,
        applies="now",
    ),
    Key(
        "autoCompact",
        "boolean",
        "Summarise the conversation before it outgrows the context window.",
        default=True,
        environment=("AGENTCLI_AUTO_COMPACT",),
        applies="now",
    ),
    Key(
        "reactiveCompact",
        "boolean",
        "Summarise the conversation once when the API rejects it as too long.",
        default=True,
        applies="now",
    ),
    Key(
        "autoCompactThreshold",
        "number",
        "Share of the usable context window at which auto-compaction starts.",
        default=0.9,
        minimum=0.1,
        maximum=1,
        applies="now",
    ),
    Key(
        "compactPreview",
        "boolean",
        "With /compact, review and edit the summary before it replaces the conversation.",
        default=True,
        applies="now",
    ),
    Key(
        "wakeOnBackground",
        "boolean",
        "In the app, let the model continue when a background command or agent ends and nothing else runs.",
        default=True,
        applies="now",
    ),
    Key(
        "contextWindow",
        "integer",
        "The model's context window in tokens, if it is unknown or should be smaller.",
        minimum=1000,
        environment=("AGENTCLI_CONTEXT_WINDOW",),
    ),
    Key(
        "models",
        "object",
        "Model data missing in the catalogue: context windows, limits, prices.",
        default={},
        merge=True,
        repository="no",
    ),
    Key(
        "permissions.allow",
        "texts",
        "Rules for calls that run without approval.",
        default=(),
        merge=True,
        applies="now",
    ),
    Key(
        "permissions.ask", "texts", "Rules for calls that always need approval.", default=(), merge=True, applies="now"
    ),
    Key("permissions.deny", "texts", "Rules for calls that are always denied.", default=(), merge=True, applies="now"),
    Key(
        "permissions.defaultMode",
        "text",
        "The permission mode to start in.",
        default="default",
        choices=PERMISSION_MODES,
        repository="stricter",
    ),
    Key(
        "permissions.additionalDirectories",
        "texts",
        "Working directories besides the one agentcli was started in.",
        default=(),
        merge=True,
        repository="inside",
    ),
    Key(
        "sandbox.mode",
        "text",
        "Sandbox for commands. `on`: if available; `strict`: required, without network; `off`: none.",
        default="on",
        choices=SANDBOX_MODES,
        repository="stricter",
        environment=("AGENTCLI_SANDBOX",),
    ),
    Key("sandbox.network", "boolean", "Whether commands have network access.", default=True, repository="stricter"),
    Key(
        "sandbox.allowWrite",
        "texts",
        "More folders that commands may write to.",
        default=(),
        merge=True,
        repository="no",
    ),
    Key(
        "sandbox.allowRead",
        "texts",
        "Paths that commands may read although they contain secrets.",
        default=(),
        merge=True,
        repository="no",
    ),
    Key("sandbox.denyRead", "texts", "More paths that commands may not read.", default=(), merge=True),
    Key(
        "sandbox.excludedCommands",
        "texts",
        "Prefixes of commands that run outside the sandbox, such as `docker`; permission rules still apply.",
        default=(),
        merge=True,
        repository="no",
    ),
    Key(
        "sandbox.env",
        "texts",
        "More environment variables for commands, also without a sandbox. A full name such as `GH_TOKEN` "
        "passes any value, a pattern such as `MYAPP_*` only values that do not look like secrets.",
        default=(),
        merge=True,
        repository="no",
        applies="now",
    ),
    Key(
        "sandbox.maxMemoryMb",
        "integer",
        "Mebibytes of memory that the processes of one command may use together; 0 sets no limit. Default: three "
        "quarters of this machine's memory.",
        minimum=0,
        repository="no",
    ),
    Key(
        "sandbox.maxProcesses",
        "integer",
        "How many processes of one command may run at once; 0 sets no limit.",
        default=4096,
        minimum=0,
        repository="no",
    ),
    Key(
        "sandbox.maxCpuSeconds",
        "integer",
        "Seconds of processor time that one process of a command may use; 0 sets no limit.",
        default=43_200,
        minimum=0,
        repository="no",
    ),
    Key(
        "hooks",
        "list map",
        'Commands to run at fixed points of a session: `{"PreToolUse": [{"matcher": "Bash", "hooks": '
        '[{"type": "command", "command": "…"}]}]}`.',
        default={},
        merge=True,
        applies="now",
    ),
    Key(
        "claudeHooks",
        "boolean",
        "Also use the hooks of `~/.claude/settings.json` and of the project's `.claude/settings.json` and "
        "`.claude/settings.local.json`.",
        default=True,
        repository="no",
        applies="now",
    ),
    Key(
        "mcpServers",
        "object",
        'MCP servers: `{"NAME": {"command": "…", "args": ["…"]}}` or `{"NAME": {"type": "http", "url": "…"}}`.',
        default={},
        merge=True,
        applies="now",
    ),
    Key("systemPrompt", "text", "Replaces the default system prompt."),
    Key("appendSystemPrompt", "text", "Text added to the system prompt."),
    Key("outputStyle", "text", "How the model answers: an output style's name; empty for the default.", default=""),
    Key(
        "maxTurns",
        "integer",
        "Maximum number of model replies per prompt.",
        minimum=1,
        repository="stricter",
        applies="now",
    ),
    Key(
        "maxBudgetUsd",
        "number",
        "Maximum cost of a run in dollars.",
        minimum=0,
        repository="stricter",
        environment=("AGENTCLI_MAX_BUDGET_USD",),
    ),
    Key(
        "confirmCostAbove",
        "number",
        "Ask before changing model, effort, thinking or fast mode if re-reading the context costs this many dollars.",
        default=0.10,
        minimum=0,
        repository="no",
        environment=("AGENTCLI_CONFIRM_COST_ABOVE",),
        applies="now",
    ),
    Key(
        "mcp.samplingBudgetUsd",
        "number",
        "Dollars per session that each MCP server may spend on model replies; 0 allows none. Each reply needs your "
        "approval, unless you allow all of a server's.",
        default=0.50,
        minimum=0,
        repository="no",
    ),
    Key(
        "env",
        "text map",
        "Environment variables for agentcli's requests and for the commands it runs.",
        default={},
        merge=True,
        repository="no",
        applies="now",
    ),
    Key("context.budget", "boolean", "Move large tool results to files and show only their start.", default=True),
    Key("context.snip", "boolean", "Leave out results that a later read or write supersedes.", default=True),
    Key("context.microcompact", "boolean", "Clear old tool results when space is needed.", default=True),
    Key(
        "context.collapse", "boolean", "Summarise old exchanges and finished turns when space is needed.", default=True
    ),
    Key(
        "theme",
        "text",
        "The colours of the terminal app; `auto` follows the terminal's background.",
        default="auto",
        repository="no",
        environment=("AGENTCLI_THEME",),
        applies="now",
    ),
    Key(
        "reducedMotion",
        "boolean",
        "Turn off animations in the terminal app.",
        default=False,
        repository="no",
        environment=("AGENTCLI_REDUCED_MOTION",),
        applies="now",
    ),
    Key(
        "plain",
        "boolean",
        "Use plain mode instead of the full-screen app, like `--plain`.",
        default=False,
        repository="no",
        environment=("AGENTCLI_PLAIN",),
        applies="restart",
    ),
    Key(
        "exitTranscript",
        "text",
        "What the terminal app prints on exit: the last prompt and answer, everything or nothing.",
        default="last",
        choices=("last", "all", "none"),
        repository="no",
        applies="now",
    ),
    Key(
        "repaint",
        "text",
        "What the terminal app writes for a frame: changed cells, or whole rows if your terminal shows stale cells.",
        default="changes",
        choices=("changes", "whole"),
        repository="no",
        environment=("AGENTCLI_REPAINT",),
        applies="restart",
    ),
    Key(
        "mouse", "boolean", "Whether the terminal app uses the mouse.", default=True, repository="no", applies="restart"
    ),
    Key(
        "notifications",
        "text",
        "How the terminal app notifies you when its window is not focused.",
        default="auto",
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

BY_NAME: Mapping[str, Key] = {name: key for key in KEYS for name in (key.name, *key.aliases)}

SECTIONS: frozenset[str] = frozenset(key.name.partition(".")[0] for key in KEYS if "." in key.name)

HOLD_WITHOUT_TRUST: tuple[str, ...] = ("permissions.deny", "permissions.ask")
"""Keys that apply even from untrusted folders, because they only restrict rights."""
