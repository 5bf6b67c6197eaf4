"""Permission rules: `Tool` or `Tool(spec)`, where each came from, and what each matches.

In a written rule `<U+0029>` stands for the character with that code. `rule_text` uses it for characters that would end
the rule, split a list of rules, be trimmed or be invisible: lone parentheses, blanks at the ends, control and hidden
characters. A backslash is not an escape: it is common in commands and patterns, and older rules contain it literally.

Matching errs on the safe side: a deny or ask rule matches when in doubt, an allow rule only when certain. That is why
the matchers have a strict and a loose form. `policy` makes the decisions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from agentcli.core.errors import UsageError
from agentcli.core.frozen import frozen
from agentcli.core.permission import TOOL_VERSION, Need
from agentcli.core.text.patterns import lazy_pattern
from agentcli.core.text.plaintext import show_command, spell_hidden
from agentcli.shell.parser.loose_parser import loose_segments
from agentcli.shell.paths import PathPattern

_QUOTED = lazy_pattern(r"<U\+([0-9A-Fa-f]{4,6})>")
_CONTROL = lazy_pattern(r"[\x00-\x1f\x7f-\x9f]")
_NAME = lazy_pattern(r"[A-Za-z0-9_-]{1,128}\*?|\*|mcp__[A-Za-z0-9_-]{1,122}__[A-Za-z0-9_*-]{1,121}")
_MCP = "mcp__"
RuleScope = Literal["session", "local", "project", "user", "flags", "managed", "agentcli"]
"""Where a rule applies and can be edited."""
READING_TOOLS = frozenset({"Read", "Grep", "Glob"})
WRITING_TOOLS = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})
NAMING_TOOLS = frozenset({"Task", "Agent", "Skill"})
SPECIFIED_TOOLS = READING_TOOLS | WRITING_TOOLS | NAMING_TOOLS | {"Bash", "WebFetch", "WebSearch"}
"""Built-in tools that a rule can limit to some uses, with a spec in parentheses."""
"""Tools whose rules name an agent or a skill."""


@frozen
class Rule:
    tool: str
    spec: str | None = None
    """The text in parentheses; None: every use of the tool."""
    source: str = ""
    """Where it was written: a flag's name or a settings file."""
    root: Path | None = None
    """Base of patterns that begin with a single slash; None: the working directory."""
    scope: RuleScope = "agentcli"

    @property
    def text(self) -> str:
        return self.tool if self.spec is None else rule_text(self.tool, self.spec)

    @property
    def shown(self) -> str:
        """The rule for people: `Edit /srv/a.py` instead of `Edit(//srv/a.py)`, all others as they are written."""
        is_path = self.tool in READING_TOOLS | WRITING_TOOLS and (self.spec or "").startswith("//")
        return f"{self.tool} {self.text[len(self.tool) + 2 : -1]}" if is_path else self.text

    @property
    def is_of_user(self) -> bool:
        """Whether the user wrote or answered it, and no file that a project may contain."""
        return self.scope in ("session", "user", "flags", "managed")

    def names(self, tool_name: str) -> bool:
        """Whether the rule's tool part matches this tool, regardless of its spec."""
        if self.tool in (tool_name, "*") or (self.tool == "Agent" and tool_name == "Task"):
            return True
        if "*" in self.tool:
            return _wildcard(self.tool, tool_name, 0)
        # `mcp__server` matches all tools of that server.
        return self.tool.startswith(_MCP) and self.tool.count("__") == 1 and tool_name.startswith(self.tool + "__")

    def covers_path(self, need: Need) -> bool:
        if self.spec is None:
            return False
        if need.kind == "read":
            return self.tool in READING_TOOLS
        return need.kind == "write" and self.tool in WRITING_TOOLS

    def pattern(self, cwd: Path, home: Path | None) -> PathPattern:
        return PathPattern(self.spec or "", cwd, self.root or cwd, home)

    def matches_path(self, path: str, cwd: Path, home: Path | None, *, strict: bool) -> bool:
        """Match a path with links resolved: a strict match needs both the name and its target, a loose one either."""
        return self.pattern(cwd, home).matches(path, strict=strict)

    def matches_command(self, text: str, *, extended: bool = False) -> bool:
        """Strict: whether the spec allows one plain command; `extended`: with any further arguments."""
        if self.spec is None:
            return False
        pattern = _command_pattern(self.spec)
        return _matches_words(pattern, text) and (not extended or pattern.endswith(" *"))

    def list_named_words(self, words: Sequence[str]) -> list[str]:
        """The words of a command that the spec itself names: all but those that stand for a `*` between blanks."""
        spec = _command_pattern(self.spec or "")
        if "*" not in spec or any(quote in spec for quote in "'\"\\"):
            return list(words)
        patterns = [pattern for pattern in spec.split() if pattern != "*"]
        return [word for word in words if any(_wildcard(pattern, word, 0) for pattern in patterns)]

    def matches_somewhere(self, command: str) -> bool:
        """Loose: whether the spec matches anywhere in the command."""
        if self.spec is None:
            return False
        pattern = _command_pattern(self.spec)
        return any(
            _matches_anywhere(pattern, segment.text, first_only=not segment.anywhere)
            for segment in loose_segments(command)
        )

    def matches_value(self, value: str) -> bool:
        """Match a value that is neither a path nor a command (`Task(name)`, `Skill(name)`); * in the spec is any
        text."""
        if self.spec is None:
            return False
        # Names of agents and skills are compared in lower case, whatever the rule or the model writes.
        spec = self.spec.lower() if self.tool in NAMING_TOOLS else self.spec
        return _matches_words(_command_pattern(spec), value)

    def matches_host(self, host: str) -> bool:
        """Match a host: `domain:example.com` matches that host and its subdomains."""
        if self.spec is None or not self.spec.startswith("domain:"):
            return False
        domain = self.spec.removeprefix("domain:").strip().lower().removeprefix("*.").rstrip(".")
        host = host.lower().rstrip(".")
        return bool(domain) and (host == domain or host.endswith("." + domain))


