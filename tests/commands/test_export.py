"""/export: the conversation as Markdown, where it is written, and what is refused."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from agentcli.commands import export
from agentcli.commands.export import markdown
from agentcli.core.messages import (
    COPY_OF,
    SUMMARY,
    ImageBlock,
    Message,
    Origin,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    user_message,
)
from tests.commands.test_commands import engine_on, refused, said
from tests.support.fakes import collect

pytestmark = pytest.mark.anyio


def exported(*messages: Message, thinking: bool = False) -> str:
    return "\n\n".join(markdown(messages, lambda name, given: f"{name} {given.get('command', '')}", thinking=thinking))


def reply(*blocks: object, stop_reason: str = "end_turn") -> Message:
    return Message("assistant", blocks, "r", Origin.REPLY, stop_reason=stop_reason)  # type: ignore[arg-type]


def ran(command: str, output: str, *, is_error: bool = False) -> tuple[Message, Message]:
    call = ToolUseBlock("t", "Bash", {"command": command})
    result = ToolResultBlock("t", (TextBlock(output),), is_error)
    return reply(call), Message("user", (result,), "m", Origin.TOOL_RESULTS)


def test_prompts_replies_and_calls_are_exported_and_thinking_only_if_wanted() -> None:
    prompt = Message("user", (TextBlock("Fix it"), ImageBlock({})), "p", Origin.PROMPT)
    messages = (prompt, *ran("make", "oops", is_error=True), reply(ThinkingBlock("Hm.\n\nSo."), TextBlock("Done.")))
    text = "## Prompt\n\nFix it [1 image]\n\n## Reply\n\n**Call** `Bash make` (failed)\n\n```text\noops\n```\n\n{}Done."
    assert exported(*messages) == text.format("")
    assert exported(*messages, thinking=True) == text.format("> Hm.\n>\n> So.\n\n")


def test_long_results_are_cut_and_stay_inside_their_fence() -> None:
    text = exported(*ran("cat", "\n".join(["````md", *map(str, range(100)), "x" * 2_000])))
    assert "`````text\n````md\n0\n" in text
    assert "\n18\n… 72 more lines …\n91\n" in text
    assert text.endswith(f"\n{'x' * 500}…\n`````")


def test_text_of_a_tool_brings_no_control_sequences() -> None:
    assert "\x1b" not in exported(*ran("printf", "a\x1b[2Jb"), reply(TextBlock("c\x1b]0;t\x07")))


def test_a_continued_answer_is_one_reply_and_repeated_messages_are_left_out() -> None:
    first, second = reply(TextBlock("One, tw"), stop_reason="max_tokens"), reply(TextBlock("o."))
    summary = user_message("for the model", "s", Origin.SUMMARY, {SUMMARY: "All of it."})
    copy = user_message("Fix it", "c", Origin.PROMPT, {COPY_OF: "p"})
    assert exported(first, second, summary, copy) == (
        "## Reply\n\nOne, two.\n\n## Summary of the conversation so far\n\nAll of it."
    )


def test_a_continued_answer_goes_on_behind_its_text_alone() -> None:
    cut = reply(ThinkingBlock("Hm."), stop_reason="max_tokens")
    after_call = exported(*ran("make", "oops"), cut, reply(TextBlock("Done.")))
    assert after_call.endswith("```text\noops\n```\n\nDone.")
    assert exported(cut, reply(TextBlock("Done.")), thinking=True) == "## Reply\n\n> Hm.\n\nDone."
    begun = reply(TextBlock("One, tw"), stop_reason="max_tokens")
    assert exported(begun, cut, reply(TextBlock("o."))) == "## Reply\n\nOne, two."
    assert exported(begun, reply(ThinkingBlock("Hm."), TextBlock("o.")), thinking=True).endswith("tw\n\n> Hm.\n\no.")


async def test_a_new_file_in_the_project_is_written_and_none_is_overwritten(tmp_path: Path) -> None:
    async with engine_on(tmp_path, "Hello there.", interactive=True) as engine:
        root = engine.working_dirs[0]
        assert "nothing to export" in await refused(engine, "/export")
        await collect(engine.submit("hi"))
        name = f"conversation-{engine.session_id[:8]}"
        assert await said(engine, "/export") == f"Wrote 7 lines to {name}.md."
        assert (root / f"{name}.md").read_text() == "## Prompt\n\nhi\n\n## Reply\n\nHello there.\n"
        assert (root / f"{name}.md").stat().st_mode & 0o777 == 0o600
        assert f"{name}-2.md" in await said(engine, "/export")
        assert "notes/of today.md" in await said(engine, "/export --thinking notes/of today.md")
        assert "exists already" in await refused(engine, "/export notes/of today.md")
        assert "outside the project" in await refused(engine, "/export ../x.md")
        (root / "away").symlink_to(tmp_path)
        assert "outside the project" in await refused(engine, "/export away/x.md")
        assert "home folder of ~nobody-here/x.md is unknown" in await refused(engine, "/export ~nobody-here/x.md")
        assert "does not know --all" in await refused(engine, "/export --all")
    assert not (tmp_path / "x.md").exists()


async def test_a_non_interactive_run_prints_the_conversation_and_writes_no_file(tmp_path: Path) -> None:
    async with engine_on(tmp_path, "Hello there.") as engine:
        await collect(engine.submit("hi"))
        assert await said(engine, "/export") == "## Prompt\n\nhi\n\n## Reply\n\nHello there.\n"
        assert "Redirect its output" in await refused(engine, "/export x.md")
        assert not list(engine.working_dirs[0].glob("*.md"))


async def test_a_long_conversation_is_written_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def rendering(*given: Any, **named: Any) -> list[str]:
        threads.append(threading.current_thread())
        return markdown(*given, **named)

    monkeypatch.setattr(export, "markdown", rendering)
    async with engine_on(tmp_path, "Hello there.") as engine:
        await collect(engine.submit("hi"))
        await said(engine, "/export")
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()
