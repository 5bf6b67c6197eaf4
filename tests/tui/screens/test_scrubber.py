"""The scrubber: steps, folds, tabs, searches and actions, from wide terminals down to small ones."""

from __future__ import annotations

import pytest

from agentcli.core.errors import UsageError
from agentcli.history.steps import Step, StepAction, StepChoice, StepList, StepTab, StepText
from agentcli.tui.screens.scrubber import Scrubber
from tests.tui.screen_host import OPEN, answer, check, look, play, through_all_sizes

PATCH = """\
diff --git a/parser.py b/parser.py
--- a/parser.py
+++ b/parser.py
@@ -1,2 +1,2 @@
 def head(text, end):
-    return text[0 : end - 1]
+    return text[0:end]
"""
STEPS = [
    Step("p1", "Make a parser", "2 files +30", value="first"),
    Step("c1", "Write parser.py", "+28", mark="●", parent="p1", value="call"),
    Step("c2", "Run \x1b[31mpytest\x1b[0m", "0.4 s", mark="●", parent="p1", value="call"),
    Step("p2", "Fix the off-by-one error", "1 file +1 −1", value="second"),
    Step("c3", "Edit parser.py", "+1 −1", mark="●", parent="p2", value="call"),
    Step("p3", "Thanks", "", value="third"),
]


def transcript(step: Step) -> list[StepText]:
    pieces = [StepText(f"❯ {step.label}", "heading"), StepText("", "text")]
    return [*pieces, StepText("\n".join(f"row {number} of **{step.id}**" for number in range(60)), "text")]


async def files(step: Step) -> list[StepText]:
    if step.id == "p3":
        raise UsageError("no copies are kept")
    return [StepText(PATCH, "diff")] if step.id == "p2" else []


async def restore(step: Step) -> str:
    if step.id == "p1":
        raise UsageError("A submission is running.")
    return f"Restored {step.value}"


def is_prompt(step: Step) -> bool:
    return not step.parent


def scrubber(*, start: str = "", enter: bool = False) -> Scrubber:
    actions = [StepAction("r", "restore", restore, is_prompt), StepAction("B", "branch")]
    if enter:
        actions.append(StepAction("enter", "branch here"))
    tabs = [StepTab("Transcript", transcript), StepTab("Files", files)]
    return Scrubber(StepList("Rewind", lambda: STEPS, tabs, actions, start))


def test_the_screen_reads_like_this() -> None:
    seen = look(scrubber(), "| up | right | tab |", size=(100, 12))
    rows = [row.rstrip() for row in seen.splitlines()]
    assert (
        "\n".join(rows)
        == """\
─── Rewind ───────────────────────────────────────────────────────────────────────────── 3 prompts ─
   ▸  Make a parser            2 files +30  │   Transcript [Files]
 ❯ ▾  Fix the off-by-one err…  1 file +1 −1 │ M +1 −1  parser.py
    ●   Edit parser.py         +1 −1        │
      Thanks                                │ M parser.py  +1 −1 ──────────────────────────────────
                                            │ 1   def head(text, end):
                                            │ 2 -     return text[0 : end - 1]
                                            │ 2 +     return text[0:end]
                                            │
                                            │
 Fix the off-by-one error  1 file +1 −1
 / search · ↑↓ move · →← calls · Tab Transcript · r restore · B branch · Enter read · Esc close"""
    )


def test_in_one_column_the_tab_takes_the_place_of_the_list() -> None:
    steps = [
        ("|", "Fix the off-by-one", "¬row 3"),
        ("enter |", "row 3 of **p1**", "[Transcript]", "Esc back to the list", "¬Fix the"),
        ("escape |", "Fix the off-by-one", "¬row 3", OPEN),
    ]
    check(scrubber(start="p1"), *steps, size=(40, 10))


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        ("|", "❯    Thanks"),
        ("| home | right |", "Run pytest"),
        ("| home | right | down | left |", "❯ ▸  Make a parser"),
        ("| / =pytest |", "1 of 6"),
        ("| / =pytest | escape |", "❯  ●   Run pytest"),
        ("| enter | / =59 |", "row 59 of **p3**"),
        ("| enter | / =nowhere |", "not found"),
        ("| enter | / =59 enter | escape escape |", "❯    Thanks"),
        ("| tab |", "It could not be read: no copies are kept."),
        ("| home | tab |", "(nothing)"),
        ("| enter | end |", "row 59 of"),
        ("| r |", "✓ Restored third"),
        ("| home | r |", "! A submission is running."),
    ],
)
def test_keys(keys: str, shown: str) -> None:
    assert shown in look(scrubber(), keys, size=(100, 24))


def test_a_step_in_a_fold_can_be_the_first_one_marked() -> None:
    assert "❯  ●   Edit parser.py" in look(scrubber(start="c3"), "|", size=(100, 24))


def test_an_action_without_work_closes_the_screen() -> None:
    assert answer(scrubber(), "| up | B |") == StepChoice("B", STEPS[3])
    assert answer(scrubber(enter=True), "| enter |") == StepChoice("enter", STEPS[5])
    assert answer(scrubber(), "| escape |") is None


def test_actions_are_only_for_their_steps() -> None:
    check(scrubber(start="c1"), ("| r |", OPEN, "¬Restored"), ("B |", StepChoice("B", STEPS[1])), size=(100, 24))


def test_a_session_that_cannot_be_read_and_one_without_prompts() -> None:
    def fail() -> list[Step]:
        raise PermissionError("Permission denied")

    tabs = [StepTab("Transcript", transcript)]
    assert "The session could not be read: Permission denied." in look(Scrubber(StepList("Tree", fail, tabs)), "|")
    check(Scrubber(StepList("Tree", list, tabs)), ("| enter tab right r |", OPEN, "There are no prompts yet."))


def test_it_fits_every_size() -> None:
    play(scrubber(), through_all_sizes)
    play(Scrubber(StepList("Tree", list, [StepTab("Transcript", transcript)])), through_all_sizes)
