"""The table of flags, used by the fast parser, help and shell completion.

Defines which flags exist and the form of their values, not the meaning of a value (`invocation.py`). Contains only
flags that have an effect in this version. Standard library only, and little of that: every start imports it.
"""

from __future__ import annotations

from typing import Literal

from agentcli.core.frozen import frozen

Kind = Literal[
    "switch", "text", "optional", "equals", "integer", "number", "choice", "names", "rules", "paths", "texts"
]
"""The form of a value:

switch    none
text      any
optional  any, or none: the next argument is the value unless it begins with a dash
equals    any, or none, and only in the form --flag=VALUE
integer   a whole number; number: any number; choice: one of `choices`
names     a comma-separated list; rules: the same, but items may contain commas in parentheses; paths: one folder;
          texts: any (these four may be repeated, which adds values)
"""


@frozen
class Flag:
    spelling: str
    """All names, separated by commas."""
    group: str
    help: str
    kind: Kind = "switch"
    metavar: str = ""
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    headless: bool = False
    """Whether the flag is only for -p; the help says so."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.spelling.split(", "))

    @property
    def key(self) -> str:
        """Name of the value after parsing: `output_format` for `--output-format`."""
        long = next(name for name in self.names if name.startswith("--"))
        return long.removeprefix("--").replace("-", "_")

    @property
    def repeats(self) -> bool:
        return self.kind in ("names", "rules", "paths", "texts")


SESSION = "Session"
MODEL = "Model and limits"
PROMPT = "Prompt"
PERMISSIONS = "Tools and permissions"
OUTPUT = "Input and output"
OTHER = "Other"

GROUPS = (OUTPUT, SESSION, MODEL, PROMPT, PERMISSIONS, OTHER)

EFFORTS = ("low", "medium", "high", "xhigh", "max", "auto")
MODES = ("default", "acceptEdits", "auto", "plan", "dontAsk", "bypassPermissions")
OUTPUT_FORMATS = ("text", "json", "stream-json")
INPUT_FORMATS = ("text", "stream-json")
THINKING_MODES = ("adaptive", "enabled", "disabled")
SETTING_SOURCES = ("user", "project", "local")
SANDBOX_MODES = ("off", "on", "strict")
SHELLS = ("bash", "zsh", "fish")
MCP_SCOPES = ("local", "user", "project")
MCP_TRANSPORTS = ("stdio", "http", "sse")

FLAGS: tuple[Flag, ...] = (
    Flag("-p, --print", OUTPUT, "Answer PROMPT (and standard input), print the answer and exit."),
    Flag(
        "--output-format",
        OUTPUT,
        "text: the last answer. json: one result object. stream-json: one JSON object per line as it happens.",
        "choice",
        "FORMAT",
        OUTPUT_FORMATS,
        headless=True,
    ),
    Flag(
        "--input-format",
        OUTPUT,
        "stream-json reads prompts as JSON lines from standard input until it ends.",
        "choice",
        "FORMAT",
        INPUT_FORMATS,
        headless=True,
    ),
    Flag("--include-partial-messages", OUTPUT, "stream-json: also print the raw API events.", headless=True),
    Flag("--include-hook-events", OUTPUT, "stream-json: also print when hooks start and end.", headless=True),
    Flag(
        "--replay-user-messages", OUTPUT, "stream-json: echo each prompt when it joins the conversation.", headless=True
    ),
    Flag(
        "--wait-background",
        OUTPUT,
        "Wait for background commands and agents, and let the model react to each; otherwise they are stopped.",
        headless=True,
    ),
    Flag(
        "--json-schema", OUTPUT, "Require an answer that matches this JSON schema.", "text", "JSON|FILE", headless=True
    ),
    Flag(
        "--verbose", OUTPUT, "Show notices and retries on standard error; with --plain also thinking and full results."
    ),
    Flag(
        "--plain",
        OUTPUT,
        "Print scrolling text instead of the full-screen app: for screen readers and simple terminals.",
    ),
    Flag("-c, --continue", SESSION, "Continue the latest session of this folder."),
    Flag(
        "-r, --resume",
        SESSION,
        "Resume a session by id, id prefix or name; without one, choose from a list.",
        "optional",
        "ID|NAME",
    ),
    Flag("--fork-session", SESSION, "With -c or -r: continue in a copy with a new id."),
    Flag("--session-id", SESSION, "Id for the new session.", "text", "UUID"),
    Flag("-n, --name", SESSION, "Name of the session.", "text", "NAME"),
    Flag(
        "--worktree",
        SESSION,
        "Work in a separate git worktree, removed at the end if nothing changed.",
        "optional",
        "NAME",
    ),
    Flag("--no-session-persistence", SESSION, "Do not save the session."),
    Flag("--model", MODEL, "Model name or alias (opus, sonnet, haiku).", "text", "MODEL"),
    Flag("--fallback-model", MODEL, "Models to try in order when the first is overloaded.", "names", "A,B"),
    Flag("--effort", MODEL, "Effort level of the model.", "choice", "LEVEL", EFFORTS),
    Flag("--fast", MODEL, "Use fast mode: higher speed at a higher price, for models that have it."),
    Flag("--thinking", MODEL, "Thinking mode of the model.", "choice", "MODE", THINKING_MODES),
    Flag("--max-thinking-tokens", MODEL, "Thinking budget for --thinking enabled.", "integer", "N", minimum=0),
    Flag("--advisor", MODEL, "Let the model consult this second model, on the API's side.", "text", "MODEL"),
    Flag("--max-turns", MODEL, "Stop after N model replies.", "integer", "N", minimum=1),
    Flag("--max-budget-usd", MODEL, "Stop when the session has cost this much.", "number", "USD", minimum=0),
    Flag("--token-budget", MODEL, "Keep working until about N output tokens are used.", "integer", "N", minimum=1),
    Flag("--task-budget", MODEL, "Tell the model that the task may use N tokens.", "integer", "N", minimum=1),
    Flag("--system-prompt", PROMPT, "Replace the system prompt; empty for none.", "text", "TEXT"),
    Flag("--system-prompt-file", PROMPT, "Same, from a file.", "text", "FILE"),
    Flag("--append-system-prompt", PROMPT, "Append to the system prompt.", "text", "TEXT"),
    Flag("--append-system-prompt-file", PROMPT, "Same, from a file.", "text", "FILE"),
    Flag("--tools", PERMISSIONS, 'Built-in tools to enable; "" for none, default for all.', "names", "A,B"),
    Flag(
        "--allowed-tools, --allowedTools",
        PERMISSIONS,
        "Allow these tools and commands without asking, e.g. Read,Bash(git log *).",
        "rules",
        "RULES",
    ),
    Flag(
        "--disallowed-tools, --disallowedTools", PERMISSIONS, "Never allow these tools and commands.", "rules", "RULES"
    ),
    Flag("--permission-mode", PERMISSIONS, "How to decide calls that no rule matches.", "choice", "MODE", MODES),
    Flag("--dangerously-skip-permissions", PERMISSIONS, "Same as --permission-mode bypassPermissions."),
    Flag("--trust", PERMISSIONS, "Trust this folder for this run: its repository's settings apply."),
    Flag(
        "--sandbox",
        PERMISSIONS,
        "Sandbox for commands. on: if available; strict: required, without network; off: none.",
        "choice",
        "MODE",
        SANDBOX_MODES,
    ),
    Flag("--add-dir", PERMISSIONS, "Additional working directory; repeatable.", "paths", "FOLDER"),
    Flag("--agent", PROMPT, "Run the session as this agent: its prompt, tools and model.", "text", "NAME"),
    Flag("--agents", PROMPT, "Define sub-agents for this session.", "text", "JSON"),
    Flag("--mcp-config", PERMISSIONS, "Use the MCP servers of a file or JSON text; repeatable.", "texts", "JSON|FILE"),
    Flag("--strict-mcp-config", PERMISSIONS, "Use only the MCP servers of --mcp-config."),
    Flag("--settings", OTHER, "Settings that override the settings files.", "text", "JSON|FILE"),
    Flag("--setting-sources", OTHER, 'Settings files to read; "" for none.', "names", "A,B", SETTING_SOURCES),
    Flag(
        "--debug",
        OTHER,
        "Write every event to standard error. FILTER: event names separated by commas, ! excludes one.",
        "equals",
        "FILTER",
    ),
    Flag("--debug-file", OTHER, "Same, to a file.", "text", "FILE"),
    Flag("--theme", OTHER, "Theme of the app; /theme lists them.", "text", "NAME"),
    Flag("-v, --version", OTHER, "Show the version and exit."),
    Flag("-h, --help", OTHER, "Show this help and exit."),
)

BY_NAME = {name: flag for flag in FLAGS for name in flag.names}

COMPLETE_VARIABLE = "_AGENTCLI_COMPLETE"
"""Set by a shell that asks for completions."""
