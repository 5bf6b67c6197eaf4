"""Auto mode is mentioned once per user, with the first prompt, where it works."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentcli.assemble import OFFER
from agentcli.cli.flags import parse
from agentcli.cli.invocation import build_options
from agentcli.core.permission import PermissionMode
from tests.support.contained import Project

pytestmark = pytest.mark.anyio
OPTIONS: dict[str, Any] = {"permission_mode": None, "offer_auto_mode": True}


async def offers(project: Project, **options: Any) -> int:
    async with project.session(**{**OPTIONS, **options}) as session:
        await session.run()
        return session.notices().count(OFFER)


async def test_the_offer_is_shown_with_the_users_first_prompt_only(contained: Project) -> None:
    assert await offers(contained) == 1
    assert await offers(contained) == 0


@pytest.mark.parametrize(
    "options",
    [
        {"interactive": False},
        {"sandbox": "off"},
        {"permission_mode": PermissionMode.DEFAULT},
        {"settings": json.dumps({"permissions": {"defaultMode": "acceptEdits"}})},
        {"offer_auto_mode": False},
    ],
)
async def test_the_offer_is_not_shown_after_a_mode_was_chosen_or_in_non_interactive_runs(
    contained: Project, options: dict[str, Any]
) -> None:
    assert await offers(contained, **options) == 0
    assert await offers(contained) == 1, "and it is still there for the first session that can use it"


def test_the_command_line_shows_the_offer_in_interactive_sessions_only(contained: Project) -> None:
    assert build_options(parse([]), contained.path).offer_auto_mode
    assert not build_options(parse(["-p", "go"]), contained.path).offer_auto_mode
