"""The room there is in a context, while it becomes known."""

from __future__ import annotations

from agentcli.agent.profile import Profile
from agentcli.core import events as ev
from agentcli.core.abort import AbortController
from agentcli.providers.catalog import UNKNOWN_WINDOW, Catalog
from tests.support.curating import looking
from tests.support.fakes import bench, only
from tests.support.scripts import call, reply
from tests.support.virtual import run_virtual

MODEL = "local/tiny-7b"


def test_a_window_that_becomes_known_holds_at_once_also_for_what_runs() -> None:
    async def main() -> None:
        catalog = Catalog()
        b = bench(profile=Profile(model=MODEL, small_model="x"), catalog=catalog)
        async with b.engine:
            parts = b.engine._loop_parts(AbortController())
            assert (parts.context.window, parts.context.reserved) == (UNKNOWN_WINDOW, 8_192)
            catalog.note_listed(MODEL, 8_192)
            assert (parts.context.window, parts.context.usable) == (8_192, 4_096)

    run_virtual(main)


def test_a_smaller_model_that_is_chosen_in_the_middle_of_a_submission_has_its_own_limits() -> None:
    """Else the next request would be one that it cannot take."""
    full = {"input_tokens": 300_000, "output_tokens": 10}

    async def main() -> None:
        catalog = Catalog()
        catalog.note_listed(MODEL, 100_000)
        first = reply(call("Look", what="far"), usage=full)
        b = bench(first, "A summary.", "Done.", tools=[looking()], catalog=catalog)
        events: list[ev.Event] = []
        async with b.engine:
            async for event in b.engine.submit("go"):
                events.append(event)
                if isinstance(event, ev.MessageAppended) and event.message.tool_uses:
                    b.engine.set_model(MODEL)
            parts = b.engine._loop_parts(AbortController())
            assert (parts.compacting.window, parts.price) == (100_000, None)
            assert parts.limits.raised_output_cap == min(64_000, catalog.get(MODEL).max_output)
        asked = [(event.model, event.purpose) for event in only(events, ev.RequestStarted)]
        assert asked == [("claude-sonnet-5-5", "turn"), (MODEL, "compact"), (MODEL, "turn")]

    run_virtual(main)
