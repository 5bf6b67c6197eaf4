"""Changes that invalidate the prompt cache: shows what they cost before they are made.

In an interactive session the user is asked if the price is at least the setting `confirmCostAbove`. A `now` at the end
of the line skips the question; the pickers add it, because they have shown the price. Otherwise the change is made and
its price reported.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from agentcli.agent.engine import Engine
from agentcli.agent.profile import Profile
from agentcli.commands.base import say
from agentcli.core.events import Event
from agentcli.core.text.plaintext import plain_line

NOW_HELP = "If re-reading the context costs confirmCostAbove or more, you are asked first; now skips the question."


def without_now(arguments: str) -> tuple[str, bool]:
    """Remove a `now` from the end of the arguments; also returns whether there was one."""
    rest, _blank, last = arguments.rstrip().rpartition(" ")
    return (rest.rstrip(), True) if rest and last.lower() == "now" else (arguments, False)


async def change_if_confirmed(
    engine: Engine,
    profile: Profile,
    question: str,
    change: Callable[[], None],
    report: Callable[[], str],
    unchanged: str,
    *,
    at_once: bool,
) -> AsyncGenerator[Event, None]:
    """Change to `profile` if the user agrees, then yield the text of `report`, which is called after the change.

    `unchanged`: the sentence after a no, such as "The effort is still high."
    """
    price = engine.context.price_of_change(profile)
    note = f" {price.note}" if price.note and engine.profile != profile else ""
    if not at_once and price.needs_confirmation(engine.confirm_cost_above):
        text = f"This {price.text}: the cached context cannot be reused."
        display = {"kind": "confirm", "text": text, "yes": "Change it", "no": "Do not change it"}
        if (asking := engine.question(question, f"This {price.text}.", display)) is not None:
            async with aclosing(asking.run()) as events:
                async for event in events:
                    yield event
            if asking.answer is None or asking.answer.behavior != "allow":
                yield say(f"Cancelled. {unchanged}")
                return
            note = ""
    change()
    yield say(plain_line(report() + note, 500))
