"""Approval before a fetch: the real policy and tools in an engine, and a site on the loopback."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from agentcli.assemble import Options, build_engine
from agentcli.core import events as ev
from agentcli.core.messages import Json
from agentcli.core.permission import Answer, PermissionMode
from tests.support.fakes import only, result_of
from tests.support.scripts import call, provider_on, reply, transport_for
from tests.support.web import Answer as Says
from tests.support.web import Website

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("html_in_process")]
Person = Callable[[ev.PermissionRequested], Answer]


async def events_of(
    folder: Path, replies: list[Json | str], person: Person = lambda _event: Answer("allow"), **options: Any
) -> list[ev.Event]:
    values: dict[str, Any] = {
        "cwd": folder,
        "environ": {"PATH": os.environ["PATH"], "HOME": str(folder)},
        "provider": provider_on(transport_for(*replies)),
        "interactive": True,
        "persist": False,
        "model": "claude-sonnet-5-5",
        **options,
    }
    events: list[ev.Event] = []
    async with build_engine(Options(**values)) as engine, aclosing(engine.submit("go")) as stream:
        async for event in stream:
            events.append(event)
            if isinstance(event, ev.PermissionRequested):
                engine.answer(event.request_id, person(event))
    result_of(events)
    return events


def fetch(url: str) -> Json:
    return reply(call("WebFetch", url=url, prompt="What?"))


@pytest.mark.parametrize(
    ("options", "asks", "fetches"),
    [
        ({}, True, True),
        ({"permission_mode": PermissionMode.ACCEPT_EDITS}, True, True),
        ({"permission_mode": PermissionMode.PLAN}, True, True),
        ({"permission_mode": PermissionMode.DONT_ASK}, False, False),
        ({"permission_mode": PermissionMode.BYPASS}, False, True),
        ({"allowed_tools": ("WebFetch",)}, True, True),
        ({"allowed_tools": ("WebFetch(domain:0.0.1)", "WebFetch(domain:*)")}, True, True),
        ({"allowed_tools": ("WebFetch(domain:127.0.0.1)",)}, False, True),
        ({"allowed_tools": ("WebFetch(private:127.0.0.1)",)}, False, True),
        ({"disallowed_tools": ("WebFetch(domain:127.0.0.1)",), "permission_mode": PermissionMode.BYPASS}, False, False),
        ({"interactive": False, "allowed_tools": ("WebFetch",)}, False, False),
    ],
)
async def test_a_private_network_address_asks_unless_a_rule_names_it(
    tmp_path: Path, options: dict[str, Any], asks: bool, fetches: bool
) -> None:
    async with Website({"/": Says(b"<p>inside")}) as site:
        # Spelled so that a look at the text alone would not find the address.
        url = f"http://2130706433:{site.port}/"
        events = await events_of(tmp_path, [fetch(url), "The summary.", "Done."], **options)
        assert bool(site.asked) is fetches
    assert bool(only(events, ev.PermissionRequested)) is asks


async def test_the_dialog_shows_the_address_and_its_offered_rule_is_sufficient(tmp_path: Path) -> None:
    async with Website({"/": Says(b"<p>one"), "/2": Says(b"<p>two")}) as site:
        replies: list[Json | str] = [
            fetch(f"http://0x7f.1:{site.port}/"),
            "Summary one.",
            fetch(f"http://127.0.0.1:{site.port}/2"),
            "Summary two.",
            "Done.",
        ]
        events = await events_of(tmp_path, replies, lambda event: Answer("allow", rules=tuple(event.suggestions)))
        assert len(site.asked) == 2
    (asked,) = only(events, ev.PermissionRequested)
    assert asked.suggestions == ["WebFetch(private:127.0.0.1)"]
    assert asked.display == {
        "kind": "fetch",
        "url": f"http://127.0.0.1:{site.port}/",
        "host": "127.0.0.1",
        "private": True,
        "prompt": "What?",
    }
    assert [event.purpose for event in only(events, ev.UsageReported)] == ["turn", "tool", "turn", "tool", "turn"]


async def test_a_public_page_asks_and_offers_its_domain(tmp_path: Path) -> None:
    events = await events_of(
        tmp_path, [fetch("https://docs.example.com/x"), "Done."], lambda _event: Answer("deny", message="No net.")
    )
    (asked,) = only(events, ev.PermissionRequested)
    assert asked.suggestions == ["WebFetch(domain:docs.example.com)"]
    assert asked.title == "Fetch https://docs.example.com/x"
    said = [event.message.text for event in only(events, ev.MessageAppended) if "No net." in event.message.text]
    assert said == ["[The user declined `Fetch https://docs.example.com/x` and said:]\nNo net."]


@pytest.mark.parametrize(
    ("options", "asks"),
    [
        ({}, True),
        ({"permission_mode": PermissionMode.PLAN}, True),
        ({"allowed_tools": ("WebFetch",)}, True),
        ({"allowed_tools": ("WebSearch",)}, False),
        ({"permission_mode": PermissionMode.BYPASS}, False),
    ],
)
async def test_a_search_asks_unless_the_tool_is_allowed(tmp_path: Path, options: dict[str, Any], asks: bool) -> None:
    replies: list[Json | str] = [reply(call("WebSearch", query="what is new")), "By heart.", "Done."]
    events = await events_of(tmp_path, replies, **options)
    asked = only(events, ev.PermissionRequested)
    assert bool(asked) is asks
    assert [event.suggestions for event in asked] == [["WebSearch"]] * asks
    assert "answered without searching" in only(events, ev.ToolFinished)[0].result.text
