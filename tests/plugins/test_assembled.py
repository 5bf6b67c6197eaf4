"""Plugins on the assembled engine: each kind of part, reloads, failures and trust."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.commands.line import run_command
from agentcli.commands.registry import find, rows
from agentcli.config.trust import TrustStore
from agentcli.core import events as ev
from agentcli.core.aio import cancel_and_wait
from agentcli.core.permission import PermissionMode
from agentcli.hooks.rules import EVENTS
from agentcli.plugins.collection import PluginPlaces
from agentcli.plugins.loader import PluginSource
from agentcli.plugins.plugin import HOOK_EVENTS
from tests.support.assembled import Assembled
from tests.support.fakes import only, result_of
from tests.support.scripts import call, reply, say

pytestmark = pytest.mark.anyio
EXAMPLES = Path(__file__).parent.parent / "data" / "plugins"


def user_folder(project: Path) -> Path:
    folder = project.parent / "home/.config/agentcli/plugins"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def install(project: Path, *names: str) -> Path:
    for name in names:
        shutil.copy(EXAMPLES / f"{name}.py", user_folder(project))
    return user_folder(project)


def write(path: Path, text: str) -> None:
    """With another time than any version before, also within one tick of the clock."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(text)
    os.utime(path, ns=(before + 1_000_000_000, before + 1_000_000_000))


def define(project: Path, name: str, body: str) -> None:
    """A plugin of the user."""
    write(user_folder(project) / f"{name}.py", f"from agentcli import *\nplugin = Plugin()\n{body}")


def tools_of(body: dict[str, object]) -> list[str]:
    return [tool["name"] for tool in body["tools"]]  # type: ignore[attr-defined, index]


async def test_the_model_calls_the_tool_of_a_plugin(project: Path) -> None:
    install(project, "word_count")
    async with Assembled(project, [reply(call("word_count", text="one two three")), "Three."]) as run:
        events = await run.run("How many words?")
        assert (run.results, run.asked) == (["3"], [])
        assert "word_count" in tools_of(run.requests[0])
        assert "word_count" in only(events, ev.SessionStarted)[0].tools


async def test_plugins_load_after_the_start_and_an_interruption_does_not_lose_them(project: Path) -> None:
    install(project, "word_count")
    async with Assembled(project, ["Hi."]) as run:
        plugins = run.engine.session.plugins
        assert plugins is not None
        assert not plugins.loaded
        loading = asyncio.ensure_future(run.engine.warm())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        loading.cancel()
        await asyncio.wait({loading})
        await run.run("go")
        assert "word_count" in tools_of(run.requests[0])


async def test_the_list_shows_what_each_plugin_adds(project: Path) -> None:
    install(project, "word_count", "standup")
    write(user_folder(project) / "bad.py", "import nothing_like_it\x1b[2J\n")
    async with Assembled(project, []) as run:
        text = result_of(await run.follow(run_command(run.engine, "plugins", ""))).text
        assert re.sub(r"\d+ ms", "N ms", text).split("\n")[2:] == [
            "standup  user  ~/.config/agentcli/plugins/standup.py  N ms",
            "  adds: command /turns, command /standup",
            "word_count  user  ~/.config/agentcli/plugins/word_count.py  N ms",
            "  adds: tool word_count",
        ]
        assert text.startswith("bad  user  ~/.config/agentcli/plugins/bad.py  not loaded\n  problem: ~/")
        install(project, "echo")
        again = result_of(await run.follow(run_command(run.engine, "plugins", "reload"))).text
        assert "adds: provider echo" in again


async def test_commands_show_text_or_send_a_prompt(project: Path) -> None:
    install(project, "standup")
    async with Assembled(project, ["Done."]) as run:
        await run.engine.live_files.refresh()
        assert [row.described for row in rows(run.engine) if row.source == "plugin"] == [
            "Summarise the day (plugin)",
            "Count the messages of this conversation (plugin)",
        ]
        assert getattr(find("standup", run.engine), "usage", "") == "/standup [topic]"
        shown = await run.follow(run_command(run.engine, "turns", ""))
        assert result_of(shown).text == "0 messages"
        events = await run.follow(run_command(run.engine, "standup", "tests"))
        started = next(event for event in events if isinstance(event, ev.SessionStarted))
        assert started.commands == ["standup", "turns"]
        assert "Topic: tests." in run.last_content()[-1]["text"]


