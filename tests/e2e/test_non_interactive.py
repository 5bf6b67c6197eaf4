"""System prompt and tools in non-interactive runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.assemble import Options, build_engine
from agentcli.core.messages import Json
from agentcli.core.permission import PermissionMode
from tests.e2e.program import Program
from tests.support.fakes import collect
from tests.support.scripts import provider_on, transport_for
from tests.support.server import LoopbackServer

pytestmark = pytest.mark.anyio

QUESTIONS = {"AskUserQuestion", "EnterPlanMode", "ExitPlanMode"}


def system_of(body: Json) -> str:
    return "\n\n".join(part["text"] for part in body["system"])


async def first_request(folder: Path, **rest: object) -> Json:
    transport = transport_for("Done.")
    given: dict[str, object] = {
        "cwd": folder,
        "environ": {"HOME": str(folder), "PATH": "/usr/bin:/bin"},
        "persist": False,
        "sandbox": "off",
        "provider": provider_on(transport),
    }
    async with build_engine(Options(**{**given, **rest})) as engine:  # type: ignore[arg-type]
        await collect(engine.submit("go"))
    (body,) = transport.requests
    return body


async def test_print_mode_states_that_no_user_answers_and_offers_no_questions(program: Program) -> None:
    async with LoopbackServer("Done.") as server:
        program.talk_to(server.url)
        assert (await program.run("-p", "Tidy up")).code == 0
        (body,) = server.bodies
    assert "The user cannot answer questions while you work" in system_of(body)
    assert not QUESTIONS & {tool["name"] for tool in body["tools"]}


async def test_an_interactive_session_has_the_question_tool_and_no_such_note(tmp_path: Path) -> None:
    body = await first_request(tmp_path, interactive=True)
    assert {tool["name"] for tool in body["tools"]} >= QUESTIONS
    assert "The user cannot answer" not in system_of(body)


async def test_a_custom_system_prompt_gets_the_note_and_an_empty_one_does_not(tmp_path: Path) -> None:
    text = system_of(await first_request(tmp_path, system_prompt="You review.", append_system_prompt="Be brief."))
    assert text.startswith("You review.\n\n# Non-interactive session\n")
    assert text.index("The user cannot answer") < text.index("Be brief.")
    assert "system" not in await first_request(tmp_path, system_prompt="")


async def test_non_interactive_plan_mode_asks_for_the_plan_as_the_answer(tmp_path: Path) -> None:
    body = await first_request(tmp_path, permission_mode=PermissionMode.PLAN)
    told = str(body["messages"])
    assert "give the complete plan as your answer" in told
    assert "ExitPlanMode" not in told
    body = await first_request(tmp_path, permission_mode=PermissionMode.PLAN, interactive=True)
    assert "present it with ExitPlanMode" in str(body["messages"])
