"""Events as lines on standard error: their text and their level."""

from __future__ import annotations

import pytest

from agentcli.core import events as ev
from agentcli.headless.notices import is_shown, notice


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            ev.ContextEdited(edits=[], step="microcompact", freed_tokens=3_100, text="cleared 12 old results"),
            "Freed about 3.1k tokens of context: cleared 12 old results",
        ),
        (
            ev.ContextEdited(edits=[], step="compact", freed_tokens=-900, text="a compaction was undone"),
            "Added about 900 tokens to the context: a compaction was undone",
        ),
        (
            ev.PrefixBroken(reason="the model was changed", block="the tool Bash", rebilled_tokens=40_000),
            "The prompt cache broke at the tool Bash: the model was changed (40k tokens billed again)",
        ),
    ],
)
def test_context_changes_are_one_line_in_verbose_mode(event: ev.Event, line: str) -> None:
    assert notice(event) == line
    assert (is_shown(event, "verbose"), is_shown(event, "terminal")) == (True, False)


def test_a_notice_stays_on_one_line_for_any_content() -> None:
    found = notice(ev.ContextEdited(edits=[], step="user", text="dropped a\nb\x1b[31m"))
    assert "\n" not in found
    assert "\x1b" not in found
