"""What a tool needs, and the decision about it.

A tool states its needs and never asks; the policy decides and never runs anything; front ends show the decision and
never make one. These values connect the three.
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
    """Edits in the working directories, and sandboxed commands without network access, run without approval."""
    PLAN = "plan"
    DONT_ASK = "dontAsk"
    BYPASS = "bypassPermissions"


NeedKind = Literal["none", "read", "write", "execute", "fetch", "question", "other"]
"""`question`: the call is itself a question to the user (AskUserQuestion, ExitPlanMode). It is asked in every mode
except dontAsk, whatever the rules allow, and the tool gets the answer's `updated_input`."""


@frozen
class Need:
    """One action of a call on `target`: read or write a path, run a command, fetch a URL."""

    kind: NeedKind
    target: str = ""
    real: str = ""
    """The target of links when the need was stated, if it differs from `target`. The tool then touches nothing else,
    even if the links change (S4)."""


Behavior = Literal["allow", "ask", "deny"]


@frozen
class Decision:
    """A decision and its reason. `reason` is a sentence for the user; `rule` and `source` name its origin."""

    behavior: Behavior
    reason: str
    rule: str = ""
    source: str = ""
    details: tuple[str, ...] = ()
    """Reasons part by part, if there are several."""


@frozen
class RuleChoice:
    """Allow rules that one "always" answer would save together, and what they cover. Verified: with them the call runs
    without approval."""

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
    """Message for the model: the reason for a denial, or a comment with an approval (added to the result)."""
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
