"""The budget, the warning before it, and the question at it: nothing more is sent until the user has raised it.

Asked before a request, never during one: the current reply is finished, the log is complete, and after a raise the work
continues where it was. A non-interactive submission ends, as it does when the user declines.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from agentcli.agent.ports import EmitEvent
from agentcli.agent.user_input import UserQuestion
from agentcli.core.abort import Aborted, AbortReason, AbortSignal
from agentcli.core.messages import Json
from agentcli.core.permission import Answer
from agentcli.core.text.format import money
from agentcli.core.usage import Totals

if TYPE_CHECKING:
    from agentcli.agent.session import Session

WARN_AT = 0.8
"""Share of the budget at which the user is warned, once."""
STOP = "Stop here"
LIFT = "Continue without a budget"
_AMOUNT = re.compile(r"\$?\s*(\d{0,9}(?:\.\d{0,6})?)\s*(?:usd|dollars?|\$)?", re.IGNORECASE)

Ask = Callable[[str, str, Json, Json], UserQuestion | None]
"""Makes a question for the user from title, reason, display and input; None: non-interactive."""


class Budget:
    """The most that a conversation may cost in this process, and whether the user has been warned."""

    def __init__(self, cap: float | None, totals: Callable[[], Totals], *, interactive: bool = False) -> None:
        self.cap = cap
        """The limit in dollars; None: no limit."""
        self.totals = totals
        self._interactive = interactive
        self.asking = asyncio.Lock()
        """Held while the user is asked: several agents may reach the budget at the same time."""
        self._warned = False

    def set(self, cap: float | None) -> None:
        """Set the limit in dollars; None: no limit. A new limit warns again."""
        self.cap = cap
        self._warned = False

    @property
    def is_spent(self) -> bool:
        """Whether nothing more may be sent. An unknown cost counts as over the budget, never as zero."""
        totals = self.totals()
        return self.cap is not None and (totals.cost_usd >= self.cap or not totals.fully_priced)

    def take_warning(self) -> str | None:
        """A warning when most of the budget is spent, once."""
        totals = self.totals()
        if self.cap is None or self._warned or self.is_spent or totals.cost_usd < self.cap * WARN_AT:
            return None
        self._warned = True
        then = "you are asked whether to continue" if self._interactive else "the run stops"
        return f"{money(totals.cost_usd)} of the budget of {money(self.cap)} is spent. At the budget {then}."

    @property
    def reason(self) -> str:
        """Why nothing more is sent."""
        totals = self.totals()
        if totals.fully_priced:
            return f"Reached maximum budget (${self.cap or 0:g})"
        unpriced = ", ".join(name for name, used in totals.by_model.items() if used.unpriced_requests)
        return (
            f"The price of {unpriced} is unknown, so the budget of {money(self.cap or 0)} cannot be enforced. "
            'Set its price in the settings ("models") or leave the budget out.'
        )

    @property
    def text(self) -> str:
        """Why nothing more is sent, and what to do."""
        text, totals = self.reason, self.totals()
        if not self._interactive:
            return text
        more = f"/budget {raised(self.cap or 0.0, totals.cost_usd):g}" if totals.fully_priced else "/budget off"
        return f"{text}. Nothing is lost: {more} raises it, /budget off removes it; then send a prompt."


def raised(cap: float, spent: float) -> float:
    """A new limit to offer: twice the old one, and in any case more than what is spent; in whole cents."""
    return math.ceil(max(cap * 2, spent * 1.2) * 100 - 1e-6) / 100


async def ask_about_budget(session: Session, signal: AbortSignal) -> None:
    """Before a request: when the budget is spent, ask the user; abort the submission unless they raise it."""
    budget = session.costs.budget
    if not budget.is_spent or signal.aborted:
        return

    def ask(title: str, reason: str, display: Json, input: Json) -> UserQuestion | None:
        return session.question(title, reason, display, input, signal)

    try:
        await signal.acquire(budget.asking)
    except Aborted:
        return
    try:
        await BudgetQuestion(budget, ask).ask(session.emit)
    finally:
        budget.asking.release()
    if budget.is_spent:
        session.abort(AbortReason.BUDGET)


class BudgetQuestion:
    """`ask()` raises, lifts or keeps the budget."""

    def __init__(self, budget: Budget, ask: Ask) -> None:
        self._budget = budget
        self._ask = ask
        self._offers: dict[str, float] = {}
        """Caps in dollars by the labels of their options."""

    async def ask(self, emit: EmitEvent) -> None:
        problem = ""
        while self._budget.is_spent:
            question = self._question(problem)
            shown = {"kind": "questions", "questions": [question], "other": "Another amount like $5, or off"}
            asking = self._ask(question["question"], question["question"], shown, {"questions": [question]})
            if asking is None:
                return
            said = _read_answer(await asking.ask(emit), question["question"])
            if not said or said.lower() in (STOP.lower(), "stop", "no"):
                return
            problem = self._take(said)

    def _question(self, problem: str) -> Json:
        totals, cap = self._budget.totals(), self._budget.cap or 0.0
        spent = money(totals.cost_usd)
        if totals.fully_priced:
            offered = raised(cap, totals.cost_usd)
            text = f"The budget of {money(cap)} is spent ({spent})."
            go_on = f"Raise it to {money(offered)} and continue"
            self._offers[go_on] = offered
            about = "The task continues."
        else:
            text, go_on, about = self._budget.reason, LIFT, "Further costs have no limit."
        options = [
            {"label": go_on, "description": about},
            {"label": STOP, "description": "Nothing is lost: a later prompt can continue."},
        ]
        return {"question": f"{problem} {text}".strip(), "header": "Budget", "options": options, "multiSelect": False}

    def _take(self, said: str) -> str:
        """Apply the user's answer; returns the problem with it, "" if there is none."""
        totals = self._budget.totals()
        if said == LIFT or said.lower() in ("off", "none"):
            self._budget.set(None)
            return ""
        wanted = self._offers.get(said) or dollars(said)
        if wanted is None:
            return f"“{said[:40]}” is not an amount in dollars."
        if wanted <= totals.cost_usd:
            return f"{money(wanted)} is not more than you have spent."
        self._budget.set(wanted)
        return ""


def _read_answer(answer: Answer | None, question: str) -> str:
    if answer is None or answer.behavior != "allow":
        return ""
    answers = (answer.updated_input or {}).get("answers")
    return str(answers.get(question, "")).strip() if isinstance(answers, dict) else ""


def dollars(text: str) -> float | None:
    """Parse an amount as people write it: `5`, `$0.50`, `2 dollars`; None for anything else, and for zero."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None or not any(character.isdigit() for character in match[1]):
        return None
    amount = float(match[1])
    return amount if amount > 0 and math.isfinite(amount) else None
