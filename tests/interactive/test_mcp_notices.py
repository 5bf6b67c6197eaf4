"""Notices about MCP servers: one for each failure, none for success, in an idle session too."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agentcli.agent.mcp.updates import ServerNotices
from agentcli.commands.mcp_listing import tool_lines, tool_summary
from agentcli.core.events import NoticeRaised
from agentcli.mcp.protocol import ToolOffer
from tests.interactive.test_driver import Driven
from tests.support.fakes import bench, only
from tests.support.mcp_offers import fake, servers_with

pytestmark = pytest.mark.virtual


def texts(notices: ServerNotices) -> list[str]:
    return [notice.text for notice in notices.take()]


def test_a_failure_is_reported_once_and_success_is_not() -> None:
    servers = servers_with(("notes", "connecting"), ("hub", "connecting"))
    notices = ServerNotices(servers)
    assert texts(notices) == []
    fake(servers, "notes").become("connected")
    fake(servers, "hub").become("needs-auth")
    assert texts(notices) == ["MCP server hub needs sign-in; use /mcp login hub"]
    fake(servers, "notes").become("failed", "exit code 1.\nTraceback")
    assert texts(notices) == ["MCP server notes failed: exit code 1. Traceback; /mcp shows more"]
    fake(servers, "notes").become("connecting")
    fake(servers, "notes").become("failed", "exit code 1.\nTraceback")
    assert texts(notices) == []


def test_a_restart_is_reported_with_its_reason_but_not_one_that_the_user_wants() -> None:
    servers = servers_with(("notes", "connected"))
    notices = ServerNotices(servers)
    assert texts(notices) == []
    fake(servers, "notes").become("connecting")
    assert texts(notices) == []
    fake(servers, "notes").become("connected")
    assert texts(notices) == []
    fake(servers, "notes").become("connecting", "killed by signal 9")
    assert texts(notices) == ["MCP server notes failed: killed by signal 9; trying again"]


def test_tries_to_restart_a_server_are_one_notice_and_giving_up_is_another() -> None:
    servers = servers_with(("notes", "connected"))
    notices = ServerNotices(servers)
    texts(notices)
    seen = []
    for seconds in (1, 2, 4):
        fake(servers, "notes").become("failed", "exit code 1", retry_seconds=seconds)
        seen += texts(notices)
        fake(servers, "notes").become("connecting", "exit code 1")
        seen += texts(notices)
    fake(servers, "notes").become("failed", "exit code 1")
    assert [*seen, *texts(notices)] == [
        "MCP server notes failed: exit code 1; trying again",
        "MCP server notes failed: exit code 1; /mcp shows more",
    ]


def test_a_tool_that_changes_during_the_session_is_reported_once_and_a_new_one_is_not() -> None:
    servers = servers_with(("notes", "connected"))
    notices, notes = ServerNotices(servers), fake(servers, "notes")
    assert texts(notices) == []
    find, *others = notes.offers.tools
    notes.offered = replace(notes.offers, tools=(replace(find, description="Send all"), *others, ToolOffer("new")))
    notes.become("connected")
    assert texts(notices) == ["MCP server notes changed its tool find; /mcp shows more"]
    notes.become("connecting")
    notes.become("connected")
    assert texts(notices) == []
    assert tool_summary(notes.offers.tools[0], notes) == "[changed] Send all"
    assert any(
        line.startswith("Changed during this session: ") for line in tool_lines(notes.offers.tools[0], notes, "n")
    )


def test_the_listing_names_what_of_a_schema_the_model_does_not_see() -> None:
    servers = servers_with(("notes", "connected"))
    notes = fake(servers, "notes")
    tool = ToolOffer("either", "One of two", input_schema={"type": "object", "anyOf": [{}], "not": {}})
    assert tool_summary(tool, notes) == "[without anyOf, not] One of two"
    line = "Not shown to the model: anyOf, not at the top of the schema, which the API does not accept."
    assert line in tool_lines(tool, notes, "mcp__notes__either")


async def test_an_idle_session_shows_what_happens_to_its_servers() -> None:
    servers = servers_with(("notes", "connecting"))
    async with Driven("Hello.", mcp=servers) as driven:
        await asyncio.sleep(1)
        driven.record.log.clear()
        fake(servers, "notes").become("failed", "exit code 1")
        await driven.until(lambda: len(driven.record.log) == 3)
        assert driven.record.log == [
            "warning: MCP server notes failed: exit code 1; /mcp shows more",
            "commands",
            "status",
        ]


async def test_a_run_without_a_user_reports_it_with_the_submission() -> None:
    servers = servers_with(("notes", "failed"))
    b = bench("Hello.", "Hello.", mcp=servers)
    async with b.engine:
        notices = only(await b.run("Hi"), NoticeRaised)
        assert [notice.text for notice in notices if notice.code == "mcp"] == [
            "MCP server notes failed: exit code 1 no module named notes; /mcp shows more"
        ]
        assert not only(await b.run("Hi"), NoticeRaised)
