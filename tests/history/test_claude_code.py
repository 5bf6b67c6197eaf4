"""Sessions of Claude Code: what of a file is the conversation, and that no file does harm."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from agentcli.core import events as ev
from agentcli.core.errors import AgentError
from agentcli.core.messages import Json, Message, Origin, ToolUseBlock, block_to_wire
from agentcli.history import claude_code
from agentcli.history.claude_code import ForeignSession, find_files, read_session, write_session
from agentcli.session.base import SessionExists, project_key, session_path
from agentcli.session.find import list_sessions
from agentcli.session.load import LINE_LIMIT, UNFINISHED, load_session

FIXTURE = Path(__file__).parents[1] / "data" / "claude_code.jsonl"
ID = "0c1a0de0-1111-4222-8333-444455556666"


def read(path: Path = FIXTURE) -> ForeignSession:
    session = read_session(path)
    assert session is not None
    return session


def outline(session: ForeignSession) -> list[str]:
    return [f"{message.origin.value}: {shape(message)}" for _at, message in session.messages]


def shape(message: Message) -> str:
    calls = [f"[{block.name}]" for block in message.content if isinstance(block, ToolUseBlock)]
    results = [f"<{result.text[:25]}>" for result in message.tool_results]
    return " ".join(filter(None, (message.text[-40:], *calls, *results)))


def source(folder: Path, lines: list[Json | str], cwd: Path | None = None) -> Path:
    """A session file with these lines where Claude Code would have it."""
    path = folder / ".claude" / "projects" / project_key(cwd or folder) / f"{ID}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def line(uuid: str, parent: str | None, kind: str = "user", content: Any = "hi", **more: Any) -> Json:
    message = {"role": kind, "content": content, **({"id": f"msg_{uuid}"} if kind == "assistant" else {})}
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "timestamp": "2026-11-01T10:00:00Z",
        "message": message,
    } | more


def test_the_conversation_is_the_way_to_the_last_message_with_each_call_answered_once() -> None:
    session = read()
    assert outline(session) == [
        "prompt: y does the parser fail on nested quotes?",
        "reply: I will look at two files. [Read] [Grep]",
        "tool_results: <def lex(): ...> <lexer.py:7: quote>",
        "reply: [Agent]",
        "tool_results: <Three callers.>",
        "reply: The lexer drops the second quote.",
        "prompt: Fix it, please.",
        "reply: [mcp__files__edit]",
        "tool_results: <The user doesn't want to >",
        "interruption: equest interrupted by user for tool use]",
        "prompt: /review lexer.py",
        "reply: I am reading it.",
        "prompt: And keep the tests green.",
        "reply: Reviewed. All tests pass.",
        "boundary: ",
        "summary: m here without mentioning the hand-over.",
        "prompt: What is left?",
        "reply: One more look. [Bash]",
        f"tool_results: <{UNFINISHED[:25]}>",
    ]
    everything = json.dumps([[block_to_wire(block) for block in message.content] for _at, message in session.messages])
    for left_out in ("Secret thoughts", "sub-agent", "abandoned", "Be kind", "API Error", "tool_reference", "Caveat"):
        assert left_out not in everything
    assert "iVBORw0KGgo=" in everything
    info = session.info
    assert (info.title, info.is_title_generated, info.cwd) == ("Nested quotes in the parser", True, "/work/zoo")
    assert session.skipped == 1


def test_an_imported_session_is_a_session_like_any_other_with_the_times_of_its_messages(tmp_path: Path) -> None:
    path = source(tmp_path, FIXTURE.read_text().splitlines())
    os.utime(path, (5_000, 5_000))
    before = path.read_bytes()
    session = read(path)
    write_session(session, tmp_path / "state", tmp_path)
    loaded = load_session(session_path(tmp_path / "state", tmp_path, ID))
    assert list(loaded.messages) == [message for _at, message in session.messages]
    assert (loaded.skipped, loaded.system_context, loaded.is_title_generated) == (0, None, True)
    ended = [(event.name, event.outcome) for event in loaded.history if isinstance(event, ev.ToolFinished)]
    assert [*ended[2:]] == [("Agent", "done"), ("mcp__files__edit", "failed"), ("Bash", "interrupted")]
    (boundary,) = [message for message in loaded.messages if message.origin is Origin.BOUNDARY]
    assert (boundary.meta["tokens_before"], 0 < boundary.meta["tokens_after"] < 100) == (155_000, True)
    (info,) = list_sessions(tmp_path / "state", tmp_path)
    assert (info.session_id, info.modified, info.message_count, info.is_cut_off) == (ID, 5_000, 19, False)
    assert info.label == "Nested quotes in the parser"
    assert '"timestamp":"2026-11-01T10:31' in session_path(tmp_path / "state", tmp_path, ID).read_text()
    with pytest.raises(SessionExists):
        write_session(session, tmp_path / "state", tmp_path)
    assert path.read_bytes() == before
    assert list(tmp_path.rglob("*.lock")) == []


def test_an_import_that_fails_leaves_no_half_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object, **_rest: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(claude_code, "Account", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_session(read(source(tmp_path, FIXTURE.read_text().splitlines())), tmp_path / "state", tmp_path)
    assert [path for path in (tmp_path / "state").rglob("*") if path.is_file()] == []


def test_a_name_that_the_user_gave_wins_over_generated_titles(tmp_path: Path) -> None:
    titles: list[Json | str] = [
        {"type": "custom-title", "customTitle": "mine"},
        {"type": "ai-title", "aiTitle": "generated"},
    ]
    info = read(source(tmp_path, [line("1", None), *titles])).info
    assert (info.title, info.is_named) == ("mine", True)


HOSTILE: list[list[Json | str]] = [
    [],
    ["\0" * 1000, "[1, 2]", '"text"', "null", "{" * 500],
    [line("1", "2"), line("2", "1")],
    [line("1", "1")],
    [{"type": "user", "uuid": 7, "message": 3}, {"type": ["user"], "uuid": {}}, {"uuid": "1", "type": "assistant"}],
    [line("1", None, content={"type": "text"}), line("2", "1", content=[1, None, [], {"type": 3}])],
    [{**line("1", None), "message": "text"}, {**line("2", "1", "assistant"), "message": []}],
    [line("1", None, timestamp=[1], cwd={}, isMeta="yes")],
    [line("1", None, "assistant", [{"type": "tool_use", "id": "a b", "name": "x\n", "input": 3}])],
    [line("1", None), line("2", "1", "assistant", [{"type": "tool_use", "id": "t", "name": "N", "input": [1]}])],
    [line("1", None), line("2", "1", content=[{"type": "tool_result", "tool_use_id": "nobody", "content": {"a": 1}}])],
    [line("1", None), line("2", "1", content="<command-name> </command-name>"), line("3", "2", "assistant", "x")],
    [line("1", None, content="\0 \ud800 \x1b[31m"), {"type": "custom-title", "customTitle": "\x1b]0;x\x07\ud800"}],
]


@pytest.mark.parametrize("lines", HOSTILE, ids=range(len(HOSTILE)))
def test_no_content_breaks_the_import(tmp_path: Path, lines: list[Json | str]) -> None:
    session = read_session(source(tmp_path, lines))
    if session is not None:
        write_session(session, tmp_path / "state", tmp_path)
        assert load_session(session_path(tmp_path / "state", tmp_path, ID)).skipped == 0


def test_links_fifos_folders_and_other_names_are_not_read(tmp_path: Path) -> None:
    path = source(tmp_path, [line("1", None)])
    secret = tmp_path / "secret.jsonl"
    secret.write_text(json.dumps(line("1", None)))
    other = ID.replace("0c1a", "1c1a")
    (path.parent / f"{other}.jsonl").symlink_to(secret)
    os.mkfifo(path.parent / f"{other.replace('1c1a', '2c1a')}.jsonl")
    (path.parent / f"{other.replace('1c1a', '3c1a')}.jsonl").mkdir()
    (path.parent / "agent-12345678.jsonl").write_text(json.dumps(line("1", None)))
    assert find_files(tmp_path / ".claude", None) == [path]
    assert find_files(tmp_path / ".claude", tmp_path) == [path]
    assert find_files(tmp_path / ".claude", tmp_path / "elsewhere") == []
    assert find_files(tmp_path / "nowhere", None) == []


def test_a_huge_line_is_skipped_and_a_huge_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = source(tmp_path, [line("1", None)])
    with path.open("ab") as file:
        file.truncate(path.stat().st_size + LINE_LIMIT + 10)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + json.dumps(line("2", "1", content="after")).encode() + b"\n")
    began = time.monotonic()
    session = read(path)
    assert (session.skipped, len(session.messages)) == (1, 2)
    assert time.monotonic() - began < 10
    monkeypatch.setattr(claude_code, "MAX_SIZE", 1_000)
    with pytest.raises(AgentError, match="larger than"):
        read_session(path)


def test_a_command_is_a_prompt_only_if_the_model_answered_it(tmp_path: Path) -> None:
    model = "<command-name>/model</command-name>\n<command-args>opus</command-args>"
    review = "<command-name>/review</command-name>"
    answer = line("4", "3", "assistant", [{"type": "text", "text": "Reviewed."}])
    session = read(
        source(tmp_path, [line("1", None), line("2", "1", content=model), line("3", "2", content=review), answer])
    )
    assert outline(session) == ["prompt: hi", "prompt: /review", "reply: Reviewed."]
    assert session.messages[-1][1].origin is Origin.REPLY
