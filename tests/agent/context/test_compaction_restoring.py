"""Content restored after a compaction: current files that may be read, tasks, plan, running commands."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.context import compaction_restore
from agentcli.agent.context.compaction_restore import (
    FILE_TOKENS,
    MAX_FILES,
    describe_background,
    file_text,
    plan_text,
    restore_within,
)
from agentcli.agent.engine import Engine
from agentcli.assemble import Options, build_engine
from agentcli.context.estimate import block_tokens, message_tokens
from agentcli.core.aio import AbortSignal
from agentcli.core.messages import RESULT_DATA, Json, Message, Origin, TextBlock, ToolResultBlock, ToolUseBlock
from agentcli.core.permission import PermissionMode
from agentcli.providers.script import ScriptedTransport
from agentcli.tools.shell.background import BackgroundTask
from tests.support.fakes import bench, collect
from tests.support.scripts import call, provider_on, reply, transport_for
from tests.support.validate import first_problem

pytestmark = pytest.mark.anyio

LONG = "Part of a long story. " * 2_000
SIGNAL = AbortSignal()


def used(id: str, name: str, *, fails: bool = False, data: Json | None = None, **input: object) -> list[Message]:
    result = ToolResultBlock(f"t{id}", (TextBlock("done"),), fails)
    meta = {RESULT_DATA: {f"t{id}": data}} if data else {}
    return [
        Message("assistant", (ToolUseBlock(f"t{id}", name, dict(input)),), f"c{id}", Origin.REPLY),
        Message("user", (result,), f"r{id}", Origin.TOOL_RESULTS, meta=meta),
    ]


# ----------------------------------------------------------------------------------------------------------- each


def test_the_last_approved_plan_is_restored() -> None:
    approved = used("1", "ExitPlanMode", data={"plan": "1. Dig.\n\n2. Plant."}, plan="1. Dig.")
    refused = used("2", "ExitPlanMode", plan="Burn it.", fails=True)
    assert plan_text([*approved, *refused]).endswith("1. Dig.\n\n2. Plant.")
    assert plan_text([*approved, *used("3", "EnterPlanMode")]) == ""
    done = used("4", "TodoWrite", todos=[{"content": "Dig", "status": "completed"}])
    assert plan_text([*approved, *done]) == ""
    assert plan_text([]) == ""
    assert len(plan_text(used("5", "ExitPlanMode", data={"plan": "step " * 90_000}))) < 60_000


def test_only_running_commands_are_restored() -> None:
    assert describe_background([]) == ""
    task = BackgroundTask("bash_1", "npm run\x07 dev", "running", "", 12.4)
    assert "bash_1 (npm run dev): running for 12 s" in describe_background([task])
    assert "and 10 more" in describe_background([task] * 30)


@given(st.integers(400, 6_000), st.integers(0, 60_000))
def test_a_file_keeps_to_its_tokens(tokens: int, size: int) -> None:
    text = file_text("a.py", "x = 1\n" * size, tokens)
    assert block_tokens(TextBlock(text)) <= tokens


async def given_files(files: Sequence[str]) -> dict[str, str]:
    return dict.fromkeys(files[:MAX_FILES], "x = 1\n" * 9_000)


@pytest.mark.parametrize("budget", [0, 200, 1_000, 7_000, 90_000])
async def test_restored_content_fits_its_budget_with_the_most_important_first(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = used("1", "TodoWrite", todos=[{"content": "Paint it", "status": "pending"}])
    monkeypatch.setattr(compaction_restore, "_read_again", lambda _session, _log, files, _signal: given_files(files))
    session = bench().engine.session
    shell: Any = SimpleNamespace(task=BackgroundTask("bash_1", "x", "running", ""))
    session.tool_context = replace(session.tool_context, shells=cast(Any, SimpleNamespace(known=lambda: [shell])))
    back = await restore_within(session, log, [f"{n}.py" for n in range(9)], budget, SIGNAL)
    size = message_tokens(Message("user", back.blocks, "m", Origin.ATTACHMENT))
    assert size <= budget
    assert len(back.blocks) == len(back.shares)
    if budget >= 200:
        assert tuple(what for what, _tokens in back.shares[:2]) == ("the todos", "1 running background command")
    if budget == 90_000:
        assert back.meta["files"] == [f"{n}.py" for n in range(MAX_FILES)]
        assert size <= MAX_FILES * FILE_TOKENS + 300


# ----------------------------------------------------------------------------------------------------- on the disk


def engine_on(tmp_path: Path, *replies: Json | str, **rest: object) -> tuple[Engine, ScriptedTransport]:
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    transport = transport_for(*replies, on_request=first_problem)
    options = {
        "cwd": project,
        "environ": {"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        "provider": provider_on(transport),
        "permission_mode": PermissionMode.BYPASS,
        "model": "claude-sonnet-5-5",
        "settings": '{"sandbox": {"mode": "off"}}',
    }
    return build_engine(Options(**{**options, **rest})), transport  # type: ignore[arg-type]


def reads(*names: str) -> Json:
    return reply(*(call("Read", file_path=name) for name in names))


async def after_compaction(engine: Engine, transport: ScriptedTransport) -> str:
    await collect(engine.compact())
    await collect(engine.submit("go"))
    return json.dumps(transport.requests[-1]["messages"], ensure_ascii=False)


async def test_the_last_five_files_are_restored_with_their_current_content(tmp_path: Path) -> None:
    names = [f"file{number}.py" for number in range(7)]
    engine, transport = engine_on(tmp_path, reads(*names), LONG, "Noted.", LONG, "A summary.", "On.")
    async with engine:
        for name in names:
            (tmp_path / "project" / name).write_text(f"old_{name[4]} = 1\n")
        await collect(engine.submit("read them"))
        await collect(engine.submit("more"))
        await collect(engine.submit("and more"))
        (tmp_path / "project" / "file5.py").write_text("new_5 = 2\n")
        (tmp_path / "project" / "file4.py").unlink()
        said = await after_compaction(engine, transport)
    assert [name for name in names if f"{name} as it is on disk now" in said] == [names[n] for n in (1, 2, 3, 5, 6)]
    assert "new_5 = 2" in said
    assert "old_5 = 1\\n" not in said.replace("-old_5 = 1", ""), "but for the news that it changed"
    assert said.index("file6.py as it is") < said.index("file5.py as it is")


async def test_of_a_long_file_the_lines_come_back_that_were_read_last(tmp_path: Path) -> None:
    one = call("Read", file_path="a.py", offset=4_001, limit=20)
    engine, transport = engine_on(tmp_path, reply(one), LONG, LONG, "A summary.", "On.")
    async with engine:
        (tmp_path / "project" / "a.py").write_text("".join(f"line_{n} = 0\n" for n in range(9_000)))
        await collect(engine.submit("read it"))
        await collect(engine.submit("more"))
        said = await after_compaction(engine, transport)
    assert "line_4000 = 0" in said.partition("as it is on disk now")[2]
    assert "line_0 = 0" not in said


async def test_a_file_that_would_need_approval_is_not_restored(tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text("outside = 1\n")
    engine, transport = engine_on(tmp_path, reads("../outside.py"), LONG, LONG, "A summary.", "On.")
    async with engine:
        await collect(engine.submit("read it"))
        await collect(engine.submit("more"))
        engine.permissions.set_mode(PermissionMode.DEFAULT)
        said = await after_compaction(engine, transport)
    assert "outside = 1" not in said


async def test_binary_and_missing_files_are_not_restored(tmp_path: Path) -> None:
    names = ["b.bin", "p.png", "fifo", "dir", "link.py"]
    writes = reply(*(call("Write", file_path=name, content="x = 1\n") for name in names))
    engine, transport = engine_on(tmp_path, writes, LONG, LONG, "A summary.", "On.")
    project = tmp_path / "project"
    async with engine:
        await collect(engine.submit("write them"))
        await collect(engine.submit("more"))
        for name in names:
            (project / name).unlink(missing_ok=True)
        (project / "b.bin").write_bytes(bytes(range(256)) * 9)
        (project / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 90)
        os.mkfifo(project / "fifo")
        (project / "dir").mkdir()
        (project / "link.py").symlink_to("nowhere")
        said = await asyncio.wait_for(after_compaction(engine, transport), 20)
    assert "as it is on disk now" not in said


async def test_running_commands_are_listed_and_restored_files_can_be_edited_without_a_new_read(tmp_path: Path) -> None:
    engine, transport = engine_on(
        tmp_path,
        reply(call("Read", file_path="a.py"), call("Bash", command="sleep 60", run_in_background=True)),
        LONG,
        LONG,
        "A summary.",
        reply(call("Edit", file_path="a.py", old_string="x = 1", new_string="x = 2")),
        "On.",
    )
    async with engine:
        (tmp_path / "project" / "a.py").write_text("x = 1\n")
        await collect(engine.submit("begin"))
        await collect(engine.submit("more"))
        said = await after_compaction(engine, transport)
        assert "bash_1 (sleep 60): running for" in said
        assert (tmp_path / "project" / "a.py").read_text() == "x = 2\n"
