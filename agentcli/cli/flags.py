"""The table of flags, and the parser that reads arguments by it. Help, completion and reference use the same table.

Defines which flags exist and the form of their values, not the meaning of a value (`invocation.py`). Standard library
only, and little of that, because every start imports it: typer would need 90 ms, and a headless start has 400 ms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from agentcli.cli import COMMANDS
from agentcli.core.errors import UsageError
from agentcli.core.frozen import frozen
from agentcli.core.text.patterns import lazy_pattern

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
    usage: str
    """All names and the form of the value, as the help shows them: `-r, --resume [ID|NAME]`."""
    help: str
    special: Kind | None = None
    """The kind, if it does not follow from the usage and the choices."""
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    headless: bool = False
    """Whether the flag is only for -p; the help says so."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(word.rstrip(",").partition("[")[0] for word in self.usage.split() if word.startswith("-"))

    @property
    def metavar(self) -> str:
        _names, bracket, optional = self.usage.partition("[")
        if bracket:
            return optional.strip("=]")
        last = self.usage.split()[-1]
        return "" if last.startswith("-") else last

    @property
    def kind(self) -> Kind:
        if self.special is not None:
            return self.special
        if "[" in self.usage:
            return "equals" if "[=" in self.usage else "optional"
        return "choice" if self.choices else "text" if self.metavar else "switch"

    @property
    def key(self) -> str:
        """Name of the value after parsing: `output_format` for `--output-format`."""
        long = next(name for name in self.names if name.startswith("--"))
        return long.removeprefix("--").replace("-", "_")

    @property
    def repeats(self) -> bool:
        return self.kind in ("names", "rules", "paths", "texts")


EFFORTS = ("low", "medium", "high", "xhigh", "max", "auto")
MODES = ("default", "acceptEdits", "auto", "plan", "dontAsk", "bypassPermissions")
OUTPUT_FORMATS = ("text", "json", "stream-json")
INPUT_FORMATS = ("text", "stream-json")
THINKING_MODES = ("adaptive", "enabled", "disabled")
SETTING_SOURCES = ("user", "project", "local")
SANDBOX_MODES = ("off", "on", "strict")
SHELLS = ("bash", "zsh", "fish")

GROUPS: Mapping[str, tuple[Flag, ...]] = {
    "Input and output": (
        Flag("-p, --print", "Answer PROMPT (and standard input), print the answer and exit."),
        Flag(
            "--output-format FORMAT",
            "text: the last answer. json: one result object. stream-json: one JSON object per line as it happens.",
            choices=OUTPUT_FORMATS,
            headless=True,
        ),
        Flag(
            "--input-format FORMAT",
            "stream-json reads prompts as JSON lines from standard input until it ends.",
            choices=INPUT_FORMATS,
            headless=True,
        ),
        Flag("--include-partial-messages", "stream-json: also print the raw API events.", headless=True),
        Flag("--include-hook-events", "stream-json: also print when hooks start and end.", headless=True),
        Flag("--replay-user-messages", "stream-json: echo each prompt when it joins the conversation.", headless=True),
        Flag(
            "--wait-background",
            "Wait for background commands and agents, and let the model react to each; otherwise they are stopped.",
            headless=True,
        ),
        Flag("--json-schema JSON|FILE", "Require an answer that matches this JSON schema.", headless=True),
        Flag("--verbose", "Show notices and retries on standard error; with --plain also thinking and full results."),
        Flag(
            "--plain", "Print scrolling text instead of the full-screen app: for screen readers and simple terminals."
        ),
    ),
    "Session": (
        Flag("-c, --continue", "Continue the latest session of this folder."),
        Flag("-r, --resume [ID|NAME]", "Resume a session by id, id prefix or name; without one, choose from a list."),
        Flag("--fork-session", "With -c or -r: continue in a copy with a new id."),
        Flag("--session-id UUID", "Id for the new session."),
        Flag("-n, --name NAME", "Name of the session."),
        Flag("--worktree [NAME]", "Work in a separate git worktree, removed at the end if nothing changed."),
        Flag("--no-session-persistence", "Do not save the session."),
    ),
    "Model and limits": (
        Flag("--model MODEL", "Model name or alias (opus, sonnet, haiku)."),
        Flag("--fallback-model A,B", "Models to try in order when the first is overloaded.", "names"),
        Flag("--effort LEVEL", "Effort level of the model.", choices=EFFORTS),
        Flag("--fast", "Use fast mode: higher speed at a higher price, for models that have it."),
        Flag("--thinking MODE", "Thinking mode of the model.", choices=THINKING_MODES),
        Flag("--max-thinking-tokens N", "Thinking budget for --thinking enabled.", "integer", minimum=0),
        Flag("--advisor MODEL", "Let the model consult this second model, on the API's side."),
        Flag("--max-turns N", "Stop after N model replies.", "integer", minimum=1),
        Flag("--max-budget-usd USD", "Stop when the session has cost this much.", "number", minimum=0),
        Flag("--token-budget N", "Keep working until about N output tokens are used.", "integer", minimum=1),
        Flag("--task-budget N", "Tell the model that the task may use N tokens.", "integer", minimum=1),
    ),
    "Prompt": (
        Flag("--system-prompt TEXT", "Replace the system prompt; empty for none."),
        Flag("--system-prompt-file FILE", "Same, from a file."),
        Flag("--append-system-prompt TEXT", "Append to the system prompt."),
        Flag("--append-system-prompt-file FILE", "Same, from a file."),
        Flag("--agent NAME", "Run the session as this agent: its prompt, tools and model."),
        Flag("--agents JSON", "Define sub-agents for this session."),
    ),
    "Tools and permissions": (
        Flag("--tools A,B", 'Built-in tools to enable; "" for none, default for all.', "names"),
        Flag(
            "--allowed-tools, --allowedTools RULES",
            "Allow these tools and commands without asking, e.g. Read,Bash(git log *).",
            "rules",
        ),
        Flag("--disallowed-tools, --disallowedTools RULES", "Never allow these tools and commands.", "rules"),
        Flag("--permission-mode MODE", "How to decide calls that no rule matches.", choices=MODES),
        Flag("--dangerously-skip-permissions", "Same as --permission-mode bypassPermissions."),
        Flag("--trust", "Trust this folder for this run: its repository's settings apply."),
        Flag(
            "--sandbox MODE",
            "Sandbox for commands. on: if available; strict: required, without network; off: none.",
            choices=SANDBOX_MODES,
        ),
        Flag("--add-dir FOLDER", "Additional working directory; repeatable.", "paths"),
        Flag("--mcp-config JSON|FILE", "Use the MCP servers of a file or JSON text; repeatable.", "texts"),
        Flag("--strict-mcp-config", "Use only the MCP servers of --mcp-config."),
    ),
    "Other": (
        Flag("--settings JSON|FILE", "Settings that override the settings files."),
        Flag("--setting-sources A,B", 'Settings files to read; "" for none.', "names", choices=SETTING_SOURCES),
        Flag(
            "--debug[=FILTER]",
            "Write every event to standard error. FILTER: event names separated by commas, ! excludes one.",
        ),
        Flag("--debug-file FILE", "Same, to a file."),
        Flag("--theme NAME", "Theme of the app; /theme lists them."),
        Flag("-v, --version", "Show the version and exit."),
        Flag("-h, --help", "Show this help and exit."),
    ),
}
"""All flags that have an effect in this version, by the heading of the help."""

FLAGS = tuple(flag for flags in GROUPS.values() for flag in flags)
BY_NAME = {name: flag for flag in FLAGS for name in flag.names}
COMMAND_FLAGS = (
    Flag("--json", "Print JSON."),
    Flag("--mode MODE", "Same as --permission-mode.", choices=MODES),
    Flag("--tool TOOL", "The tool: Bash, Read, Edit, WebFetch, …"),
    Flag("-s, --scope SCOPE", "local, user or project.", choices=("local", "user", "project")),
    Flag(
        "-t, --transport KIND",
        "stdio, http or sse. Default: http for an address.",
        choices=("stdio", "http", "sse"),
    ),
)
"""Flags that only sub-commands have and that have values to complete, or that several have."""
OF_COMMANDS = BY_NAME | {name: flag for flag in COMMAND_FLAGS for name in flag.names}

COMPLETE_VARIABLE = "_AGENTCLI_COMPLETE"
"""Set by a shell that asks for completions."""

_RULE_LIST = lazy_pattern(r"(?:[A-Z]\w*|mcp__[\w*-]+)(?:\([^)]*\))?(?:,(?:[A-Z]\w*|mcp__[\w*-]+)(?:\([^)]*\))?)*")


@frozen
class Parsed:
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values by `Flag.key`, only of the given flags. Lists are tuples."""
    prompt: str | None = None
    command: tuple[str, ...] = ()
    """Sub-command and its arguments. If set, the other fields are empty."""

    def get(self, key: str, default: Any = None) -> Any:
        return self.values.get(key, default)

    @property
    def headless(self) -> bool:
        """Whether this is a headless run: -p, or stream-json for both input and output, because programs that drive
        agentcli over pipes do not pass -p."""
        streams = self.get("input_format") == "stream-json" and self.get("output_format") == "stream-json"
        return bool(self.get("print")) or streams


def parse(argv: Sequence[str]) -> Parsed:
    """Parse the arguments. Raises `UsageError` for anything that is not in the table."""
    if argv and argv[0] in COMMANDS:
        return Parsed(command=tuple(argv))
    parsed = _Arguments(list(argv)).read()
    if parsed.prompt is not None and not parsed.get("print"):
        _refuse_mistyped_command(parsed.prompt)
    return parsed


def split_list(text: str) -> tuple[str, ...]:
    """Split a list at commas or blanks, but not inside parentheses; empty items are dropped."""
    items: list[str] = []
    depth, start = 0, 0
    for position, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth = max(0, depth - 1)
        elif depth == 0 and (character == "," or character.isspace()):
            items.append(text[start:position])
            start = position + 1
    items.append(text[start:])
    return tuple(item.strip() for item in items if item.strip())


class _Arguments:
    def __init__(self, argv: list[str]) -> None:
        self._rest = argv
        self._values: dict[str, Any] = {}
        self._prompt: str | None = None

    def read(self) -> Parsed:
        while self._rest:
            argument = self._rest.pop(0)
            if argument == "--":
                for word in self._rest:
                    self._take_prompt(word)
                break
            if argument.startswith("-") and argument != "-":
                self._take_flag(argument)
            else:
                self._take_prompt(argument)
        return Parsed(self._values, self._prompt)

    def _take_prompt(self, word: str) -> None:
        if self._prompt is not None:
            _refuse_mistyped_command(self._prompt)
            raise UsageError(f"Two prompts given, {self._prompt!r} and {word!r}. Put quotes around the whole prompt.")
        self._prompt = word

    def _take_flag(self, argument: str) -> None:
        name, equals, attached = argument.partition("=")
        flag = BY_NAME.get(name)
        if flag is None:
            if self._take_joined_switches(argument):
                return
            raise UsageError(_describe_unknown(name))
        given: str | None = attached if equals else None
        if flag.kind == "switch":
            if given is not None:
                raise UsageError(f"{name} takes no value. Omit {('=' + attached)!r}.")
            self._values[flag.key] = True
            return
        if given is None:
            given = self._next_value(flag, name)
        value = "" if given is None else read_value(flag, name, given)
        if flag.repeats:
            self._values[flag.key] = (*self._values.get(flag.key, ()), *value)
        else:
            self._values[flag.key] = value
        if flag.kind == "rules":
            self._take_more_rules(flag, name)

    def _take_joined_switches(self, argument: str) -> bool:
        """Take `-pc` as `-p -c`; False if the argument is not such a group."""
        letters = [BY_NAME.get(f"-{letter}") for letter in argument[1:]]
        if argument.startswith("--") or not all(flag is not None and flag.kind == "switch" for flag in letters):
            return False
        for flag in letters:
            if flag is not None:
                self._values[flag.key] = True
        return True

    def _next_value(self, flag: Flag, name: str) -> str | None:
        if flag.kind == "equals":
            return None
        following = self._rest[0] if self._rest else None
        if flag.kind == "optional" and (following is None or following.startswith("-")):
            return None
        # A value may begin with a dash (a prompt, a negative number), but a known flag means that the value is missing.
        if following is None or following in BY_NAME:
            raise UsageError(f"{name} needs a value: {name} {flag.metavar}.")
        return self._rest.pop(0)

    def _take_more_rules(self, flag: Flag, name: str) -> None:
        """Rules may also follow as separate arguments, as in scripts for other programs.

        A bare word before the prompt could be either: guessing would lose a prompt or grant a tool, so it is refused.
        """
        while self._rest and _RULE_LIST.fullmatch(self._rest[0]):
            word = self._rest[0]
            if self._prompt is None and "(" not in word and not word.startswith("mcp__"):
                raise UsageError(
                    f"{word!r} after {name} could be a rule or the prompt. "
                    f"Join rules with commas, and put the prompt before {name}."
                )
            self._rest.pop(0)
            self._values[flag.key] = (*self._values[flag.key], *split_list(word))


def read_value(flag: Flag, name: str, text: str) -> Any:
    """Convert the text given for a flag. Raises `UsageError`."""
    match flag.kind:
        case "integer" | "number":
            return _number(flag, name, text)
        case "choice":
            return _choice(flag, name, text)
        case "names" | "rules":
            items = split_list(text)
            return tuple(_choice(flag, name, item) for item in items) if flag.choices else items
        case "paths" | "texts":
            return (text,)
        case _:
            return text


def _number(flag: Flag, name: str, text: str) -> float:
    wanted = "a whole number" if flag.kind == "integer" else "a number"
    try:
        value: float = int(text) if flag.kind == "integer" else float(text)
    except ValueError:
        raise UsageError(f"{name} must be {wanted}, not {text!r}.") from None
    if value != value or value in (float("inf"), float("-inf")):
        raise UsageError(f"{name} must be {wanted}, not {text!r}.")
    if flag.minimum is not None and value < flag.minimum:
        raise UsageError(f"{name} must be {flag.minimum:g} or more, not {text}.")
    return value


def _choice(flag: Flag, name: str, text: str) -> str:
    if text in flag.choices:
        return text
    near = nearest(text, flag.choices)
    hint = f" Did you mean {near}?" if near else ""
    raise UsageError(f"{name} must be one of {', '.join(flag.choices)}, not {text!r}.{hint}")


def _describe_unknown(name: str) -> str:
    near = nearest(name, tuple(BY_NAME))
    return f"There is no flag {name}. " + (f"Did you mean {near}?" if near else "agentcli --help lists all flags.")


def _refuse_mistyped_command(prompt: str) -> None:
    if prompt in COMMANDS:
        raise UsageError(f"A command comes first: agentcli {prompt}.")
    near = nearest(prompt, tuple(COMMANDS)) if prompt.isascii() and prompt.isalpha() else None
    if near is not None:
        raise UsageError(f"There is no command {prompt!r}. Did you mean {near}?")


def nearest(word: str, known: tuple[str, ...]) -> str | None:
    # Imported here: only needed for an error message.
    from difflib import get_close_matches

    folded = {name.casefold(): name for name in known}
    matches = get_close_matches(word.casefold(), folded, n=1, cutoff=0.7)
    return folded[matches[0]] if matches else None
