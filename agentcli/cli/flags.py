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
    """Under which name the value is found after parsing."""
    kind: Kind
    group: str
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    headless: bool = False
    """Means something with -p only; the help says so."""

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
    Flag(("-p", "--print"), "print", "switch", OUTPUT, "Answer PROMPT (and standard input), print, and exit."),
    Flag(
        ("--output-format",),
        "output_format",
        "choice",
        OUTPUT,
        "text: the last answer. json: one result object. stream-json: one object a line, as things happen.",
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
        "stream-json: also pass on the raw events of the API.",
        headless=True,
    ),
    Flag(
        ("--replay-user-messages",),
        "replay_user_messages",
        "switch",
        OUTPUT,
        "stream-json: echo each prompt once it is part of the conversation.",
        headless=True,
    ),
    Flag(
        ("--wait-background",),
        "wait_background",
        "switch",
        OUTPUT,
        "Wait for background commands before the run ends; else they are ended and named.",
        headless=True,
    ),
    Flag(
        ("--json-schema",),
        "json_schema",
        "text",
        OUTPUT,
        "The answer must be an object of this JSON schema.",
        metavar="JSON|FILE",
        headless=True,
    ),
    Flag(
        ("--verbose",),
        "verbose",
        "switch",
        OUTPUT,
        "Show notices and retries on standard error; with --plain thinking and whole results.",
    ),
    Flag(
        ("--plain",),
        "plain",
        "switch",
        OUTPUT,
        "Lines instead of the full-screen app: for screen readers, native scrollback and simple terminals.",
    ),
    Flag(("-c", "--continue"), "continue", "switch", SESSION, "Go on with the latest session of this folder."),
    Flag(
        ("-r", "--resume"),
        "resume",
        "optional",
        SESSION,
        "Go on with a session, by its id, the beginning of its id, or its name.",
        metavar="ID|NAME",
    ),
    Flag(
        ("--fork-session",),
        "fork_session",
        "switch",
        SESSION,
        "With -c or -r: go on in a copy under a new id.",
    ),
    Flag(("--session-id",), "session_id", "text", SESSION, "The id of the new session.", metavar="UUID"),
    Flag(("-n", "--name"), "name", "text", SESSION, "A name for the session, to find it by.", metavar="NAME"),
    Flag(("--no-session-persistence",), "no_session_persistence", "switch", SESSION, "Write no session file."),
    Flag(("--model",), "model", "text", MODEL, "The model, by name or alias (opus, sonnet, haiku).", metavar="MODEL"),
    Flag(
        ("--fallback-model",),
        "fallback_model",
        "names",
        MODEL,
        "Models to try, in this order, when the first is overloaded.",
        metavar="A,B",
    ),
    Flag(("--effort",), "effort", "choice", MODEL, "How much work the model puts in.", "LEVEL", EFFORTS),
    Flag(("--thinking",), "thinking", "choice", MODEL, "Whether the model thinks first.", "MODE", THINKING_MODES),
    Flag(
        ("--max-thinking-tokens",),
        "max_thinking_tokens",
        "integer",
        MODEL,
        "The thinking budget with --thinking enabled.",
        metavar="N",
        minimum=0,
    ),
    Flag(
        ("--max-turns",),
        "max_turns",
        "integer",
        MODEL,
        "Stop after so many model replies.",
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
        "Keep working until about so many output tokens are used.",
        metavar="N",
        minimum=1,
    ),
    Flag(
        ("--task-budget",),
        "task_budget",
        "integer",
        MODEL,
        "Tell the model how many tokens the task may take.",
        metavar="N",
        minimum=1,
    ),
    Flag(
        ("--system-prompt",),
        "system_prompt",
        "text",
        PROMPT,
        "Replaces the system prompt; empty means none.",
        metavar="TEXT",
    ),
    Flag(
        ("--system-prompt-file",),
        "system_prompt_file",
        "text",
        PROMPT,
        "The same, from a file.",
        metavar="FILE",
    ),
    Flag(
        ("--append-system-prompt",),
        "append_system_prompt",
        "text",
        PROMPT,
        "Added after the system prompt.",
        metavar="TEXT",
    ),
    Flag(
        ("--append-system-prompt-file",),
        "append_system_prompt_file",
        "text",
        PROMPT,
        "The same, from a file.",
        metavar="FILE",
    ),
    Flag(
        ("--tools",),
        "tools",
        "names",
        PERMISSIONS,
        'The built-in tools to offer; "" for none, default for all.',
        metavar="A,B",
    ),
    Flag(
        ("--allowed-tools", "--allowedTools"),
        "allowed_tools",
        "rules",
        PERMISSIONS,
        "Rules for what runs without asking, e.g. Read,Bash(git log *).",
        metavar="RULES",
    ),
    Flag(
        ("--disallowed-tools", "--disallowedTools"),
        "disallowed_tools",
        "rules",
        PERMISSIONS,
        "Rules for what never runs.",
        metavar="RULES",
    ),
    Flag(
        ("--permission-mode",),
        "permission_mode",
        "choice",
        PERMISSIONS,
        "What happens to calls that no rule decides.",
        metavar="MODE",
        choices=MODES,
    ),
    Flag(
        ("--dangerously-skip-permissions",),
        "dangerously_skip_permissions",
        "switch",
        PERMISSIONS,
        "The same as --permission-mode bypassPermissions.",
    ),
    Flag(
        ("--trust",),
        "trust",
        "switch",
        PERMISSIONS,
        "Obey the settings that this folder brings along.",
    ),
    Flag(
        ("--sandbox",),
        "sandbox",
        "choice",
        PERMISSIONS,
        "Where commands run: in a sandbox if one works (on), in one without network or none at all (strict), or bare.",
        metavar="MODE",
        choices=SANDBOX_MODES,
    ),
    Flag(
        ("--add-dir",),
        "add_dir",
        "paths",
        PERMISSIONS,
        "A further folder to work in; may be repeated.",
        metavar="FOLDER",
    ),
    Flag(
        ("--settings",),
        "settings",
        "text",
        OTHER,
        "Settings laid over the settings files.",
        metavar="JSON|FILE",
    ),
    Flag(
        ("--setting-sources",),
        "setting_sources",
        "names",
        OTHER,
        'Which settings files to read; "" for none.',
        metavar="A,B",
        choices=SETTING_SOURCES,
    ),
    Flag(
        ("--debug",),
        "debug",
        "equals",
        OTHER,
        "Write every event to standard error; FILTER is a comma list of event names, ! leaves one out.",
        metavar="FILTER",
    ),
    Flag(("--debug-file",), "debug_file", "text", OTHER, "The same, into a file.", metavar="FILE"),
    Flag(("--theme",), "theme", "text", OTHER, "The colours of the app; /theme shows them all.", metavar="NAME"),
    Flag(("-v", "--version"), "version", "switch", OTHER, "Show the version and exit."),
    Flag(("-h", "--help"), "help", "switch", OTHER, "Show this help and exit."),
)

BY_NAME = {name: flag for flag in FLAGS for name in flag.names}

COMMANDS = {
    "help": "Show this help, or that of a command.",
    "demo": "Take a tour: the real app on a throw-away project, without a key and without a network.",
    "login": "Give agentcli an API key, checked and kept.",
    "logout": "Forget the key that was kept.",
    "status": "Say which model, server and key are used here.",
    "doctor": "Check this installation, and prove what the sandbox holds.",
    "sessions": "List the stored sessions.",
    "config": "Show each setting with where it came from.",
    "permissions": "Say what the permission rules decide about a command, and why.",
    "trust": "Look at what a folder's own settings would do, and trust them.",
    "quarantine": "Show and take back what the sandbox moved out of working directories.",
    "completion": "Print the completion script for a shell.",
}
"""Sub-commands with their help; `app.py` has one function for each."""

COMPLETE_VARIABLE = "_AGENTCLI_COMPLETE"
"""Set by a shell that wants to know how a command line may go on."""
