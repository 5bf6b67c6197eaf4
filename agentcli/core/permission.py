"""Permission values: what a tool needs, and the decision about it.

A tool states its needs and never asks; the policy decides and never runs anything; front ends show the decision and
never make one. These values connect the three.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Literal

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json

NetworkAccess = Literal["default", "none", "hosts", "all"]
"""`default`: as in the settings. `hosts`: only `Grant.hosts`, through a proxy."""


Approval = Literal["mode", "rule", "answer"]
"""What allowed a call: the permission mode alone, a rule, or the user's answer."""


@frozen(kw_only=True)
class Grant:
    network: NetworkAccess = "default"
    hosts: tuple[str, ...] = ()
    """Host patterns for `network="hosts"`: `registry.npmjs.org`, `*.example.org`, `!x.example.org` to exclude one."""
    write: tuple[Path, ...] = ()
    """Files and folders outside the working directories that it may write."""
    variables: tuple[str, ...] = ()
    """Environment variables with credentials that it gets."""
    opened_names: tuple[Path, ...] = ()
    """Protected names that the user approved a write to."""
    guards_obeyed_names: bool = False
    """The user did not see this command: it must not change files that hooks, editors, builds and package managers
    obey."""
    reads_only: bool = False
    """It was proven to be read-only: its sandbox lets it change nothing and has no network, so that a wrong proof does
    no harm, and git runs no hooks and helpers for it."""
    keeps_repository: bool = False
    """Git's folder stays read-only although the command names git: other programs run in it, and undo does not cover
    that folder."""
    uncovered: tuple[Path, ...] = ()
    """Paths in the working directories that stay read-only, because undo does not cover them and nobody approved the
    command."""
    git_settings: bool = False
    """It may change the repository's own git configuration."""


ORDINARY = Grant()


class PermissionMode(StrEnum):
    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    AUTO = "auto"
    """Edits in the working directories, and sandboxed commands without network access, run without approval."""
    PLAN = "plan"
    DONT_ASK = "dontAsk"
    BYPASS = "bypassPermissions"

    @property
    def label(self) -> str:
        """Display name; the value is the spelling in flags, settings and commands."""
        return mode_label(self.value)


_LABELS = {"acceptEdits": "accept edits", "dontAsk": "don't ask", "bypassPermissions": "bypass permissions"}


def mode_label(value: str) -> str:
    """Display name of a mode by its value; also works for a mode recorded by a newer version."""
    return _LABELS.get(value, value)


TOOL_VERSION = "version:"
"""Begins the target of an MCP tool's need, and the spec of a rule for it: the digest of its definition follows."""

NeedKind = Literal["none", "read", "write", "execute", "fetch", "agent", "question", "other"]
"""`agent`: start the sub-agent of this name; each of its calls is decided separately. `question`: the call is itself a
question to the user (AskUserQuestion, ExitPlanMode). It is asked in every mode except dontAsk, whatever the rules
allow, and the tool gets the answer's `updated_input`."""


@frozen
class Need:
    """One action of a call on `target`: read or write a path, run a command, fetch a URL."""

    kind: NeedKind
    target: str = ""
    real: str = ""
    """The resolved target, if it differs from `target`. The tool touches nothing else, even if links change."""
    is_declared_read_only: bool = False
    """For `other`: the tool's author declares that it changes nothing. It needs approval like any other, but plan mode
    does not refuse it."""


Behavior = Literal["allow", "ask", "deny"]


@frozen
class PartFinding:
    """The decision about one part of a command. All text is safe to show."""

    part: str
    clause: str
    """The reason, as a clause after "because"."""
    allowed: bool

    @property
    def line(self) -> str:
        return f"{self.part}: {'allowed' if self.allowed else 'needs approval'} because {self.clause}"

    def record(self) -> Json:
        return {"part": self.part, "clause": self.clause, "allowed": self.allowed}


@frozen
class Decision:
    """A decision and its reason. `reason` is a sentence for the user; `rule` and `source` name its origin."""

    behavior: Behavior
    reason: str
    rule: str = ""
    source: str = ""
    findings: tuple[PartFinding, ...] = ()
    """Findings for each part of a command."""
    cause: str = ""
    """Why approval is needed, as a clause after "because". Empty if `reason` is a complete statement."""
    part: str = ""
    """The part that the reason names, if the command has several."""
    cause_listed: bool = False
    """Whether the cause is the clause of one of the findings."""
    self_evident: bool = False
    """Whether the reason says only that such a call needs approval."""
    protected: bool = False
    """Whether a protected path is the reason, so that rewriting the command would not help."""
    denied_by: str = ""
    """What denies the call, for the user: `rule Bash(rm *) from settings.json`, `plan mode`. `reason` is for the model
    too."""

    @property
    def needs_user(self) -> bool:
        """Whether only the user may approve: a rule asks, or the path is protected. A hook's allow is not enough."""
        return bool(self.rule) or self.protected

    @property
    def details(self) -> tuple[str, ...]:
        return tuple(finding.line for finding in self.findings)

    def explanation(self) -> Json:
        """The fields of a `PermissionRequested` that say why the call needs approval."""
        return {
            "reason": self.reason,
            "details": list(self.details),
            "findings": [finding.record() for finding in self.findings],
            "cause": self.cause,
            "cause_listed": self.cause_listed,
            "self_evident": self.self_evident,
        }


@frozen
class RuleChoice:
    """Allow rules that one "always" answer would save together. Verified: with them the call runs without approval."""

    rules: tuple[str, ...]
    covers: str
    """For the user: `exactly this command`, `pytest with any arguments`."""
    note: str = ""
    """A further note for the user; may be empty."""

    def record(self) -> Json:
        return {"rules": list(self.rules), "covers": self.covers, "note": self.note}


SaveTo = Literal["session", "local", "project", "user"]


@frozen
class Answer:
    """An answer to a permission question, by the user or a program. Passed to `Engine.answer`."""

    behavior: Literal["allow", "deny"]
    message: str = ""
    """The user's words for the model: the reason for a denial, or an instruction with an approval. They follow the
    results as a message of the user. With `accepted_hunks` it is a report and becomes part of the result."""
    updated_input: Json | None = None
    rules: tuple[str, ...] = ()
    """Allow rules to add for the rest of the session, e.g. `Bash(npm test)`."""
    save_to: SaveTo = "session"
    """Where the rules are stored; anything but `session` is a settings file."""
    mode: PermissionMode | None = None
    """Switch to this mode with the answer (approving a plan, "accept all edits")."""
    interrupt: bool = False
    """For a denial: end the submission too."""
    accepted_hunks: tuple[int, int] | None = None
    """For a partly accepted change: accepted and total number of hunks."""
