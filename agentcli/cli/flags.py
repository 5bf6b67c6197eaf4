"""The one table of flags: the fast parser reads it, and so does typer for help and shell completion.

Owns what flags exist and what form their values have; never what a value means (`invocation.py`). Only flags that
do something in this version are in it. Standard library only, and little of that: every start passes here.
"""

from __future__ import annotations

from typing import Literal

from agentcli.core.frozen import frozen

Kind = Literal["switch", "text", "optional", "equals", "integer", "number", "choice", "names", "rules", "paths"]
"""The form of a value:

switch    none
text      any
optional  any, or none: the next argument is the value unless it begins with a dash
equals    any, or none, and only in the form --flag=VALUE
integer   a whole number; number: any number; choice: one of `choices`
names     a comma list; rules: a comma list whose items may hold commas in parentheses; paths: one folder
          (these three may be repeated, which adds)
"""


@frozen
class Flag:
    names: tuple[str, ...]
    key: str
    """Name of the value after parsing."""
    kind: Kind
    group: str
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    headless: bool = False
    """Only for -p, as the help notes."""

    @property
    def long(self) -> str:
        return next(name for name in self.names if name.startswith("--"))

    @property
    def repeats(self) -> bool:
        return self.kind in ("names", "rules", "paths")


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

FLAGS: tuple[Flag, ...] = (
    Flag(
        ("-p", "--print"), "print", "switch", OUTPUT, "Answer PROMPT (and standard input), print the answer and exit."
    ),
    Flag(
        ("--output-format",),
        "output_format",
        "choice",
        OUTPUT,
        "text: the last answer. json: one result object. stream-json: one JSON object per line as it happens.",
        metavar="FORMAT",
        choices=OUTPUT_FORMATS,
        headless=True,
    ),
    Flag(
        ("--input-format",),
        "input_format",
        "choice",
        OUTPUT,
        "stream-json reads prompts as JSON lines from standard input until it ends.",
        metavar="FORMAT",
        choices=INPUT_FORMATS,
        headless=True,
    ),
    Flag(
        ("--include-partial-messages",),
        "include_partial_messages",
        "switch",
        OUTPUT,
        "stream-json: also print the raw API events.",
        headless=True,
    ),
    Flag(
        ("--replay-user-messages",),
        "replay_user_messages",
        "switch",
        OUTPUT,
        "stream-json: echo each prompt when it joins the conversation.",
        headless=True,
    ),
    Flag(
        ("--wait-background",),
        "wait_background",
        "switch",
        OUTPUT,
        "Wait for background commands before exiting; otherwise they are stopped and listed.",
        headless=True,
    ),
    Flag(
        ("--json-schema",),
        "json_schema",
        "text",
        OUTPUT,
        "Require an answer that matches this JSON schema.",
        metavar="JSON|FILE",
        headless=True,
    ),
    Flag(
        ("--verbose",),
        "verbose",
        "switch",
        OUTPUT,
        "Show notices and retries on standard error; with --plain also thinking and full results.",
    ),
    Flag(
        ("--plain",),
        "plain",
        "switch",
        OUTPUT,
        "Print scrolling text instead of the full-screen app: for screen readers and simple terminals.",
    ),
    Flag(("-c", "--continue"), "continue", "switch", SESSION, "Continue the latest session of this folder."),
    Flag(
        ("-r", "--resume"),
        "resume",
        "optional",
        SESSION,
        "Resume a session by id, id prefix or name; without one, choose from a list.",
        metavar="ID|NAME",
    ),
    Flag(
        ("--fork-session",),
        "fork_session",
        "switch",
        SESSION,
        "With -c or -r: continue in a copy with a new id.",
    ),
    Flag(("--session-id",), "session_id", "text", SESSION, "Id for the new session.", metavar="UUID"),
    Flag(("-n", "--name"), "name", "text", SESSION, "Name of the session.", metavar="NAME"),
    Flag(("--no-session-persistence",), "no_session_persistence", "switch", SESSION, "Do not save the session."),
    Flag(("--model",), "model", "text", MODEL, "Model name or alias (opus, sonnet, haiku).", metavar="MODEL"),
    Flag(
        ("--fallback-model",),
        "fallback_model",
        "names",
        MODEL,
        "Models to try in order when the first is overloaded.",
        metavar="A,B",
    ),
    Flag(("--effort",), "effort", "choice", MODEL, "Effort level of the model.", "LEVEL", EFFORTS),
    Flag(("--thinking",), "thinking", "choice", MODEL, "Thinking mode of the model.", "MODE", THINKING_MODES),
    Flag(
        ("--max-thinking-tokens",),
        "max_thinking_tokens",
        "integer",
        MODEL,
        "Thinking budget for --thinking enabled.",
        metavar="N",
        minimum=0,
    ),
    Flag(
        ("--max-turns",),
        "max_turns",
        "integer",
        MODEL,
        "Stop after N model replies.",
        metavar="N",
        minimum=1,
    ),
    Flag(
        ("--max-budget-usd",),
        "max_budget_usd",
        "number",
        MODEL,
        "Stop when the session has cost this much.",
        metavar="USD",
        minimum=0,
    ),
    Flag(
        ("--token-budget",),
        "token_budget",
        "integer",
        MODEL,
        "Keep working until about N output tokens are used.",
        metavar="N",
        minimum=1,
    ),
    Flag(
        ("--task-budget",),
        "task_budget",
        "integer",
        MODEL,
        "Tell the model that the task may use N tokens.",
        metavar="N",
        minimum=1,
    ),
    Flag(
        ("--system-prompt",),
        "system_prompt",
        "text",
        PROMPT,
        "Replace the system prompt; empty for none.",
        metavar="TEXT",
    ),
    Flag(
        ("--system-prompt-file",),
        "system_prompt_file",
        "text",
        PROMPT,
        "Same, from a file.",
        metavar="FILE",
    ),
    Flag(
        ("--append-system-prompt",),
        "append_system_prompt",
        "text",
        PROMPT,
        "Append to the system prompt.",
        metavar="TEXT",
    ),
    Flag(
        ("--append-system-prompt-file",),
        "append_system_prompt_file",
        "text",
        PROMPT,
        "Same, from a file.",
        metavar="FILE",
    ),
    Flag(
        ("--tools",),
        "tools",
        "names",
        PERMISSIONS,
        'Built-in tools to enable; "" for none, default for all.',
        metavar="A,B",
    ),
    Flag(
        ("--allowed-tools", "--allowedTools"),
        "allowed_tools",
        "rules",
        PERMISSIONS,
        "Allow these tools and commands without asking, e.g. Read,Bash(git log *).",
        metavar="RULES",
    ),
    Flag(
        ("--disallowed-tools", "--disallowedTools"),
        "disallowed_tools",
        "rules",
        PERMISSIONS,
        "Never allow these tools and commands.",
        metavar="RULES",
    ),
    Flag(
        ("--permission-mode",),
        "permission_mode",
        "choice",
        PERMISSIONS,
        "How to decide calls that no rule matches.",
        metavar="MODE",
        choices=MODES,
    ),
    Flag(
        ("--dangerously-skip-permissions",),
        "dangerously_skip_permissions",
        "switch",
        PERMISSIONS,
        "Same as --permission-mode bypassPermissions.",
    ),
    Flag(
        ("--trust",),
        "trust",
        "switch",
        PERMISSIONS,
        "Apply the settings of this folder's repository for this run.",
    ),
    Flag(
        ("--sandbox",),
        "sandbox",
        "choice",
        PERMISSIONS,
        "Sandbox for commands. on: if available; strict: required, without network; off: none.",
        metavar="MODE",
        choices=SANDBOX_MODES,
    ),
    Flag(
        ("--add-dir",),
        "add_dir",
        "paths",
        PERMISSIONS,
        "Additional working directory; repeatable.",
        metavar="FOLDER",
    ),
    Flag(
        ("--settings",),
        "settings",
        "text",
        OTHER,
        "Settings that override the settings files.",
        metavar="JSON|FILE",
    ),
    Flag(
        ("--setting-sources",),
        "setting_sources",
        "names",
        OTHER,
        'Settings files to read; "" for none.',
        metavar="A,B",
        choices=SETTING_SOURCES,
    ),
    Flag(
        ("--debug",),
        "debug",
        "equals",
        OTHER,
        "Write every event to standard error. FILTER: event names separated by commas, ! excludes one.",
        metavar="FILTER",
    ),
    Flag(("--debug-file",), "debug_file", "text", OTHER, "Same, to a file.", metavar="FILE"),
    Flag(("--theme",), "theme", "text", OTHER, "Theme of the app; /theme lists them.", metavar="NAME"),
    Flag(("-v", "--version"), "version", "switch", OTHER, "Show the version and exit."),
    Flag(("-h", "--help"), "help", "switch", OTHER, "Show this help and exit."),
)

BY_NAME = {name: flag for flag in FLAGS for name in flag.names}

COMMANDS = {
    "help": "Show help for agentcli or a command.",
    "demo": "Try the app on a temporary project, without a key or network.",
    "login": "Check and store an API key.",
    "logout": "Remove the stored API key.",
    "status": "Show the model, server and key in use.",
    "doctor": "Check this installation and test the sandbox.",
    "sessions": "List saved sessions.",
    "config": "Show all settings and their sources.",
    "permissions": "List permission rules, or test them on a command.",
    "trust": "Review and trust a repository's settings.",
    "quarantine": "List and restore files that the sandbox moved away.",
    "completion": "Print a shell completion script.",
}
"""Sub-commands with their help; `app.py` has one function for each."""

COMPLETE_VARIABLE = "_AGENTCLI_COMPLETE"
"""Set by a shell that asks for completions."""
