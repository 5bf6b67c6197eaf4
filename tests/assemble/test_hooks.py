"""Hooks from settings in the assembled engine: where they are read, trust, their environment."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from agentcli import HookRule
from agentcli.agent.engine import Engine
from agentcli.assemble import Options, build_engine
from agentcli.assemble.environment import Environment
from agentcli.assemble.hooks import hook_rules, hooks_for
from agentcli.config.paths import Paths
from agentcli.config.trust import TrustStore
from agentcli.core import events as ev
from agentcli.core.errors import UsageError
from agentcli.core.messages import Json
from agentcli.core.permission import PermissionMode
from tests.assemble.conftest import environ, write
from tests.support.assembled import Assembled
from tests.support.fakes import collect, only
from tests.support.scripts import call, provider_on, reply, transport_for

pytestmark = pytest.mark.anyio


def hooks(command: str, event: str = "PreToolUse", matcher: str = "", **rest: Any) -> Json:
    return {"hooks": {event: [{"matcher": matcher, "hooks": [{"type": "command", "command": command, **rest}]}]}}


def engine_for(project: Path, *replies: Json | str, **rest: Any) -> Engine:
    options: dict[str, Any] = {
        "cwd": project,
        "environ": environ(project),
        "provider": provider_on(transport_for(*replies)),
        "permission_mode": PermissionMode.BYPASS,
        "model": "claude-sonnet-5-5",
        "settings": '{"sandbox": {"mode": "off"}}',
    }
    return build_engine(Options(**{**options, **rest}))


def trust(project: Path) -> None:
    home = project.parent / "home"
    store = TrustStore(Paths.from_environ(environ(project)).state_dir, home)
    store.trust(store.state(project))


def listed(engine: Engine) -> list[tuple[str, str]]:
    return [(str(rule.action), rule.source) for rule, _last in engine.session.hooks.listing()]


async def opened(project: Path, **rest: Any) -> list[tuple[str, str]]:
    async with engine_for(project, **rest) as engine:
        return listed(engine)


# ----------------------------------------------------------------------------------------------------- where they are


async def test_hooks_of_all_layers_add_up_and_the_projects_need_trust(project: Path) -> None:
    home = project.parent / "home"
    write(home / ".config/agentcli/settings.json", hooks("user"))
    write(home / ".claude/settings.json", hooks("claude-user"))
    write(project / ".agentcli/settings.json", hooks("project"))
    write(project / ".claude/settings.json", {"model": "x", **hooks("claude-project")})
    write(project / ".claude/settings.local.json", hooks("claude-local"))
    own = [("user", "~/.config/agentcli/settings.json"), ("claude-user", "~/.claude/settings.json")]
    assert await opened(project) == own
    trust(project)
    assert await opened(project) == [
        ("project", ".agentcli/settings.json"),
        own[0],
        ("claude-local", ".claude/settings.local.json"),
        ("claude-project", ".claude/settings.json"),
        own[1],
    ]
    write(project / ".claude/settings.json", hooks("changed"))
    assert await opened(project) == own, "a change asks again"


async def test_claude_hooks_can_be_turned_off_by_the_user_alone(project: Path) -> None:
    home = project.parent / "home"
    write(home / ".claude/settings.json", hooks("claude-user"))
    write(project / ".agentcli/settings.json", {"claudeHooks": False})
    assert await opened(project, trust=True) == [("claude-user", "~/.claude/settings.json")]
    write(home / ".config/agentcli/settings.json", {"claudeHooks": False})
    assert await opened(project) == []


async def test_setting_sources_choose_the_files(project: Path) -> None:
    write(project.parent / "home/.claude/settings.json", hooks("user"))
    write(project / ".claude/settings.json", hooks("project"))
    assert await opened(project, trust=True, setting_sources=("project",)) == [("project", ".claude/settings.json")]


async def test_broken_hooks_warn_and_the_rest_works(project: Path) -> None:
    write(project.parent / "home/.claude/settings.json", {"hooks": {"Nope": [], "Stop": [{"hooks": [{}]}]}})
    write(
        project.parent / "home/.config/agentcli/settings.json",
        {"hooks": {"PreToolUse": [{"matcher": "(", "hooks": [{"command": "x"}]}, *hooks("ok")["hooks"]["PreToolUse"]]}},
    )
    async with engine_for(project) as engine:
        assert listed(engine) == [("ok", "~/.config/agentcli/settings.json")]
        texts = [notice.text for notice in engine.take_notices() if notice.code == "hooks"]
    assert any("not a valid regular expression" in text for text in texts)
    assert any("has no command" in text for text in texts)


async def test_a_wrong_rule_of_a_caller_is_a_usage_error(project: Path) -> None:
    with pytest.raises(UsageError, match="unknown hook event 'Before'"):
        engine_for(project, hooks=(HookRule("Before", "", "true"),))


# -------------------------------------------------------------------------------------------------------- running them


async def test_a_command_gets_the_project_but_no_keys(project: Path) -> None:
    write(
        project.parent / "home/.claude/settings.json",
        hooks('cat > input; env > environ; pwd > folder; echo "$CLAUDE_PROJECT_DIR $AGENTCLI_PROJECT_DIR" > dirs'),
    )
    (project / "below").mkdir()
    secrets = {"ANTHROPIC_API_KEY": "sk-ant-secret", "GH_TOKEN": "ghp_secret", "LD_PRELOAD": "/tmp/x.so"}
    path = f"{project}/below/bin:{os.environ['PATH']}"
    engine = engine_for(
        project / "below",
        reply(call("Bash", command="true")),
        "Ok.",
        environ={**environ(project), **secrets, "PATH": path},
    )
    async with engine:
        await collect(engine.submit("go"))
    found = (project / "environ").read_text()
    assert "secret" not in found
    assert "LD_PRELOAD" not in found
    assert f"{project}/below/bin" not in found
    assert "GIT_TERMINAL_PROMPT=0" in found
    assert (project / "folder").read_text().strip() == str(project)
    assert (project / "dirs").read_text().strip() == f"{project} {project}"
    data = json.loads((project / "input").read_text())
    assert data["tool_input"] == {"command": "true", "cwd": str(project / "below")}
    assert data["cwd"] == str(project / "below")
    assert Path(data["transcript_path"]).name == f"{data['session_id']}.jsonl"


async def test_a_script_that_changes_during_the_session_is_not_run(project: Path) -> None:
    script = project / ".agentcli/hooks/check.sh"
    write(project / ".agentcli/settings.json", hooks("sh .agentcli/hooks/check.sh", matcher="Bash"))
    script.parent.mkdir()
    script.write_text("echo checked >> log")
    trust(project)
    bash = reply(call("Bash", command="true"))
    async with engine_for(project, bash, "One.", bash, "Two.", bash, "Three.") as engine:
        await collect(engine.submit("go"))
        assert (project / "log").read_text() == "checked\n"
        script.write_text("echo hacked >> log")
        events = await collect(engine.submit("go"))
        assert (project / "log").read_text() == "checked\n"
        notices = [notice.text for notice in only(events, ev.NoticeRaised)]
        text = (
            "The project's hooks are off: .agentcli/hooks/check.sh changed. /trust reviews it and turns them on again."
        )
        assert notices == [text]
        assert only(events, ev.PermissionDecided)[0].behavior == "ask", "what the hook would have said is not known"
        trust(project)
        await engine.reread()
        await collect(engine.submit("go"))
        assert (project / "log").read_text() == "checked\nhacked\n"


async def test_trusting_the_project_turns_its_hooks_on_without_a_restart(project: Path) -> None:
    write(project / ".agentcli/settings.json", {**hooks("true"), "permissions": {"allow": ["Bash(make *)"]}})
    (project / ".agentcli/commands").mkdir()
    (project / ".agentcli/commands/hello.md").write_text("Say hello.")
    async with engine_for(project, permission_mode=PermissionMode.DEFAULT) as engine:
        assert listed(engine) == []
        assert engine.test_permission("Bash", "make all").behavior == "ask"
        trust(project)
        await engine.reread()
        assert listed(engine) == [("true", ".agentcli/settings.json")]
        assert engine.test_permission("Bash", "make all").behavior == "allow"
        assert engine.session.definitions is not None
        assert "hello" in engine.session.definitions.commands


async def test_functions_of_a_caller_run_in_a_thread_or_on_the_loop(project: Path) -> None:
    import threading

    threads: list[bool] = []

    def guard(data: Json) -> Json | None:
        threads.append(threading.current_thread() is threading.main_thread())
        dangerous = "rm" in data["tool_input"].get("command", "")
        return {"decision": "block", "reason": "No rm."} if dangerous else None

    async with Assembled(
        project,
        [reply(call("Bash", command="rm x")), "Ok."],
        options={"hooks": (HookRule("PreToolUse", "Bash", guard),)},
    ) as run:
        await run.run()
        assert "No rm." in run.results[0]
        assert run.asked == []
    assert threads == [False]


async def test_esc_ends_a_running_hook_and_its_children(project: Path) -> None:
    write(
        project.parent / "home/.claude/settings.json",
        hooks("trap '' TERM; sleep 100 & echo $! > child.new; mv child.new child; wait", timeout=60),
    )
    child = project / "child"
    async with engine_for(project, reply(call("Bash", command="true")), "Never.") as engine:

        async def press_escape() -> None:
            while not child.exists():
                await asyncio.sleep(0.01)
            engine.abort()

        pressing = asyncio.ensure_future(press_escape())
        began = time.monotonic()
        events = await collect(engine.submit("go"))
        await pressing
        assert time.monotonic() - began < 10
        assert only(events, ev.Result)[0].terminal == "aborted_tools"
    stat = Path(f"/proc/{child.read_text().strip()}/stat")
    for _attempt in range(200):
        # Nobody may have reaped it yet.
        if not stat.exists() or ") Z" in stat.read_text():
            return
        await asyncio.sleep(0.01)
    pytest.fail("the child of the hook still runs")


async def test_rules_from_elsewhere_come_last(project: Path) -> None:
    write(project.parent / "home/.claude/settings.json", hooks("first"))
    env = Environment(Options(cwd=project, environ=environ(project)))
    found = hooks_for(env, [*hook_rules(env), HookRule("Stop", "", "second", source="a plugin")])
    assert [(rule.action, rule.source) for rule, _last in found.listing()] == [
        ("first", "~/.claude/settings.json"),
        ("second", "a plugin"),
    ]


async def test_hooks_that_were_trusted_later_hold_for_sub_agents_too(project: Path) -> None:
    write(project / ".agentcli/settings.json", hooks("echo 'Not in agents.' >&2; exit 2", matcher="Bash"))
    task = reply(call("Task", description="look", prompt="look", subagent_type="general"))
    agent = [reply(call("Bash", command="touch made")), "I could not."]
    async with engine_for(project, task, *agent, "Done.") as engine:
        trust(project)
        await engine.reread()
        events = await collect(engine.submit("go"))
    assert not (project / "made").exists()
    denied = [event for event in only(events, ev.HookFinished) if event.outcome == "denied"]
    assert [(event.text, bool(event.agent)) for event in denied] == [("Not in agents.", True)]


@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest"])
async def test_a_hook_cannot_approve_a_protected_path(project: Path, event: str) -> None:
    answer = {"permissionDecision": "allow", "decision": {"behavior": "allow"}}
    printed = json.dumps({"hookSpecificOutput": answer})
    write(project.parent / "home/.config/agentcli/settings.json", hooks(f"echo '{printed}'", event))
    calls = [call("Write", file_path=name, content="{}") for name in ("a.json", ".claude/settings.json")]
    async with Assembled(project, [reply(*calls), "Done."], options={"trust": False}) as run:
        await run.run()
        assert [asked.title for asked in run.asked] == ["Write .claude/settings.json"]
        assert (project / "a.json").exists()


async def test_the_hook_of_a_refused_call_sees_the_same_absolute_path_as_other_hooks(project: Path) -> None:
    (project / "a.txt").write_text("one\n")
    seen = project.parent / "seen"
    configured: dict[str, Any] = {}
    for event in ("PreToolUse", "PostToolUseFailure"):
        configured |= hooks(f"cat >> {seen}; echo >> {seen}", event)["hooks"]
    write(project.parent / "home/.config/agentcli/settings.json", {"hooks": configured})
    rules = json.dumps({"sandbox": {"mode": "off"}, "permissions": {"deny": ["Read(a.txt)"]}})
    async with engine_for(project, reply(call("Read", file_path="a.txt")), "Done.", settings=rules) as engine:
        await collect(engine.submit("go"))
    told = [json.loads(line) for line in seen.read_text().splitlines() if line]
    assert [one["hook_event_name"] for one in told] == ["PreToolUse", "PostToolUseFailure"]
    assert [one["tool_input"] for one in told] == [{"file_path": str(project / "a.txt")}] * 2