def parse_rule(text: str, source: str = "", root: Path | None = None, scope: RuleScope = "agentcli") -> Rule:
    """Parse a rule. Raises `UsageError` if the text is not one."""
    text = text.strip()
    name, opened, rest = text.partition("(")
    name = name.strip()
    if not _NAME.fullmatch(name) or (opened and not rest.endswith(")")):
        where = f" (from {source})" if source else ""
        raise UsageError(
            f"Not a permission rule: {text!r}{where}. Write Tool or Tool(what), for example Bash(npm test *)."
        )
    spec = rest[:-1].strip() if opened else None
    spec = None if spec is None or spec in ("", "*") else _unquote(spec)
    if spec is not None and name.startswith(_MCP) and not spec.startswith(TOOL_VERSION):
        raise UsageError(f"Rules for MCP tools match whole tools: {text!r}. Write {name} without parentheses.")
    if spec is not None and spec.startswith("!") and name in READING_TOOLS | WRITING_TOOLS:
        raise UsageError(
            f"Patterns that begin with ! are not supported: {text!r}. Write an allow and a deny rule instead."
        )
    return Rule(name, spec, source, root, scope)


def parse_rules(texts: Iterable[str], source: str = "", scope: RuleScope = "agentcli") -> tuple[Rule, ...]:
    return tuple(parse_rule(text, source, scope=scope) for text in texts)


# ------------------------------------------------------------------------------------------------------- quoting


def show_rule(text: str) -> str:
    """A written rule for people (`Rule.shown`)."""
    try:
        return parse_rule(text).shown
    except UsageError:
        return text


