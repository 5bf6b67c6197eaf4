"""Suggest allow rules that would avoid a permission question. Nothing is applied here.

Development tools of everyday work (`find_known_prefix`) are offered with a star first, because a test run differs from
the next one in its arguments, and exactly as second choice. Every other program is offered exactly: nearly each has an
option by which later arguments choose what runs, what is deleted or where data is sent. An interpreter or a shell is
never offered without its arguments, and one that takes its program from standard input has no rule at all. Every set
of rules is put to the policy before it is offered: with it the call must be allowed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.core.frozen import frozen
from agentcli.core.permission import TOOL_VERSION, Need, RuleChoice
from agentcli.core.text.patterns import escape_glob
from agentcli.permissions.command_grant import written_paths
from agentcli.permissions.rules import describe_cover, host_of, is_private_host, rule_text
from agentcli.sandbox.secrets import holds_credentials
from agentcli.shell.commands.command_parts import CommandPart
from agentcli.shell.parser.programs import RUN_OTHERS, is_interpreter, runs_input

if TYPE_CHECKING:
    from agentcli.permissions.call_review import CallReview

Words = tuple[str, ...]
Prefix = Callable[[Words], Words | None]
_RUNS_CODE = "It can run the project's own code."


@frozen
class Suggestions:
    review: CallReview
    given: tuple[Need, ...]
    """The needs as the tool declared them."""

    def exact(self) -> list[str]:
        """The narrowest rules, one per part of a command; none if no rules can cover the call."""
        return self._verify(self._rules(lambda _words: None))

    def prefix(self) -> list[str]:
        """The narrowest wildcard rules for similar calls (`Bash(npm test *)`); the exact rules if a wildcard covers too
        much."""
        return self._verify(self._rules(any_prefix)) or self.exact()

    def choices(self) -> list[RuleChoice]:
        """Rules that an "always" answer can save: prefixes of known programs, then the exact call, then wider ones."""
        exact, wider = self.exact(), self._verify(self._rules(find_known_prefix))
        versioned = any(need.target.startswith(TOOL_VERSION) for need in self.given)
        note = "A tool that its server changes asks again." if versioned else ""
        found = [RuleChoice(tuple(exact), self._exactly(), note)] if exact else []
        if wider and wider != exact:
            found.insert(0, RuleChoice(tuple(wider), describe_cover(wider), _RUNS_CODE))
        if (server := self._whole_server()) is not None:
            found.append(server)
        signed_in = self._with_credentials(exact)
        return [*found, signed_in] if signed_in is not None else found

    def _whole_server(self) -> RuleChoice | None:
        """One rule for all tools of the MCP server."""
        prefix, server, tool = (*self.review.call.tool_name.split("__", 2), "", "")[:3]
        if prefix != "mcp" or not tool:
            return None
        rules = self._verify([f"mcp__{server}"])
        note = "It includes tools that the server adds or changes later."
        return RuleChoice(tuple(rules), f"all tools of the MCP server {server}", note) if rules else None

    def _with_credentials(self, exact: list[str]) -> RuleChoice | None:
        """The exact command plus its program's sign-in variables, if they are set."""
        given = self.review.credential_rules()
        if not exact or not given:
            return None
        # `Env(gh:GH_TOKEN)`
        program, names = given[0][4:].partition(":")[0], [rule.partition(":")[2].removesuffix(")") for rule in given]
        note = f"Every {program} command gets it then."
        return RuleChoice((*exact, *given), f"{self._exactly()}, with {_list_names(names)}", note)

    def _exactly(self) -> str:
        kinds = {need.kind for need in self.given}
        if kinds == {"execute"}:
            return "exactly this command"
        if kinds <= {"read", "write"} and self.given:
            return (
                f"{'edits' if 'write' in kinds else 'reading'} of {_list_names([need.target for need in self.given])}"
            )
        if kinds == {"fetch"}:
            return f"pages of {_list_names([host_of(need.target) or need.target for need in self.given])}"
        return f"every use of {self.review.call.tool_name}"

    # --------------------------------------------------------------------------------------------------- the rules

    def _verify(self, rules: list[str]) -> list[str]:
        """The rules, if they would allow the call; otherwise none."""
        if not rules:
            return []
        call = self.review.call
        changed = self.review.policy.with_allowed(rules, "an answer")
        decision = changed.decide(call.tool_name, {}, self.given, call.cwd, call.working_dirs)
        return rules if decision.behavior == "allow" else []

    def _rules(self, prefix: Prefix) -> list[str]:
        call = self.review.call
        rules: list[str] = []
        for need in call.needs:
            if self.review.rules_covering(need) is not None:
                continue
            if need.kind != "execute":
                rules += for_need(call.tool_name, need, call.home)
                continue
            for part in self._open_parts(need.target):
                rules += self._part_rules(part, prefix)
        return list(dict.fromkeys(rules if call.needs else [call.tool_name]))

    def _open_parts(self, command: str) -> list[CommandPart]:
        verdicts = self.review.verdicts(command)
        return [verdict.part for verdict in verdicts if not verdict.allowed and verdict.part is not None]

    def _needs_rule(self, part: CommandPart) -> bool:
        review = self.review
        return part.objection is not None and review.rule_for(part) is None and not review.changes_accepted(part)

    def _part_rules(self, part: CommandPart, prefix: Prefix) -> list[str]:
        rules: list[str] = []
        if self._needs_rule(part):
            # A wildcard rule does not cover paths outside the working directories, so the hint must be exact.
            outside = any(not self.review.call.is_inside(str(path)) for path in written_paths(part))
            words = prefix(part.inner) if not runs_input(part.inner) and not outside else None
            if words is None:
                rules += for_part(self.review.call.tool_name, part)
            else:
                rules.append(rule_text(self.review.call.tool_name, f"{' '.join(words)} *"))
        for redirection in part.command.redirections:
            if redirection.kind == "write" and isinstance(self.review.redirection_rule(redirection.target, part), str):
                for folder in part.folders:
                    need = Need("write", os.path.normpath(Path(folder, redirection.target)))
                    rules += for_need("Edit", need, self.review.call.home)
        return rules


