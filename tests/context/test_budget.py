"""The tool-result budget: what is too large goes to a file when it is new, and never later."""

from __future__ import annotations

import pytest

from agentcli.context.old_results import HEAD, ToolResultBudget, file_name, note_of
from agentcli.context.steps import ContextState, Pipeline
from agentcli.context.view import ContextView
from agentcli.core.events import ContextEdited
from agentcli.core.messages import ToolResultBlock
from tests.context.logs import Talk, ran, refused, shown_block, shown_text

STATE = ContextState(estimate=1_000, usable=100_000)


class Folder:
    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def save(self, name: str, text: str) -> str | None:
        self.files[name] = text
        return f"/results/{name}"


def prepared(talk: Talk, budget: ToolResultBudget, view: ContextView | None = None) -> tuple[ContextView, list[object]]:
    view = view or ContextView()
    return view, ran(Pipeline([budget]), view, talk.log, lambda _freed: STATE)


def test_a_result_over_the_limit_is_replaced_by_its_head_size_and_path() -> None:
    talk, folder = Talk(), Folder()
    talk.prompt("go")
    text = "".join(f"line {number}\n" for number in range(10_000))
    block = talk.call("Bash", {"command": "seq"}, text)
    view, events = prepared(talk, ToolResultBudget(folder.save))
    assert len(events) == 1, "nothing that was sent has changed"
    assert isinstance(events[0], ContextEdited)
    assert (events[0].step, events[0].text) == ("budget", "moved a large result out of the conversation")
    shown = shown_text(view, talk.log, block)
    assert shown.startswith("line 0\nline 1\n")
    assert len(shown) < HEAD + 500
    assert note_of(shown) == (
        f"[The whole result ({len(text):,} characters, 10,001 lines) is in /results/toolu_1_0.txt: "
        "Read it with offset and limit, or search it with Grep.]"
    )
    assert folder.files == {"toolu_1_0.txt": text}
    assert refused(view, talk.log) == []


def test_results_that_were_answered_are_never_changed() -> None:
    talk, folder = Talk(), Folder()
    talk.prompt("go")
    talk.call("Bash", {"command": "seq"}, "x" * 60_000)
    talk.answer()
    talk.prompt("more")
    view, events = prepared(talk, ToolResultBudget(folder.save))
    assert events == []
    assert view.messages(talk.log) == tuple(talk.log)
    assert folder.files == {}


def test_the_largest_of_results_that_are_too_large_together_are_replaced() -> None:
    talk, folder = Talk(), Folder()
    talk.prompt("go")
    sizes = (40_000, 49_000, 48_000, 45_000, 30_000)
    blocks = talk.calls(*(("Bash", {"command": str(size)}, "y" * size, False) for size in sizes))
    view, _events = prepared(talk, ToolResultBudget(folder.save))
    lengths = [len(shown_text(view, talk.log, block)) for block in blocks]
    assert [length < 3_000 for length in lengths] == [False, True, False, False, False]
    assert sum(lengths) <= 200_000


@pytest.mark.parametrize("sizes", [(60_000,), (45_000,) * 10])
def test_without_storage_a_large_result_keeps_its_head_and_tail_with_a_note(sizes: tuple[int, ...]) -> None:
    talk = Talk()
    talk.prompt("go")
    blocks = talk.calls(*(("Bash", {"command": "x"}, f"begin{'.' * size}end", False) for size in sizes))
    budget = ToolResultBudget(lambda _name, _text: None)
    view, _events = prepared(talk, budget)
    shown = [shown_text(view, talk.log, block) for block in blocks]
    assert sum(map(len, shown)) <= 210_000
    cut = next(text for text in shown if "could not be kept" in text)
    assert cut.startswith("begin")
    assert "end\n\n[The whole result had" in cut
    assert prepared(talk, budget, view)[1] == []


def test_an_error_shows_its_end_too_and_stays_an_error() -> None:
    talk, folder = Talk(), Folder()
    talk.prompt("go")
    block = talk.call("Bash", {"command": "make"}, "z" * 60_000 + "\nmake: *** [all] Error 2", is_error=True)
    view, _events = prepared(talk, ToolResultBudget(folder.save))
    shown = shown_block(view, talk.log, block)
    assert isinstance(shown, ToolResultBlock)
    assert shown.is_error
    assert "make: *** [all] Error 2" in shown.text


def test_the_name_of_the_file_is_plain_whatever_the_id_is() -> None:
    assert file_name(ToolResultBlock("toolu_1", ())) == "toolu_1.txt"
    for id in ("../../etc/passwd", "", "a\x00b", "x" * 500, "\ud800"):
        name = file_name(ToolResultBlock(id, ()))
        assert name.removesuffix(".txt").isalnum()
        assert len(name) < 90
