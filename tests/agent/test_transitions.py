"""The state says why an iteration exists, with the data of its transition (SPEC L4, 2.7)."""

from __future__ import annotations

from typing import Any

import pytest

from agentcli.agent.loop_state import Continue, LoopState, Transition
from agentcli.agent.ports import Extensions, Hooks, StopVerdict
from agentcli.agent.profile import Bounds
from agentcli.core import events as ev
from tests.agent.test_scenarios import Staged
from tests.context.logs import Talk
from tests.support.fakes import FakeTool, bench, only
from tests.support.scripts import call_with_id, fails, reply
from tests.support.tables import each_row

pytestmark = pytest.mark.virtual

TOO_LONG = fails(400, "prompt is too long: 250000 tokens > 200000 maximum")
CUT = reply("Cut", stop_reason="max_tokens")
USED = {"input_tokens": 10, "output_tokens": 600}


class Watching(Hooks):
    """Sees the state of the iteration that is about to end the submission."""

    def __init__(self, *verdicts: StopVerdict) -> None:
        self.verdicts = list(verdicts)
        self.seen: list[Continue | None] = []

    async def before_stop(self, state: LoopState) -> StopVerdict:
        self.seen.append(state.transition)
        return self.verdicts.pop(0) if self.verdicts else StopVerdict()


@each_row(
    ("replies", "rest", "transition", "data"),
    [
        ([reply(call_with_id("a", "Look"), call_with_id("b", "Look"))], {}, "next_turn", {"results": ["a", "b"]}),
        ([TOO_LONG], {"collapser": Staged(3)}, "collapse_drain_retry", {"committed": 3}),
        ([TOO_LONG, "A summary."], {}, "reactive_compact_retry", {"summary": "A summary."}),
        ([CUT], {}, "max_output_tokens_escalate", {"cap": 64_000}),
        ([CUT, CUT], {}, "max_output_tokens_recovery", {"attempt": 1, "of": 3}),
        (["Done?"], {"errors": ("Not yet.",)}, "stop_hook_blocking", {"errors": ["Not yet."]}),
        ([reply("Done?", usage=USED)], {"target": 1_000}, "token_budget_continuation", {"remaining": 400}),
    ],
)
async def test_the_state_carries_the_transition_and_its_data(
    replies: list[Any], rest: dict[str, Any], transition: str, data: dict[str, Any]
) -> None:
    errors = rest.pop("errors", None)
    hooks = Watching(*[StopVerdict(errors=errors)] if errors else [])
    bounds = Bounds(token_target=rest.pop("target", None))
    before = Talk()
    before.prompt("before")
    before.answer("Something long that was said before. " * 40)
    last = reply("Done.", usage=USED)
    extensions = Extensions(hooks=hooks, **rest)
    b = bench(*replies, last, tools=[FakeTool()], extensions=extensions, bounds=bounds, log=tuple(before.log))
    events = await b.once()
    assert hooks.seen[-1] == Continue(Transition(transition), data)
    told = only(events, ev.LoopContinued)[-1]
    assert (told.transition, told.data) == (transition, data)