def for_need(tool_name: str, need: Need, home: Path | None) -> list[str]:
    if need.kind in ("read", "write"):
        if home is not None and holds_credentials(need.target, str(home)):
            return []
        return [rule_text("Read" if need.kind == "read" else "Edit", f"/{escape_glob(need.target)}")]
    if need.kind == "fetch":
        host = host_of(need.target)
        if not host:
            return [tool_name]
        return [rule_text(tool_name, f"{'private' if is_private_host(host) else 'domain'}:{host}")]
    # For these tools every name is a separate permission, and for MCP tools every version.
    named = need.target and (tool_name in ("Task", "Skill") or need.target.startswith(TOOL_VERSION))
    return [rule_text(tool_name, need.target) if named else tool_name]


def for_part(tool_name: str, part: CommandPart) -> list[str]:
    """Rules for one part of a command; empty if no rule can cover it."""
    text = part.inner_text if not part.extended else part.command.text
    # A literal star would become a wildcard in the rule.
    if "*" in text or "\n" in text or runs_input(part.inner):
        return []
    return [rule_text(tool_name, text)]


def _list_names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


PYTHON_TOOLS = frozenset({"pytest", "mypy", "ruff", "black", "isort", "flake8", "pylint", "pyright", "tox", "nox"})
NODE_TOOLS = frozenset({"jest", "vitest", "eslint", "tsc", "prettier", "biome", "mocha", "stylelint"})
_FURTHER = frozenset({"make", "gmake", "ninja", "ctest", "rspec", "phpunit", "golangci-lint", "shellcheck"})
_ALONE = PYTHON_TOOLS | NODE_TOOLS | _FURTHER
_SUB_COMMANDS = {
    "npm": r"test|t|ci|run(?:-script)?",
    "pnpm": r"test|run|lint|build",
    "yarn": r"test|run|lint|build",
    "bun": r"test|run",
    "cargo": r"test|build|check|clippy|fmt|doc|bench|nextest",
    "go": r"test|build|vet|fmt",
    **dict.fromkeys(("gradle", "gradlew"), r"test|build|check|assemble"),
    **dict.fromkeys(("mvn", "mvnw"), r"test|compile|package|verify"),
    "dotnet": r"test|build|format",
    "swift": r"test|build",
    "flutter": r"test|analyze",
    "deno": r"test|lint|fmt|check",
    "mix": r"test|compile|format",
    "cmake": r"--build",
    "pre-commit": r"run",
    "git": r"add|commit",
    "composer": r"test",
}
_RUNS_SCRIPT = frozenset({("npm", "run"), ("npm", "run-script"), ("pnpm", "run"), ("yarn", "run"), ("bun", "run")})
"""Commands followed by a script name, which belongs to the prefix."""
_RUNNERS = frozenset(
    {("uv", "run"), ("poetry", "run"), ("pipenv", "run"), ("pdm", "run"), ("hatch", "run"), ("bundle", "exec")}
    | {("npx",), ("pnpm", "exec"), ("yarn", "exec"), ("bunx",)}
)
"""Commands that run a tool of the project's own environment."""
_ENVIRONMENT = re.compile(r"(?:[\w./@+-]*/)?(?:\.venv|venv|env)/bin/(?P<program>[\w.-]+)")
_LOCAL_NODE = re.compile(r"(?:\./)?node_modules/\.bin/(?P<program>[\w.-]+)")
_PLAIN = re.compile(r"[A-Za-z0-9_./:@+-]+")