async def test_a_context_step_shortens_old_results_and_cost_counts_what_it_saved(project: Path) -> None:
    install(project, "short_logs")
    (project / "log.txt").write_text("line of the log\n" * 400)
    path = str(project / "log.txt")
    replies = [reply(call("Read", file_path=path)), "Read.", "Again.", "More."]
    async with Assembled(project, replies) as run:
        await run.run("Read the log")
        await run.run("And now?")
        edited = [event for event in run.events if isinstance(event, ev.ContextEdited)]
        assert [event.step for event in edited] == ["short_logs"]
        assert "(a log without errors)" in str(run.requests[-1]["messages"])
        assert run.engine.costs.spending.steps.saved_tokens >= edited[0].freed_tokens > 0


@pytest.mark.parametrize(
    "body", ["raise ValueError('no')", "return 5", "return StepPlan((ContextEdit(kind='drop', target='x:0'),), 'no')"]
)
async def test_a_context_step_that_fails_changes_nothing(project: Path, body: str) -> None:
    define(project, "bad", f"@plugin.context_step\ndef bad(messages, state):\n    {body}\n")
    async with Assembled(project, ["Fine."]) as run:
        assert result_of(await run.run("go")).text == "Fine."
        assert [text for text in run.notices if "the context step bad failed" in text]


async def test_a_hook_denies_a_call_until_its_plugin_is_removed(project: Path) -> None:
    folder = install(project, "no_force")
    push = reply(call("Bash", command="echo git push --force"))
    async with Assembled(project, [push, "No.", push, "Done."]) as run:
        await run.run("push")
        assert "Forced pushes are not allowed here." in run.results[0]
        (folder / "no_force.py").unlink()
        await run.run("push")
        assert run.results[1] == "git push --force"
        assert "Plugin no_force was removed." in run.notices


async def test_sub_agents_have_the_tools_and_hooks_of_plugins(project: Path) -> None:
    install(project, "word_count", "no_force")
    started = reply(call("Task", description="Count", prompt="Count and push"))
    work = reply(call("word_count", text="a b"), call("Bash", command="echo git push --force"))
    async with Assembled(project, [started, work, "Counted.", "Done."]) as run:
        await run.run("go")
        results = str(run.requests[2]["messages"][-1])
        assert "Forced pushes are not allowed here." in results
        assert "'2'" in results


async def test_a_hook_that_raises_is_reported_with_file_and_line_and_the_user_is_asked(project: Path) -> None:
    text = (EXAMPLES / "no_force.py").read_text().replace('event["tool_input"]', 'event["nothing"]')
    write(user_folder(project) / "no_force.py", text)
    replies = [reply(call("Bash", command="echo hi")), "Done."]
    async with Assembled(project, replies, options={"permission_mode": PermissionMode.BYPASS}) as run:
        await run.run("go")
        failed = [event for event in run.events if isinstance(event, ev.HookFinished)]
        assert "no_force.py:12: KeyError: 'nothing'" in failed[0].text
        assert run.results == ["hi"]


async def test_hooks_of_plugins_run_for_prompts_and_the_start_of_the_session(project: Path) -> None:
    define(
        project,
        "context",
        "@plugin.hook('SessionStart')\ndef begun(event):\n    return 'Answer in French.'\n"
        "@plugin.hook('UserPromptSubmit')\nasync def sent(event):\n    return f\"In {event['cwd'][:1]}\"\n",
    )
    async with Assembled(project, ["Oui.", "Oui."]) as run:
        await run.run("go")
        first = str(run.requests[0]["messages"])
        assert "Answer in French." in first
        assert "In /" in first
        assert run.engine.session.hooks is not None
        assert len(list(run.engine.session.hooks.listing())) == 2


def test_plugins_know_the_same_hook_events_as_settings() -> None:
    assert HOOK_EVENTS == EVENTS


