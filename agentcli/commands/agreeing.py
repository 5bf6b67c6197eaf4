"""Changes that make the prompt cache useless: what that costs is said before they are made.

In an interactive session the user is asked when the price is at or above the setting `confirmCostAbove`; a `now` at
the end of the line says yes beforehand, as the pickers do, which have shown the price. Otherwise the change is made,
and its price is reported with it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from agentcli.agent.engine import Engine
from agentcli.agent.profile import Profile
from agentcli.commands.base import say
from agentcli.core.events import Event
from agentcli.core.plaintext import plain_line

NOW_HELP = "If re-reading the context costs confirmCostAbove or more, you are asked first; now skips the question."
LEFT = "Cancelled. Nothing was changed."


def without_now(arguments: str) -> tuple[str, bool]:
    """The arguments without a `now` at their end, and whether there was one."""
    rest, _blank, last = arguments.rstrip().rpartition(" ")
    return (rest.rstrip(), True) if rest and last.lower() == "now" else (arguments, False)


class Agreement:
    """Whether `profile` is to be used from now on. `run()` yields what happened; then it is `given` or not, and `note`
    is what the words about the change end with: its price, if that was not said before."""

    def __init__(self, engine: Engine, profile: Profile, question: str, *, at_once: bool = False) -> None:
        self._engine, self._profile = engine, profile
        self._price = engine.context.price_of_change(profile)
        self._question = question
        self._at_once = at_once
        self.given = True
        self.note = f" {self._price.note}" if self._price.note else ""

    @property
    def is_a_change(self) -> bool:
        return self._engine.profile != self._profile

    async def run(self) -> AsyncGenerator[Event, None]:
        if self._at_once or not self._price.needs_confirmation(self._engine.confirm_cost_above):
            return
        text = f"This {self._price.text}: the cached context cannot be reused."
        display = {"kind": "confirm", "text": text, "yes": "Change it", "no": "Do not change it"}
        asking = self._engine.question(self._question, f"This {self._price.text}.", display)
        if asking is None:
            return
        async with aclosing(asking.run()) as events:
            async for event in events:
                yield event
        self.given = asking.answer is not None and asking.answer.behavior == "allow"
        self.note = ""


async def changed_if_agreed(
    agreement: Agreement, change: Callable[[], None], report: Callable[[], str]
) -> AsyncGenerator[Event, None]:
    """Make the change if it is agreed to, and say what holds then. `report` is called after the change."""
    async with aclosing(agreement.run()) as events:
        async for event in events:
            yield event
    if not agreement.given:
        yield say(LEFT)
        return
    note = agreement.note if agreement.is_a_change else ""
    change()
    yield say(plain_line(report() + note, 500))