_NEVER = re.compile(
    r"curl|wget|http|scp|sftp|rsync|rm|rmdir|unlink|shred|dd|mkfs\S*|find|fd|sed|awk|gawk|mawk|eval|source|\.|trap|alias|export"
    r"|set|git|chmod|chown|ln|kill|pkill|killall|crontab|at|systemctl|service|mount|umount|apt|apt-get|brew|pip|pip3|pipx|gh"
    r"|aws|gcloud|az|terraform|helm|ansible\S*|tar|unzip|tee|cp|mv|jq|rg|grep|cat|less|vim?|nano|emacs|open|xdg-open|cd"
)


def find_known_prefix(words: Words) -> Words | None:
    """The words before the wildcard of a rule, if the program is a common development tool; otherwise None."""
    if not _PLAIN.fullmatch(words[0]):
        return None
    for length in (2, 1):
        if words[:length] in _RUNNERS and len(words) > length:
            inner = find_known_prefix(words[length:])
            return (*words[:length], *inner) if inner is not None else None
    program = words[0].removeprefix("./")
    local = _ENVIRONMENT.fullmatch(words[0]) or _LOCAL_NODE.fullmatch(words[0])
    if local is not None:
        program = local["program"]
    if re.fullmatch(r"python[\d.]*", program):
        is_tool = words[1:2] == ("-m",) and len(words) > 2 and words[2] in PYTHON_TOOLS
        return words[:3] if is_tool else None
    if program in _ALONE and (local is not None or "/" not in words[0]):
        return words[:1]
    commands = _SUB_COMMANDS.get(program)
    if commands is None or len(words) < 2 or not re.fullmatch(commands, words[1]):
        return None
    if words[:2] not in _RUNS_SCRIPT:
        return words[:2]
    # Some of them also run a file given as a path.
    named = len(words) > 2 and re.fullmatch(r"\w[\w:-]*", words[2]) is not None
    return words[:3] if named else None


def any_prefix(words: Words) -> Words | None:
    """Like `find_known_prefix`, for any program that may have a wildcard at all. For hints that the user reads before
    using."""
    known = find_known_prefix(words)
    program = words[0].rpartition("/")[2]
    if known is not None:
        return known
    refused = is_interpreter(program) or RUN_OTHERS.fullmatch(program) or _NEVER.fullmatch(program)
    return None if refused or not _PLAIN.fullmatch(words[0]) else words[:1]
