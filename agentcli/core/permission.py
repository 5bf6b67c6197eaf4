"""What a tool says it needs, and what was decided about it.

A tool states its needs and never asks; the policy decides and never runs anything; front ends show the decision
and never make one. These values are the language between the three.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json


class PermissionMode(StrEnum):
    DEFAULT = "default"
    ACCEPT_EDITS = "acceptEdits"
    AUTO = "auto"
    """Edits in the working directories, and commands inside a sandbox without network, run without a question."""
    PLAN = "plan"
    DONT_ASK = "dontAsk"
    BYPASS = "bypassPermissions"


NeedKind = Literal["none", "read", "write", "execute", "fetch", "question", "other"]
"""`question`: the call is itself a question to the person (AskUserQuestion, ExitPlanMode). It is asked in every mode
but dontAsk, whatever the rules allow, and the answer's `updated_input` is what the tool then works with."""


@frozen
class Need:
    """One thing a call would do to `target`: read or write it (a path), run it (a command), fetch it (a URL)."""

    kind: NeedKind
    target: str = ""
    real: str = ""
    """What a path led to through links when the need was stated, if that is not `target` itself. The tool then touches
    nothing else, whatever becomes of the links until it runs (S4)."""


Behavior = Literal["allow", "ask", "deny"]


@frozen
class PartFinding:
    """What was decided about one part of a command. All text is safe to show."""

    part: str
    """The part's own text."""
    clause: str
    """Why; reads on after "because"."""
    allowed: bool

    @property
    def line(self) -> str:
        return f"{self.part}: {'allowed' if self.allowed else 'needs approval'} because {self.clause}"

    def record(self) -> Json:
        return {"part": self.part, "clause": self.clause, "allowed": self.allowed}


@frozen
class Decision:
    """What was decided and why. `reason` is a sentence for people; `rule` and `source` name what decided."""

    behavior: Behavior
    reason: str
    rule: str = ""
    source: str = ""
    findings: tuple[PartFinding, ...] = ()
    """About each part of a command."""
    cause: str = ""
    """Why approval is needed; reads on after "because". Empty where `reason` is a statement of its own."""
    part: str = ""
    """The part of a command of several that the reason names."""
    cause_listed: bool = False
    """Whether the cause is the clause of one of the findings."""
    self_evident: bool = False
    """Whether the reason says only that such a call needs approval."""
    protected: bool = False
    """Whether a protected path is the reason, which another spelling of the command does not change."""

    @property
    def details(self) -> tuple[str, ...]:
        """The findings, one line each."""
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
    """Allow rules that one "always" answer would save together, and what they cover. Verified: with them the call
    runs without a question."""

    rules: tuple[str, ...]
    covers: str
    """For people: `exactly this command`, `pytest with any arguments`."""
    note: str = ""
    """What else to know before saving them; may be empty."""

    def record(self) -> Json:
        return {"rules": list(self.rules), "covers": self.covers, "note": self.note}


SaveTo = Literal["session", "local", "project", "user"]


@frozen
class Answer:
    """A person's (or a program's) answer to a permission question. Goes in through `Engine.answer`."""

    behavior: Literal["allow", "deny"]
    message: str = ""
    """What to tell the model: why not, or what comes with the yes (it is added to the result)."""
    updated_input: Json | None = None
    rules: tuple[str, ...] = ()
    """Allow rules to add for the rest of the session, e.g. `Bash(npm test)`."""
    save_to: SaveTo = "session"
    """Where the rules are kept; anything but `session` is written to a settings file."""
    mode: PermissionMode | None = None
    """Switch to this mode with the answer (approving a plan, "accept all edits")."""
    interrupt: bool = False
    """On a denial: end the submission too."""
    accepted_hunks: tuple[int, int] | None = None
    """Of a change that is accepted in part: how many hunks, and of how many."""
