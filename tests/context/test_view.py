from __future__ import annotations

from pathlib import Path

from agentcli.context.compact import without_oldest
from agentcli.context.edits import Edits
from agentcli.context.prompt import default_prompt, git_branch, system_context, system_parts
from agentcli.context.view import ContextView
from agentcli.core.messages import (
    ImageBlock,
    Message,
    Origin,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    user_message,
)

LOG = [
    user_message("look at this", "1", Origin.PROMPT),
    Message("assistant", (ThinkingBlock("hm", "s"), ToolUseBlock("t1", "Read", {"file_path": "x"})), "2", Origin.REPLY),
    Message("user", (ToolResultBlock("t1", (ImageBlock({"type": "base64"}), TextBlock("seen"))),), "3",
            Origin.TOOL_RESULTS),
    Message("assistant", (ThinkingBlock("so", "s2"), TextBlock("A cat.")), "4", Origin.REPLY),
]  # fmt: skip


def test_only_messages_after_the_last_boundary_are_included() -> None:
    boundary = Message("user", (), "b", Origin.BOUNDARY)
    assert Edits().in_force([*LOG, boundary, LOG[0]]) == (LOG[0],)
    assert Edits().in_force(LOG) == tuple(LOG)


def test_the_user_context_precedes_the_messages_and_is_not_in_the_log() -> None:
    wire = ContextView("House rules.").wire(LOG[:1])
    assert [block["text"] for block in wire[0]["content"]] == ["House rules.", "look at this"]


def test_a_repair_changes_earlier_messages_and_leaves_later_ones_alone() -> None:
    view = ContextView()
    view.repair("strip_thinking", "2")
    wire = view.wire(LOG)
    assert [block["type"] for block in wire[1]["content"]] == ["tool_use"]
    assert [block["type"] for block in wire[3]["content"]] == ["thinking", "text"]
    assert LOG[1].content[0] == ThinkingBlock("hm", "s"), "the log is never rewritten"


def test_refused_images_become_a_note() -> None:
    view = ContextView()
    view.repair("drop_images", "4")
    content = view.wire(LOG)[2]["content"][0]["content"]
    assert [block["type"] for block in content] == ["text", "text"]


def test_refused_pairing_turns_calls_into_text() -> None:
    view = ContextView()
    view.repair("flatten_tools", "4")
    assert "tool_use" not in str(view.wire(LOG))
    assert "Called Read" in str(view.wire(LOG))


def test_a_declined_prompt_alone_is_left_out() -> None:
    view = ContextView()
    view.repair("leave_out_prompt", "1")
    assert "look at this" not in str(view.wire(LOG))
    assert "A cat." in str(view.wire(LOG))


def test_shedding_drops_about_a_fifth_and_never_splits_a_call_from_its_result() -> None:
    log = []
    for n in range(10):
        log += [
            user_message("q" * 100, f"q{n}", Origin.PROMPT),
            Message("assistant", (ToolUseBlock(f"t{n}", "Look", {}),), f"c{n}", Origin.REPLY),
            Message("user", (ToolResultBlock(f"t{n}", (TextBlock("r" * 100),)),), f"r{n}", Origin.TOOL_RESULTS),
            Message("assistant", (TextBlock("a" * 100),), f"a{n}", Origin.REPLY),
        ]
    left: tuple[Message, ...] | None = tuple(log)
    rounds = 0
    while left is not None and len(left) > 4:
        rounds += 1
        assert left[0].origin in (Origin.PROMPT, Origin.REPLY)
        ContextView().wire(left)
        shorter = without_oldest(left)
        assert shorter is None or len(shorter) < len(left)
        left = shorter
    assert 3 < rounds < 30


def test_the_default_prompt_is_short_and_the_parts_are_layered() -> None:
    assert len(default_prompt()) / 3.5 < 1_500
    assert system_parts(None, "Extra.", "Here.") == (default_prompt() + "\n\nExtra.", "Here.")
    assert system_parts("Own.", None, "Here.") == ("Own.", "Here.")
    assert system_parts("", None, "Here.") == ()


def test_the_branch_is_read_without_running_git(tmp_path: Path) -> None:
    assert git_branch(tmp_path) is None
    git = tmp_path / ".git"
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/feature/x\n")
    (tmp_path / "below").mkdir()
    assert git_branch(tmp_path / "below") == "feature/x"
    (git / "HEAD").write_text("0123456789abcdef0123\n")
    assert git_branch(tmp_path) == "detached at 0123456789ab"
    (git / "HEAD").write_text("ref: refs/heads/e\x1b]0;evil\x07vil\n")
    assert "\x1b" not in system_context(tmp_path, [tmp_path], "Linux", "2026-01-01")
    work = tmp_path / "tree"
    work.mkdir()
    (work / ".git").write_text(f"gitdir: {git}\n")
    assert git_branch(work) is not None