@pytest.mark.parametrize(
    ("old", "new", "shown", "problem"),
    [
        ("", "", "## 2 words", ""),
        ("int(call.output)", "call.nothing", "", "bars.py:13: the renderer of word_count failed: AttributeError"),
        ('" {count} words"', '"\\x1b[2Jx\\n[bold]y"', "##x [bold]y", ""),
    ],
    ids=["works", "fails", "control sequences"],
)
async def test_a_renderer_makes_the_display_of_a_call_unless_it_fails(
    project: Path, old: str, new: str, shown: str, problem: str
) -> None:
    install(project, "word_count")
    write(user_folder(project) / "bars.py", (EXAMPLES / "bars.py").read_text().replace(old, new))
    async with Assembled(project, [reply(call("word_count", text="a b")), "Two."]) as run:
        events = await run.run("go")
        finished = next(event for event in events if isinstance(event, ev.ToolFinished))
        assert finished.display.get("text", "") == shown
        if not new:
            assert finished.display["lines"] == [[["##", "success"], [" 2 words", "text"]]]
        assert run.results == ["2"]
        assert [text for text in run.notices if problem and problem in text] == [
            text for text in run.notices if problem
        ]


@pytest.mark.parametrize(("name", "said"), [("echo", "You said:"), ("ecco", "There is no provider named ecco")])
async def test_the_settings_choose_the_provider_of_a_plugin(project: Path, name: str, said: str) -> None:
    install(project, "echo")
    settings = f'{{"sandbox": {{"mode": "off"}}, "provider": "{name}"}}'
    async with Assembled(project, [], options={"provider": None, "settings": settings}) as run:
        result = result_of(await run.run("Hello there"))
        assert said in f"{result.text} {result.errors}"


@pytest.mark.parametrize(
    ("old", "new", "result", "notice"),
    [
        ("len(text.split())", "len(text.split()) + 1", "3", "Plugin word_count loaded: tool word_count."),
        ("Plugin()", "Plugn()", "2", "NameError: name 'Plugn' is not defined"),
    ],
)
async def test_a_changed_version_is_used_if_it_loads_without_changing_the_request(
    project: Path, old: str, new: str, result: str, notice: str
) -> None:
    folder = install(project, "word_count")
    replies = [reply(call("word_count", text="a b")), "Two.", reply(call("word_count", text="a b")), "Three."]
    async with Assembled(project, replies) as run:
        await run.run("go")
        write(folder / "word_count.py", (folder / "word_count.py").read_text().replace(old, new))
        await run.run("again")
        assert run.results == ["2", result]
        assert run.requests[0]["tools"] == run.requests[-1]["tools"]
        assert not [event for event in run.events if isinstance(event, ev.PrefixBroken)]
        assert len([text for text in run.notices if notice in text]) == 1


async def test_a_new_tool_is_used_at_once_and_its_price_is_reported(project: Path) -> None:
    async with Assembled(project, ["Hi.", reply(call("word_count", text="a b")), "Two."]) as run:
        await run.run("go")
        install(project, "word_count")
        await run.run("again")
        assert run.results == ["2"]
        broken = [event for event in run.events if isinstance(event, ev.PrefixBroken)]
        assert [event.block for event in broken] == ["the tool word_count"]


async def test_saved_plugins_are_reloaded_within_a_second_while_the_session_is_idle(project: Path) -> None:
    folder = install(project, "word_count")
    async with Assembled(project, []) as run:
        plugins = run.engine.session.plugins
        assert plugins is not None
        await run.engine.warm()
        watching = asyncio.ensure_future(run.engine.live_files.wait_for_changes())
        waiting = asyncio.ensure_future(plugins.wait_for_notices())
        write(folder / "word_count.py", (EXAMPLES / "word_count.py").read_text().replace("word_count", "count_words"))
        notices = await asyncio.wait_for(waiting, 5)
        await cancel_and_wait([watching])
        assert [notice.text for notice in notices] == ["Plugin word_count loaded: tool count_words."]
        assert [tool.name for tool in plugins.active.tools] == ["count_words"]