def rule_text(tool: str, spec: str) -> str:
    """Format a rule so that `parse_rule` reads exactly this spec, alone or in a list of rules."""
    if not spec:
        raise ValueError("A rule without a spec would match every use of the tool.")
    return f"{tool}({_quote(spec)})"


def _quote(spec: str) -> str:
    text = spell_hidden(spec.replace("<U+", f"{_code('<')}U+"))
    text = _CONTROL.sub(lambda found: _code(found.group()), text)
    if not _is_balanced(text):
        text = text.replace("(", _code("(")).replace(")", _code(")"))
    inner = text.strip()
    if inner != text:
        start = text.index(inner) if inner else len(text)
        before, after = text[:start], text[start + len(inner) :]
        text = "".join(map(_code, before)) + inner + "".join(map(_code, after))
    return _code("*") if text == "*" else text


def _unquote(text: str) -> str:
    return _QUOTED.sub(lambda found: chr(code) if (code := int(found[1], 16)) < 0x110000 else found[0], text)


def _code(character: str) -> str:
    return f"<U+{ord(character):04X}>"


def _is_balanced(text: str) -> bool:
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return False
    return depth == 0


# ---------------------------------------------------------------------------------------------- command patterns


def _command_pattern(spec: str) -> str:
    """Normalise a pattern: `npm test:*` means `npm test *`, and runs of blanks count as one."""
    if spec.endswith(":*"):
        spec = spec[:-2] + " *"
    return " ".join(spec.split())


def _matches_words(pattern: str, text: str, start: int = 0) -> bool:
    # `npm test *` also matches `npm test`, but not `npm tests`.
    if pattern.endswith(" *") and len(text) - start == len(pattern) - 2 and text.startswith(pattern[:-2], start):
        return True
    return _wildcard(pattern, text, start)


def _matches_anywhere(pattern: str, segment: str, *, first_only: bool) -> bool:
    if pattern.startswith("*"):
        return _matches_words(pattern, segment)
    # Indexing instead of slicing: a segment may have very many words.
    start = 0
    while True:
        if _matches_words(pattern, segment, start):
            return True
        following = segment.find(" ", start)
        # A deny rule for `rm` also matches `/bin/rm`.
        slash = segment.rfind("/", start, len(segment) if following < 0 else following)
        if slash >= 0 and _matches_words(pattern, segment, slash + 1):
            return True
        if following < 0 or first_only:
            return False
        start = following + 1


def _wildcard(pattern: str, text: str, start: int) -> bool:
    """Match a pattern in which `*` is any text, including none. Linear time: a hostile command must not cause
    backtracking."""
    head, *rest = pattern.split("*")
    if not text.startswith(head, start):
        return False
    if not rest:
        return len(text) - start == len(pattern)
    position = start + len(head)
    for piece in rest[:-1]:
        found = text.find(piece, position)
        if found < 0:
            return False
        position = found + len(piece)
    return len(text) - position >= len(rest[-1]) and text.endswith(rest[-1])


_HARMLESS_BARE = READING_TOOLS | {"TodoWrite", "WebSearch", "BashOutput"}
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_INTERPRETERS = frozenset(
    {"sh", "bash", "zsh", "dash", "ksh", "fish", "pwsh", "busybox", "node", "deno", "bun", "ruby", "perl", "php", "lua"}
    | {"Rscript", "osascript", "awk", "gawk", "env", "sudo", "doas", "su", "xargs", "eval", "exec", "command", "nohup"}
    | {"setsid", "time", "timeout", "nice", "ssh", "npx", "bunx", "uvx", "pipx", "docker", "podman"}
)
"""Programs that run code from their arguments or standard input."""


def check_rule(text: str) -> Rule:
    """Parse a typed rule. Raises `UsageError` if it is invalid or ambiguous."""
    if show_command(text) != text or "\n" in text:
        raise UsageError("The rule contains invisible characters or a line break.")
    return parse_rule(text)


