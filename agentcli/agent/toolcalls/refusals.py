"""The wording of refused calls: why one was refused with nobody to ask, and advice when it is refused again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from agentcli.core.messages import Json
from agentcli.core.permission import Decision
from agentcli.core.plaintext import plain_line

_LONGEST_TITLE = 120
_PREFIXES = ("Needs approval: ", "Needs approval in every mode: ")
_FINAL = re.compile(r"\ba protected path\b")
"""A reason that holds however a command is written."""
_PART = re.compile(r" \(in `(.+)`\)\Z", re.DOTALL)
"""The part of a command that a reason is about."""
_REWRITES = (
    (re.compile(r"<<"), "Write the text to a file with the Write tool and name that file instead of a here-document"),
    (re.compile(r"\n"), "Write it as one line, or as several calls"),
    (
        re.compile(r"\|&?\s*(?:env\s+)?(?:ba|da|z|k)?sh\b|\|&?\s*(?:env\s+)?(?:python|perl|ruby|node|php)[\d.]*\b"),
        "Write the script to a file and run that file instead of piping into an interpreter",
    ),
    (re.compile(r"\$|`"), "Write the values themselves instead of variables and substitutions"),
    (re.compile(r"[*?]|\["), "Name the files instead of using wildcards"),
)


def allow_flag(rules: Sequence[str]) -> str:
    """The flag that allows these rules, ready to be pasted into a shell."""
    return f"--allowedTools {shlex.quote(','.join(rules))}"


def unattended_refusal(title: str, input: Json, decision: Decision, rules: Sequence[str]) -> str:
    """Why a call was refused with nobody to ask, and what would let it run. `rules`: those that would, if any can."""
    what = f"Refused `{plain_line(title, _LONGEST_TITLE)}`: {_cause(decision.reason)}, and nobody is there to ask."
    part = _part_advice(decision.reason)
    if rules:
        return f"{what}{part} The user can allow such calls with {allow_flag(rules)}."
    if decision.rule:
        return f"{what} An allow rule does not change that."
    command = input.get("command")
    if not isinstance(command, str) or _FINAL.search(decision.reason):
        return f"{what} No rule can allow it."
    advice = next((text for pattern, text in _REWRITES if pattern.search(command)), "")
    if not advice and not re.search(r"[;&|]", command):
        return f"{what} No rule can allow it."
    if not advice and part:
        return f"{what} No rule can cover it as it is written.{part}"
    advice = advice or "Run its parts as separate calls"
    return f"{what} No rule can cover it as it is written. {advice}: a rule may cover that, or it still needs approval."


def _part_advice(reason: str) -> str:
    """What to do with the rest of a command when the reason names one part of it."""
    found = _PART.search(reason)
    if found is None:
        return ""
    return f" `{found[1]}` needs approval: run the other parts without it, as far as they need none."


def refused_again(name: str, times: int) -> str:
    """Advice for the model after the same call was refused several times."""
    return (
        f"{plain_line(name, 128)} was refused {times} times in a row with the same input, and will be refused again. "
        "Use another tool or an input that needs no approval, or leave this step out and say in a sentence what is "
        "missing."
    )


def _cause(reason: str) -> str:
    for prefix in _PREFIXES:
        if reason.startswith(prefix):
            return f"it needs approval because {reason.removeprefix(prefix).rstrip('.')}"
    return reason.rstrip(".") or "it needs approval"
