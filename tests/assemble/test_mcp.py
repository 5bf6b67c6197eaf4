"""MCP servers of an assembled session: where they are read, which one wins, trust, choices."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.engine import Engine
from agentcli.assemble import Options, build_engine
from agentcli.assemble.environment import Environment
from agentcli.assemble.mcp import find_servers
from agentcli.config.paths import Paths
from agentcli.config.trust import TrustStore
from agentcli.core import events as ev
from agentcli.core.aio import cancel_and_wait
from agentcli.core.errors import UsageError
from agentcli.core.messages import Json
from agentcli.core.permission import Answer
from agentcli.mcp.configuration import ServerConfig
from tests.assemble.conftest import environ, write
from tests.support.assembled import Assembled
from tests.support.scripts import provider_on, transport_for

pytestmark = pytest.mark.anyio

SCRIPT = Path(__file__).parents[1] / "support" / "mcp_server.py"


def servers(*names: str, command: str = "nothing-of-this-name") -> Json:
    return {"mcpServers": {name: {"command": command} for name in names}}


def small() -> Json:
    return {"mcpServers": {"small": {"command": sys.executable, "args": ["-S", str(SCRIPT)]}}}


def user_file(project: Path) -> Path:
    return project.parent / "home/.config/agentcli/settings.json"


def options_for(project: Path, **rest: Any) -> Options:
    options: dict[str, Any] = {
        "cwd": project,
        "environ": environ(project),
        "provider": provider_on(transport_for("hello")),
        "model": "claude-sonnet-5-5",
        "settings": '{"sandbox": {"mode": "off"}}',
    }
    return Options(**{**options, **rest})


def engine_for(project: Path, **rest: Any) -> Engine:
    return build_engine(options_for(project, **rest))


def trust(project: Path) -> None:
    store = TrustStore(Paths.from_environ(environ(project)).state_dir, project.parent / "home")
    store.trust(store.state(project))


def found(project: Path, **rest: Any) -> list[tuple[str, str]]:
    env = Environment(options_for(project, **rest))
    return [(config.name, config.origin) for config in find_servers(env).configs]


def states(engine: Engine) -> dict[str, str]:
    assert engine.session.mcp is not None
    return {server.name: server.state for server in engine.session.mcp}


def test_without_a_server_or_a_hook_nothing_for_them_is_imported(project: Path) -> None:
    code = (
        "import sys; from pathlib import Path; import agentcli.tui.app; from agentcli.assemble import *;"
        'settings = \'{"sandbox": {"mode": "off"}}\';'
        f"options = Options(cwd=Path({str(project)!r}), key_needed=False, settings=settings);"
        "engine = build_engine(options);"
        "assert engine.session.mcp is None;"
        "print([m for m in sys.modules if 'mcp' in m.split('.')]);"
        "print([m for m in sys.modules if m.startswith('agentcli.hooks')])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ(project) | {"LANG": "C"}
    )
    assert ran.stdout.splitlines() == ["['agentcli.assemble.mcp']", "[]"]


def test_a_stronger_place_hides_servers_with_the_same_name(project: Path) -> None:
    flag = json.dumps(servers("flag", "x"))
    write(project / "more.json", servers("more", "x", "flag"))
    write(project / ".agentcli/settings.local.json", servers("local", "x"))
    write(project / ".mcp.json", servers("project", "x"))
    write(project / ".agentcli/settings.json", servers("shared", "project", "x"))
    write(user_file(project), servers("user", "shared", "x"))
    trust(project)
    caller = (ServerConfig("x", "stdio", "caller", command="mine"),)
    origins = {
        "x": "",
        "more": "--mcp-config more.json",
        "flag": "--mcp-config more.json",
        "local": ".agentcli/settings.local.json",
        "project": ".mcp.json",
        "shared": ".agentcli/settings.json",
        "user": "~/.config/agentcli/settings.json",
    }
    chosen = dict(found(project, mcp_servers=caller, mcp_config=(flag, "more.json")))
    assert {name: origin.replace(f"{project}/", "") for name, origin in chosen.items()} == origins


def test_strict_ignores_all_other_places(project: Path) -> None:
    write(project / ".mcp.json", servers("project"))
    write(user_file(project), servers("user"))
    trust(project)
    flag = json.dumps(servers("flag"))
    assert [name for name, _ in found(project, mcp_config=(flag,), strict_mcp_config=True)] == ["flag"]
    assert found(project, strict_mcp_config=True) == []


def test_setting_sources_choose_the_places(project: Path) -> None:
    write(project / ".mcp.json", servers("project"))
    write(project / ".agentcli/settings.local.json", servers("local"))
    write(user_file(project), servers("user"))
    trust(project)
    for source in ("user", "project", "local"):
        assert [name for name, _ in found(project, setting_sources=(source,))] == [source]
    assert found(project, setting_sources=()) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("missing.json", "--mcp-config: there is no file"),
        ("{", "--mcp-config, line 1, column 2, is not valid JSON"),
        ("{}", '--mcp-config: expected {"mcpServers": {…}}.'),
        ('{"mcpServers": {"x": {"command": 1}}}', "--mcp-config: MCP server 'x': 'command' must be a string."),
    ],
)
def test_an_invalid_flag_is_refused(project: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        found(project, mcp_config=(text,))
    assert str(error.value).startswith(said)
    assert "not used" not in str(error.value), "nothing starts"


def test_an_unsupported_server_of_a_flag_is_reported_and_the_others_are_used(project: Path) -> None:
    both = {"mcpServers": {"calc": {"type": "sdk", "name": "calc"}, "x": {"command": "y"}}}
    listed = find_servers(Environment(options_for(project, mcp_config=(json.dumps(both),))))
    assert [config.name for config in listed.configs] == ["x"]
    assert "'calc': type 'sdk'" in listed.problems[0]


@pytest.mark.parametrize("text", ["{", "[]", '{"mcpServers": 1}', '{"mcpServers": {"x": 1}}'])
async def test_a_broken_file_of_the_project_is_a_notice(project: Path, text: str) -> None:
    (project / ".mcp.json").write_text(text)
    env = Environment(options_for(project, trust=True))
    listed = find_servers(env)
    assert not listed.configs
    assert listed.problems[0].startswith(".mcp.json")


def test_a_link_out_of_the_project_is_not_followed(project: Path) -> None:
    write(project.parent / "elsewhere.json", servers("x"))
    (project / ".mcp.json").symlink_to(project.parent / "elsewhere.json")
    listed = find_servers(Environment(options_for(project, trust=True)))
    assert not listed.configs
    assert "not a regular file inside the project" in listed.problems[0]


async def test_servers_of_a_project_wait_for_trust_and_start_after_it(project: Path) -> None:
    write(project / ".mcp.json", small())
    write(user_file(project), servers("user"))
    async with engine_for(project) as engine:
        assert states(engine) == {"small": "unapproved", "user": "waiting"}
        assert engine.session.mcp is not None
        before = engine.session.mcp.get("user")
        engine.session.mcp.start()
        await engine.session.mcp.wait_for_start(20)
        assert states(engine)["small"] == "unapproved"
        trust(project)
        await engine.reread()
        await engine.session.mcp.wait_for_start(20)
        assert states(engine) == {"small": "connected", "user": "failed"}
        assert engine.session.mcp.get("user") is before
        connected = engine.session.mcp.get("small")
        await engine.reread()
        assert engine.session.mcp.get("small") is connected
        assert states(engine)["small"] == "connected"


async def test_a_changed_file_needs_trust_again(project: Path) -> None:
    write(project / ".mcp.json", servers("a"))
    trust(project)
    async with engine_for(project) as engine:
        assert states(engine) == {"a": "waiting"}
        write(project / ".mcp.json", servers("a", "b"))
        await engine.reread()
        assert states(engine) == {"a": "unapproved", "b": "unapproved"}
    async with engine_for(project) as engine:
        assert states(engine) == {"a": "unapproved", "b": "unapproved"}
    async with engine_for(project, trust=True) as engine:
        assert states(engine) == {"a": "waiting", "b": "waiting"}


async def test_a_removed_server_is_stopped(project: Path) -> None:
    write(user_file(project), small())
    async with engine_for(project) as engine:
        assert engine.session.mcp is not None
        engine.session.mcp.start()
        await engine.session.mcp.wait_for_start(20)
        server = engine.session.mcp.get("small")
        assert server is not None
        assert server.state == "connected", server.error
        write(user_file(project), servers("other"))
        await engine.reread()
        assert server.state == "waiting"
        assert list(states(engine)) == ["other"]


async def test_what_the_user_switches_off_stays_off_in_this_project(project: Path, tmp_path: Path) -> None:
    write(user_file(project), {"mcpServers": {"on": {"command": "no"}, "off": {"command": "no", "disabled": True}}})
    async with engine_for(project) as engine:
        assert states(engine) == {"on": "waiting", "off": "disabled"}
        assert engine.session.mcp is not None
        await engine.session.mcp.set_enabled("on", False)
        await engine.session.mcp.set_enabled("off", True)
        await engine.session.mcp.set_tool_enabled("off", "write", False)
        await engine.session.mcp.set_tool_enabled("off", "read", False)
        await engine.session.mcp.set_tool_enabled("off", "read", True)
    async with engine_for(project) as engine:
        assert states(engine) == {"on": "disabled", "off": "waiting"}
        assert engine.session.mcp is not None
        server = engine.session.mcp.get("off")
        assert server is not None
        assert server.disabled_tools == {"write"}
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    async with engine_for(other, environ=environ(project)) as engine:
        assert states(engine) == {"on": "waiting", "off": "disabled"}


async def test_switching_an_unapproved_server_on_does_not_start_it(project: Path) -> None:
    write(project / ".mcp.json", small())
    async with engine_for(project) as engine:
        assert engine.session.mcp is not None
        await engine.session.mcp.set_enabled("small", False)
        await engine.session.mcp.set_enabled("small", True)
        assert states(engine) == {"small": "unapproved"}


async def test_time_limits_come_from_the_environment(project: Path) -> None:
    write(user_file(project), servers("x"))
    given = environ(project) | {"MCP_TIMEOUT": "1500", "MCP_TOOL_TIMEOUT": "soon"}
    async with engine_for(project, environ=given) as engine:
        assert engine.session.mcp is not None
        assert engine.session.mcp.limits.start_seconds == engine.session.mcp.limits.first_prompt_seconds == 1.5
        assert engine.session.mcp.limits.call_seconds == 600
    async with engine_for(project, environ=environ(project) | {"MCP_TIMEOUT": "30000"}) as engine:
        assert engine.session.mcp is not None
        assert engine.session.mcp.limits.first_prompt_seconds == 30
    async with engine_for(project) as engine:
        assert engine.session.mcp is not None
        assert (engine.session.mcp.limits.start_seconds, engine.session.mcp.limits.first_prompt_seconds) == (30, 10)


def test_variables_come_from_the_environment_and_the_users_settings(project: Path) -> None:
    write(user_file(project), {"env": {"B": "2"}, "mcpServers": {"x": {"command": "${A}-${B}"}}})
    env = Environment(options_for(project, environ=environ(project) | {"A": "1"}))
    assert find_servers(env).configs[0].command == "1-2"


async def test_servers_that_appear_in_a_session_without_any_are_used_and_announced(project: Path) -> None:
    async with engine_for(project) as engine:
        assert engine.session.mcp is None
        write(user_file(project), small())
        await engine.live_files.refresh_settings()
        assert [notice.text for notice in engine.take_notices()] == [
            "MCP servers reloaded: new: small. /mcp shows their state."
        ]
        assert engine.session.mcp is not None
        await engine.session.mcp.wait_for_start(20)
        assert states(engine) == {"small": "connected"}
        user_file(project).unlink()
        await engine.live_files.refresh_settings()
        assert [notice.text for notice in engine.take_notices()] == [
            "MCP servers reloaded: removed: small. /mcp shows their state."
        ]
        assert states(engine) == {}


async def test_a_flag_file_that_became_invalid_leaves_the_servers_as_they_are(project: Path) -> None:
    write(project / "more.json", servers("x"))
    async with engine_for(project, mcp_config=("more.json",)) as engine:
        (project / "more.json").write_text("{")
        await engine.reread()
        assert states(engine) == {"x": "waiting"}


ASKING_SCRIPT = Path(__file__).parents[1] / "support" / "mcp_server.py"
SMALL = ServerConfig("small", "stdio", command=sys.executable, args=("-S", str(ASKING_SCRIPT)))


def assembled(folder: Path, *replies: str, **options: Any) -> Assembled:
    return Assembled(folder, list(replies), options={"mcp_servers": (SMALL,), **options})


async def connected(run: Assembled) -> None:
    servers = run.engine.session.mcp
    assert servers is not None
    servers.start()
    await servers.wait_for_start(20)


async def asks(run: Assembled, tool: str, answer: Answer) -> Json:
    """The result of a tool whose request is answered while nothing else runs."""
    servers, questions = run.engine.session.mcp, run.engine.session.server_questions
    assert servers is not None
    assert questions is not None
    server = servers.get("small")
    assert server is not None
    questions.take_events()
    listening = asyncio.create_task(questions.wait_for_events())
    await asyncio.sleep(0)
    calling = asyncio.create_task(server.call(tool, {}))
    await asyncio.wait({listening, calling}, return_when=asyncio.FIRST_COMPLETED)
    if listening.done():
        (question,) = listening.result()
        assert isinstance(question, ev.PermissionRequested)
        assert run.engine.answer(question.request_id, answer)
    await cancel_and_wait([listening])
    (content,) = (await calling).content
    found: Json = json.loads(content.text)
    return found


async def test_a_user_fills_in_a_form_and_allows_a_reply_of_the_model(tmp_path: Path) -> None:
    async with assembled(tmp_path, "Hello!") as run:
        await connected(run)
        filled = await asks(run, "ask", Answer("allow", updated_input={"content": {"name": "Ada"}}))
        assert filled == {"action": "accept", "content": {"name": "Ada"}}
        said = await asks(run, "think", Answer("allow"))
        assert said["content"]["text"] == "Hello!"
        assert run.engine.costs.totals.cost_usd > 0


async def test_a_run_without_a_user_claims_nothing(tmp_path: Path) -> None:
    async with assembled(tmp_path, interactive=False) as run:
        await connected(run)
        for tool in ("ask", "think"):
            assert (await asks(run, tool, Answer("allow")))["error"]


async def test_a_budget_of_nothing_switches_sampling_off(tmp_path: Path) -> None:
    async with assembled(tmp_path, settings='{"sandbox": {"mode": "off"}, "mcp": {"samplingBudgetUsd": 0}}') as run:
        await connected(run)
        assert (await asks(run, "think", Answer("allow")))["error"]
        assert (await asks(run, "ask", Answer("deny")))["action"] == "decline"