def describe_cover(rules: Sequence[str]) -> str:
    """Describe for the user what rules cover: `pytest with any arguments`."""
    if len(rules) > 1 and all(map(_is_exact_command, rules)):
        return f"exactly these {len(rules)} commands"
    if len(rules) == 1:
        return _describe_cover(parse_rule(rules[0]))
    return "; ".join(
        f"exactly {parse_rule(rule).spec}" if _is_exact_command(rule) else _describe_cover(parse_rule(rule))
        for rule in rules
    )


def allows_what(text: str, rules: Sequence[Rule]) -> bool:
    """Whether allow rules cover everything that the rule `text` covers. False for an invalid text."""
    try:
        rule = parse_rule(text)
    except UsageError:
        return False
    exact = rule.spec if _is_exact_command(text) else None
    return any(
        one.text == text or (one.names(rule.tool) and (one.spec is None or (exact and one.matches_command(exact))))
        for one in rules
    )


def _is_exact_command(text: str) -> bool:
    rule = parse_rule(text)
    return rule.tool == "Bash" and rule.spec is not None and "*" not in rule.spec


def _describe_cover(rule: Rule) -> str:
    tool, spec = rule.tool, rule.spec
    if spec is None:
        return (
            "every command" if tool == "Bash" else f"every use of {tool}" if tool != "*" else "every use of every tool"
        )
    if tool == "Bash":
        prefix = re.sub(r"(?::| )\*$", "", spec)
        if "*" not in spec:
            return "exactly this command"
        return f"{prefix} with any arguments" if prefix != spec and "*" not in prefix else f"every command like {spec}"
    if tool in WRITING_TOOLS:
        return f"edits of {_path(spec)}"
    if tool in READING_TOOLS:
        return f"reading {_path(spec)}"
    if tool == "Network":
        return f"{_host(spec)} for commands without network"
    if tool == "Env":
        program, _colon, variable = spec.partition(":")
        return f"{variable} for every {program} command"
    if spec.startswith("domain:"):
        return f"fetching from {spec.removeprefix('domain:')} and its subdomains"
    if spec.startswith("private:"):
        return f"fetching from {spec.removeprefix('private:')} in your own network"
    if spec.startswith(TOOL_VERSION):
        return f"every use of {tool} until its server changes it"
    return f"{tool} calls that match {spec}"


def _host(spec: str) -> str:
    return f"every host below {spec[2:]}" if spec.startswith("*.") else f"the host {spec}"


def _path(spec: str) -> str:
    return spec[1:] if spec.startswith("//") else spec


def risk_of(rule: Rule) -> str:
    """Reason why a rule allows far more than its text suggests; empty if it does not."""
    if rule.tool == "*" or (rule.spec is None and rule.tool not in _HARMLESS_BARE):
        return f"{rule.shown} allows {_describe_cover(rule)}."
    if rule.tool != "Bash" or rule.spec is None:
        return ""
    words = re.sub(r":\*$", " *", rule.spec).split()
    program = words[0].rpartition("/")[2]
    if "*" in words[0]:
        return f"{rule.text} allows every program that matches {words[0]}."
    if not (_PYTHON.fullmatch(program) or program in _INTERPRETERS):
        return ""
    rest = words[1:]
    if rest[:1] == ["-m"] and len(rest) > 1 and "*" not in rest[1]:
        return ""
    chosen = rest if rest[:1] and rest[0].startswith("-") else rest[:1]
    return f"{rule.text} allows {program} to run any code." if not rest or any("*" in word for word in chosen) else ""


def host_of(target: str) -> str:
    """The host of a URL; empty if there is none."""
    from urllib.parse import urlsplit

    try:
        host = urlsplit(target).hostname
    except ValueError:
        return ""
    return (host or "").rstrip(".")


def is_private_host(host: str) -> bool:
    """Whether a host name belongs to a private network, by its name alone. An empty name does not."""
    from agentcli.core import addresses

    return bool(host) and addresses.is_private_host(host)
