"""The model of the demo with the real engine."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from agentcli.assemble import Options, build_engine
from agentcli.cli.demo import SETTINGS
from agentcli.core import events as ev
from agentcli.core.aio import AbortReason
from agentcli.core.permission import Answer
from agentcli.demo import words
from agentcli.demo.director import DemoTransport
from agentcli.demo.project import CODE, Project
from agentcli.providers.catalog import Catalog
from agentcli.providers.provider import MessagesProvider


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Project() as made:
        yield made


def options(project: Project) -> Options:
    transport = DemoTransport(lambda: project.fixed, lambda: "/compact", speed=100)
    return Options(
        cwd=project.folder,
        environ=project.environment(os.environ) | {"AGENTCLI_SANDBOX": "off"},
        interactive=True,
        model=words.MODEL,
        settings=json.dumps(SETTINGS),
        provider=MessagesProvider(transport, Catalog(SETTINGS["models"])),
    )


async def submit(engine: Any, prompt: str, stop_after: int = 0) -> list[ev.Event]:
    seen: list[ev.Event] = []
    streamed = 0
    async with aclosing(engine.submit(prompt)) as events:
        async for event in events:
            seen.append(event)
            if isinstance(event, ev.PermissionRequested):
                engine.answer(event.request_id, Answer("allow"))
            if isinstance(event, ev.TextStreamed):
                streamed += len(event.text)
                if 0 < stop_after < streamed:
                    engine.abort(AbortReason.USER_CANCEL)
    return seen


@pytest.mark.anyio
async def test_the_whole_fix_is_played(project: Project) -> None:
    async with build_engine(options(project)) as engine:
        seen = await submit(engine, words.FIX)
        names = [event.name for event in seen if isinstance(event, ev.ToolFinished)]
        assert names == ["Read", "Read", "Read", "Bash", "Edit", "Bash"]
        retries = [event for event in seen if isinstance(event, ev.RetryScheduled)]
        assert [(retry.status, retry.attempt) for retry in retries] == [(429, 1)]
        assert any(isinstance(event, ev.ThinkingStreamed) for event in seen)
        usages = [event.usage for event in seen if isinstance(event, ev.UsageReported)]
        assert usages[0].cache_read_input_tokens == 0
        assert all(usage.cache_read_input_tokens > 1_000 for usage in usages[1:])
        assert not [event for event in seen if isinstance(event, ev.PrefixBroken | ev.FeatureDropped)]
        end = seen[-1]
        assert isinstance(end, ev.Result)
        assert not end.is_error
        assert "Fixed, and proven" in end.text
        assert end.total_cost_usd > 0
        assert project.problem() == ""

        await submit(engine, words.TALK, stop_after=300)
        end = (await submit(engine, "and now?"))[-1]
        assert isinstance(end, ev.Result)
        assert "You stopped me and said “and now?”" in end.text
        end = (await submit(engine, "hello"))[-1]
        assert isinstance(end, ev.Result)
        assert "I am a script, not a model" in end.text
        assert "`/compact`" in end.text


@pytest.mark.anyio
async def test_a_file_that_changes_while_the_edit_is_asked_about_is_read_again_and_fixed(project: Project) -> None:
    code = project.folder / CODE
    names = []
    async with build_engine(options(project)) as engine, aclosing(engine.submit(words.FIX)) as events:
        async for event in events:
            if isinstance(event, ev.PermissionRequested):
                if event.name == "Edit" and "# by hand" not in code.read_text():
                    code.write_text(code.read_text() + "\n# by hand\n")
                engine.answer(event.request_id, Answer("allow"))
            if isinstance(event, ev.ToolFinished):
                names.append(event.name)
    assert names == ["Read", "Read", "Read", "Bash", "Edit", "Read", "Edit", "Bash"]
    assert "# by hand" in code.read_text()
    assert project.problem() == ""
