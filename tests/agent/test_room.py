"""The room there is in a context, while it becomes known."""

from __future__ import annotations

from agentcli.agent.profile import Profile
from agentcli.core.abort import AbortController
from agentcli.providers.catalog import UNKNOWN_WINDOW, Catalog
from tests.support.fakes import bench
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