async def test_a_plugin_saved_during_a_prompt_answers_from_the_next_one_on_as_the_notice_says(
    project: Path,
) -> None:
    folder = install(project, "word_count")
    count = reply(call("word_count", text="one two"))
    newer = (EXAMPLES / "word_count.py").read_text().replace("len(text.split())", "99")
    async with Assembled(project, [count, count, "Done.", count, "Done."]) as run:
        events: list[ev.Event] = []
        async with aclosing(run.engine.submit("go")) as stream:
            async for event in stream:
                events.append(event)
                if isinstance(event, ev.ToolFinished) and "99" not in (folder / "word_count.py").read_text():
                    write(folder / "word_count.py", newer)
                    await run.engine.live_files.refresh()
        (notice,) = only(events, ev.NoticeRaised)
        assert notice.text == (
            "Plugin word_count loaded: tool word_count. The running prompt continues with the earlier version; the "
            "next one uses the new version."
        )
        assert run.results == ["2", "2"]
        await run.run("again")
        assert run.results[-1] == "99"


HEAD = "from agentcli import Plugin\nplugin = Plugin()\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def broken(:\n", "bad.py:1: SyntaxError"),
        ("import nothing_like_it\n", "bad.py:1: ModuleNotFoundError"),
        ("import sys\n\nsys.exit(3)\n", "bad.py:3: SystemExit: 3"),
        ("x = 1\n", "bad.py:1: it has no `plugin = Plugin()`"),
        (
            f"{HEAD}\n@plugin.tool\ndef f(x: complex) -> int:\n    'x'\n",
            "bad.py:4: the annotation <class",
        ),
        (f"{HEAD}@plugin.tool\ndef f(x: int) -> int:\n    return x\n", "bad.py:3: the tool f needs a docstring"),
        (
            f"{HEAD}@plugin.hook('PreTool')\ndef f(event): ...\n",
            "bad.py:3: ValueError: There is no hook event",
        ),
        (f"{HEAD}@plugin.tool\ndef Bash(x: int) -> int:\n    'x'\n", "bad.py:3: there is already a tool named Bash"),
    ],
)
async def test_a_plugin_that_fails_is_reported_with_file_and_line(project: Path, text: str, problem: str) -> None:
    install(project, "word_count")
    write(user_folder(project) / "bad.py", text)
    async with Assembled(project, ["Hi."]) as run:
        assert result_of(await run.run("go")).text == "Hi."
        assert "word_count" in tools_of(run.requests[0])
        assert [notice for notice in run.notices if problem in notice]
        log = project.parent / "home/.local/state/agentcli/plugins.log"
        assert "already a tool" in problem or "bad.py" in log.read_text()


async def test_a_plugin_that_never_ends_is_skipped(project: Path) -> None:
    install(project, "word_count")
    write(user_folder(project) / "hangs.py", "n = 0\nwhile True:\n    n += 1\n")
    async with Assembled(project, ["Hi."]) as run:
        assert run.engine.session.plugins is not None
        collection = run.engine.session.plugins.collection
        collection.loading = replace(collection.loading, limit=0.2)
        assert result_of(await run.run("go")).text == "Hi."
        problem = next(notice for notice in run.notices if "hangs.py" in notice)
        assert "it did not end within 0.2 seconds" in problem
        assert "hangs.py:2:" in problem or "hangs.py:3:" in problem
        assert "word_count" in tools_of(run.requests[0])


def project_plugin(project: Path) -> Path:
    folder = project / ".agentcli/plugins"
    folder.mkdir(parents=True)
    text = (EXAMPLES / "word_count.py").read_text()
    write(folder / "word_count.py", f"with open({str(project / 'ran')!r}, 'a') as ran:\n    ran.write('x')\n{text}")
    return folder / "word_count.py"


def trust(project: Path) -> None:
    home = project.parent / "home"
    home.mkdir(exist_ok=True)
    store = TrustStore(home / ".local/state/agentcli", home)
    store.trust(store.state(project))


async def test_a_projects_plugin_does_not_run_before_the_project_is_trusted(project: Path) -> None:
    project_plugin(project)
    async with Assembled(project, ["Hi."], options={"trust": False}) as run:
        await run.engine.warm()
        await run.run("go")
        assert not (project / "ran").exists()
        assert "word_count" not in tools_of(run.requests[0])
        assert [text for text in run.notices if ".agentcli/plugins/word_count.py: not loaded" in text]


