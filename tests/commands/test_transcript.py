"""/export: the conversation as Markdown, where it is written, and what is refused."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentcli.commands import transcript
from agentcli.core.events import PermissionRequested, ToolFinished
from agentcli.core.messages import (
    COPY_OF,
    SUMMARY,
    ImageBlock,
    Json,
    Message,
    Origin,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    user_message,
    wrap_error,
)
from agentcli.core.permission import Answer
from agentcli.history.export.document import describe
from agentcli.history.export.files import export_document
from agentcli.history.export.markdown import to_markdown
from agentcli.session.timeline import CallStep, PromptStep, Timeline
from tests.commands.test_commands import engine_on, refused, said
from tests.support.assembled import Assembled
from tests.support.fakes import collect
from tests.support.scripts import call
from tests.support.scripts import reply as scripted

pytestmark = pytest.mark.anyio


def exported(*messages: Message, ended: Sequence[ToolFinished] = (), thinking: bool = False) -> str:
    """The Markdown without its heading."""

    steps = [CallStep(one.tool_use_id, one.name, {}, "", end=one) for one in ended]
    timeline = Timeline("s", Path(), prompts={"": PromptStep("", "", "", "", calls=steps)})
    text = to_markdown(describe(messages, timeline, thinking=thinking))
    return text.partition("\n\n")[2].partition("\n\n")[2].removesuffix("\n")


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


def test_a_command_that_does_not_fit_the_title_is_shown_whole() -> None:
    command = "\n".join(f"echo {number}" for number in range(200))
    text = exported(*ran(command, ""))
    assert text.startswith("## Reply\n\n**Call** `Bash echo 0 echo 1")
    assert text.endswith(f"…`\n\n```sh\n{command}\n```")
    assert "```sh\necho `date`\n```" in exported(*ran("echo `date`", ""))


def changed(name: str, *, is_error: bool = False, text: str = "Changed a.py", **input: Any) -> tuple[Message, ...]:
    result = ToolResultBlock("t", (TextBlock(text),), is_error)
    return reply(ToolUseBlock("t", name, input)), Message("user", (result,), "m", Origin.TOOL_RESULTS)


def test_edits_are_shown_as_diffs_also_without_a_session_file() -> None:
    edit: Json = {"old_string": "a\nb\n", "new_string": "a\nc\n"}
    block = "\n\n```diff\n a\n-b\n+c\n{}```\n\n"
    assert block.format("") in exported(*changed("Edit", **edit))
    assert block.format("+d\n") in exported(*changed("MultiEdit", edits=[edit, {"new_string": "d"}]))
    assert "```diff\n+x\n+y\n```" in exported(*changed("Write", content="x\ny\n"))
    assert "```diff\n+x\n```" in exported(*changed("NotebookEdit", new_source="x"))
    assert "```diff" not in exported(*changed("Edit", is_error=True, **edit))
    long = exported(*changed("Write", content="".join(f"{number}\n" for number in range(1_000))))
    assert "\n+79\n… 900 more lines …\n+980\n" in long


def test_a_denied_call_says_who_denied_it_and_what_it_would_have_changed() -> None:
    refusal = wrap_error("The user declined this call. Stop and wait.")
    messages = changed("Edit", is_error=True, text=refusal, old_string="a", new_string="b")
    result = messages[1].tool_results[0]
    denied = ToolFinished(tool_use_id="t", name="Edit", result=result, outcome="denied", denied_by="you")
    assert exported(*messages, ended=[denied]) == (
        "## Reply\n\n**Call** `Edit` (denied by you)\n\n```diff\n-a\n+b\n```"
    )
    output = exported(*ran("curl x", "no network", is_error=True), ended=[denied])
    assert output.endswith("(denied by you)\n\n```text\nno network\n```"), "it ran"


def test_the_heading_has_the_title_the_date_and_the_models() -> None:
    prompt = user_message("Fix\nthe parser", "p", Origin.PROMPT)
    answer = Message("assistant", (TextBlock("Done."),), "r", Origin.REPLY, model="opus")

    def heading(*messages: Message, title: str = "", began: str = "") -> list[str]:
        timeline = Timeline("s", Path(), title=title, began=began)
        return to_markdown(describe(messages, timeline)).split("\n\n")[:2]

    assert heading(prompt, answer) == ["# Fix the parser", "opus"]
    assert heading(prompt, title="Parser", began="2026-03-04T12:00:00.000Z") == ["# Parser", "2026-03-04"]
    assert heading(prompt, answer, began="soon") == ["# Fix the parser", "opus"]


async def test_the_session_file_tells_what_was_changed_and_denied(tmp_path: Path) -> None:
    def answer(request: PermissionRequested) -> Answer:
        return Answer("deny") if request.name == "Bash" else Answer("allow")

    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("one\ntwo\n")
    calls = [call("Read", file_path="a.txt"), call("Write", file_path="a.txt", content="one\nthree\n")]
    replies: list[Json | str] = [*map(scripted, calls), scripted(call("Bash", command="make all")), "Done."]
    async with Assembled(project, replies, answer) as session:
        await session.run("change it")
        await said(session.engine, "/export out.md")
    text = (project / "out.md").read_text()
    assert "```diff\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n```" in text
    assert "**Call** `Bash make all` (denied by you)\n\nDone." in text
    assert re.match(r"# change it\n\n\d{4}-\d\d-\d\d · \S+\n\n## Prompt\n\nchange it\n", text)


def test_a_code_block_that_was_cut_off_does_not_contain_the_rest_of_the_file() -> None:
    prompt = user_message("See:\n~~~\nlog", "p", Origin.PROMPT)
    closed = reply(TextBlock("````md\n```\n````"))
    text = exported(prompt, reply(TextBlock("```python\ndef f():")), closed)
    assert "## Prompt\n\nSee:\n~~~\nlog\n~~~\n\n## Reply\n\n```python\ndef f():\n```\n\n" in text
    assert text.endswith("````md\n```\n````")


def test_errors_are_exported() -> None:
    error = Message("user", (TextBlock("The server is\noverloaded"),), "e", Origin.ERROR)
    assert exported(error) == "*Error: The server is overloaded*"


def test_hidden_characters_are_spelled_out() -> None:
    assert "a<U+202E>b" in exported(*ran("printf", "a\u202eb"))


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
        assert await said(engine, "/export") == (
            f"Wrote {(root / f'{name}.md').stat().st_size} B to {name}.md. Searches in the project find it too: move "
            "it, or list it in .gitignore.\nNo secrets were recognised. Check the file before you share it: not every "
            "secret can be recognised."
        )
        assert (root / f"{name}.md").read_text().partition("\n\n## ")[2] == "Prompt\n\nhi\n\n## Reply\n\nHello there.\n"
        assert (root / f"{name}.md").stat().st_mode & 0o777 == 0o644, "it is made to be shared"
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
        assert (await said(engine, "/export")).partition("\n\n## ")[2] == "Prompt\n\nhi\n\n## Reply\n\nHello there.\n"
        assert "Redirect its output" in await refused(engine, "/export x.md")
        assert not list(engine.working_dirs[0].glob("*.md"))


async def test_a_long_conversation_is_written_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def rendering(*given: Any) -> tuple[bytes, str]:
        threads.append(threading.current_thread())
        return export_document(*given)

    monkeypatch.setattr(transcript, "export_document", rendering)
    async with engine_on(tmp_path, "Hello there.") as engine:
        await collect(engine.submit("hi"))
        await said(engine, "/export")
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()
