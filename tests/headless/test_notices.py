"""Events as lines at standard error: what is said, and how important it is."""

from __future__ import annotations

import pytest

from agentcli.core import events as ev
from agentcli.headless.notices import VERBOSE, notice


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            ev.ContextEdited(edits=[], step="microcompact", freed_tokens=3_100, text="cleared 12 old results"),
            "The context was edited (microcompact): cleared 12 old results. About 3,100 tokens are free.",
        ),
        (
            ev.ContextEdited(edits=[], step="compact", freed_tokens=-900, text="a compaction was undone"),
            "The context was edited (compact): a compaction was undone. About 900 tokens were restored.",
        ),
        (
            ev.PrefixBroken(reason="the model was changed", block="the tool Bash", rebilled_tokens=40_000),
            "The prompt cache broke at the tool Bash: the model was changed. 40,000 tokens were billed again.",
        ),
    ],
)
def test_what_becomes_of_the_context_is_one_line_for_those_who_ask_for_it(event: ev.Event, line: str) -> None:
    assert notice(event) == (VERBOSE, line)


def test_a_line_stays_one_line_whatever_is_in_it() -> None:
    found = notice(ev.ContextEdited(edits=[], step="person", text="dropped a\nb\x1b[31m"))
    assert found is not None
    assert "\n" not in found[1]
    assert "\x1b" not in found[1]