async def test_a_trusted_project_loads_its_plugin_until_the_content_changes(project: Path) -> None:
    path = project_plugin(project)
    trust(project)
    replies = [reply(call("word_count", text="a")), say("1"), reply(call("word_count", text="a")), "1", "Hi."]
    async with Assembled(project, replies, options={"trust": False}) as run:
        await run.run("go")
        assert (project / "ran").read_text() == "x"
        write(path, path.read_text().replace("len(text.split())", "99"))
        await run.run("again")
        assert (project / "ran").read_text() == "x"
        assert run.results == ["1", "1"]
        assert [text for text in run.notices if "The version from before stays in use." in text]
        trust(project)
        await run.run("once more")
        assert (project / "ran").read_text() == "xx"


async def test_a_plugin_that_is_swapped_after_the_check_runs_as_it_was_checked(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project_plugin(project)
    trust(project)
    check = PluginPlaces.is_trusted

    def swapping(self: PluginPlaces, source: PluginSource, data: bytes, digests: Mapping[str, str] | None) -> bool:
        found = check(self, source, data, digests)
        path.unlink()
        write(project / "evil.py", f"open({str(project / 'evil')!r}, 'w').close()\n")
        path.symlink_to(project / "evil.py")
        return found

    monkeypatch.setattr(PluginPlaces, "is_trusted", swapping)
    async with Assembled(project, ["Hi."], options={"trust": False}) as run:
        await run.run("go")
        assert (project / "ran").exists()
        assert not (project / "evil").exists()


async def test_a_module_beside_a_plugin_keeps_the_trust_until_a_cache_is_planted(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = project_plugin(project)
    write(path.with_name("_words.py"), "WORDS = 1\n")
    write(path, f"import sys\nsys.path.insert(0, {str(path.parent)!r})\nimport _words\n{path.read_text()}")
    trust(project)
    for ran in ("x", "xx"):
        monkeypatch.delitem(sys.modules, "_words", raising=False)
        async with Assembled(project, ["Hi."], options={"trust": False}) as run:
            await run.run("go")
        assert (project / "ran").read_text() == ran
    (path.parent / "__pycache__").mkdir()
    write(path.parent / f"__pycache__/_words.{sys.implementation.cache_tag}.pyc", "planted")
    async with Assembled(project, ["Hi."], options={"trust": False}) as run:
        await run.run("go")
        assert (project / "ran").read_text() == "xx"


async def test_the_setting_switches_plugins_off(project: Path) -> None:
    install(project, "word_count")
    settings = '{"sandbox": {"mode": "off"}, "plugins": false}'
    async with Assembled(project, ["Hi."], options={"settings": settings}) as run:
        await run.run("go")
        assert run.engine.session.plugins is None
        assert "word_count" not in tools_of(run.requests[0])


async def test_an_installed_package_adds_a_plugin(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site-packages"
    info = site / "words_plugin-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: words-plugin\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[agentcli.plugins]\nwords = words_plugin_of_a_test:plugin\n")
    shutil.copy(EXAMPLES / "word_count.py", site / "words_plugin_of_a_test.py")
    monkeypatch.syspath_prepend(site)
    async with Assembled(project, [reply(call("word_count", text="a")), "1"]) as run:
        await run.run("go")
        assert run.results == ["1"]
        assert run.engine.session.plugins is not None
        assert [each.source.label for each in run.engine.session.plugins.plugins] == ["words-plugin 1.2"]
    sys.modules.pop("words_plugin_of_a_test", None)


@pytest.mark.parametrize(
    ("old", "mode", "asked"), [("", "plan", []), ("(safe=True)", "default", ["word_count"])], ids=["safe", "not safe"]
)
async def test_only_a_tool_that_is_not_safe_needs_approval(
    project: Path, old: str, mode: str, asked: list[str]
) -> None:
    write(user_folder(project) / "word_count.py", (EXAMPLES / "word_count.py").read_text().replace(old, ""))
    options = {"permission_mode": PermissionMode(mode)}
    async with Assembled(project, [reply(call("word_count", text="a")), "One."], options=options) as run:
        await run.run("go")
        assert [question.name for question in run.asked] == asked
        assert run.results == ["1"]
