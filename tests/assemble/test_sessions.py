"""The git state in the system context: what it holds, that it is frozen, and where git is not run for it."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentcli.assemble import Options, build_engine, sessions
from agentcli.assemble.context_pipeline import collapser_for, pipeline_for
from agentcli.assemble.environment import Environment
from agentcli.assemble.model import ModelBuilder
from agentcli.assemble.options import another_session
from agentcli.commands.front_end import Choice, FrontEnd
from agentcli.commands.registry import find
from agentcli.config.paths import Paths
from agentcli.config.settings import SettingsRequest, load_settings
from agentcli.context.prompt import OutputStyle, default_prompt
from agentcli.context.report import ExpectedCache, price_of_change
from agentcli.context.view import ContextView
from agentcli.core import events as ev
from agentcli.core.permission import PermissionMode
from agentcli.core.usage import CacheLosses, Usage
from agentcli.definitions.library import all_styles
from agentcli.providers.base import Transport
from agentcli.providers.catalog import Catalog
from agentcli.providers.transports.sdk import SdkTransport
from agentcli.providers.transports.wire import WireTransport
from agentcli.workspace.git_status import MAX_FILES, GitStatus, read_git_status
from tests.support.assembled import Assembled
from tests.support.fakes import collect, only, result_of
from tests.support.scripts import provider_for, provider_on, reply, transport_for

pytestmark = pytest.mark.anyio

GIT = "/usr/bin/git"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine must not change what these tests see."""
    monkeypatch.setattr(sessions, "DEADLINE_SECONDS", 60.0)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "topic")
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "Begin the work")
    return folder


def git(folder: Path, *arguments: str) -> None:
    environ = {
        **{f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        "PATH": os.environ["PATH"],
        "HOME": str(folder.parent),
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    subprocess.run([GIT, *arguments], cwd=folder, env=environ, check=True)


async def system_of(folder: Path, **rest: object) -> str:
    """The last part of the system prompt in the first request of an assembled engine."""
    transport = transport_for("Done.")
    given: dict[str, object] = {
        "cwd": folder,
        "environ": {"HOME": str(folder.parent), "PATH": os.environ["PATH"]},
        "sandbox": "off",
        "trust": True,
        "provider": provider_on(transport),
    }
    async with build_engine(Options(**{**given, **rest})) as engine:  # type: ignore[arg-type]
        await collect(engine.submit("go"))
    text: str = transport.requests[-1]["system"][-1]["text"]
    return text


async def test_a_trusted_repository_shows_branch_upstream_changes_and_commits(repository: Path) -> None:
    git(repository.parent, "clone", "-q", "--bare", str(repository), "upstream.git")
    git(repository, "remote", "add", "origin", str(repository.parent / "upstream.git"))
    git(repository, "fetch", "-q", "origin")
    git(repository, "branch", "-q", "--set-upstream-to=origin/topic")
    git(repository, "commit", "-q", "--allow-empty", "-m", "Go on")
    (repository / "a.txt").write_text("two\n")
    (repository / "new file.txt").write_text("x")
    text = await system_of(repository)
    assert "Git branch when the session began: topic\n" in text
    assert "Upstream: origin/topic (1 ahead, 0 behind)\n" in text
    assert "Changed files (2):\n M a.txt\n?? new file.txt\nLast commits:\n" in text
    assert text.index("Go on") < text.index("Begin the work")


async def test_a_resumed_session_sends_the_recorded_state_byte_for_byte(repository: Path) -> None:
    before = await system_of(repository)
    assert "No changed files." in before
    (repository / "a.txt").write_text("two\n")
    git(repository, "commit", "-q", "-a", "-m", "Later")
    assert await system_of(repository, continue_latest=True) == before
    assert "Later" in await system_of(repository)


async def test_a_folder_that_is_not_trusted_shows_the_branch_and_runs_no_git(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_arguments: object) -> None:
        raise AssertionError("git was run")

    monkeypatch.setattr(sessions, "read_git_status", fails)
    monkeypatch.setattr("agentcli.shell.git_config.runs_programs", fails)
    text = await system_of(repository, trust=False)
    assert text.endswith("Git branch when the session began: topic")


@pytest.mark.parametrize("setting", ["filter.x.clean", "core.fsmonitor", "core.sshCommand", "diff.x.textconv"])
async def test_a_configuration_that_names_programs_leaves_the_branch_alone(repository: Path, setting: str) -> None:
    ran = repository.parent / "ran"
    git(repository, "config", setting, f"touch {ran}; cat")
    (repository / ".gitattributes").write_text("* filter=x diff=x\n")
    (repository / "a.txt").write_text("two\n")
    text = await system_of(repository)
    assert text.endswith("Git branch when the session began: topic")
    assert not ran.exists()


async def test_hooks_and_submodules_are_not_obeyed(repository: Path) -> None:
    ran = repository.parent / "ran"
    hook = repository / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    os.utime(repository / "a.txt", (1, 1))
    index = (repository / ".git" / "index").read_bytes()
    assert "No changed files." in await system_of(repository)
    assert not ran.exists()
    assert (repository / ".git" / "index").read_bytes() == index, "no lock is taken, nothing is written"


async def test_names_and_subjects_are_cut_and_cleaned(repository: Path) -> None:
    (repository / "bad\x1b[31m\nname").write_text("x")
    (repository / ("n" * 250)).write_text("x")
    for number in range(MAX_FILES):
        (repository / f"file{number:02}").write_text("x")
    git(repository, "commit", "-q", "--allow-empty", "-m", "Ignore\x1b]0;all\x07 " + "words " * 100)
    for number in range(10):
        git(repository, "commit", "-q", "--allow-empty", "-m", f"Step {number}")
    text = await system_of(repository)
    assert not any(ord(character) < 32 and character != "\n" for character in text)
    assert f"Changed files ({MAX_FILES + 2}):\n" in text
    assert "\nand 2 more\n" in text
    assert max(map(len, text.splitlines())) < 300
    assert "Step 5" in text
    assert "Step 4" not in text


async def test_slow_git_output_is_left_out(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = threading.Event()
    monkeypatch.setattr(sessions, "read_git_status", lambda *_arguments: slow.wait(60) and None)
    monkeypatch.setattr(sessions, "DEADLINE_SECONDS", 0.0)
    assert (await system_of(repository)).endswith("Git branch when the session began: topic")
    slow.set()
    assert read_git_status(GIT, repository, 0.0) is None


def test_missing_repository_commit_or_git_is_handled(tmp_path: Path) -> None:
    assert read_git_status(GIT, tmp_path, 60.0) is None
    assert read_git_status("/nowhere/git", tmp_path, 60.0) is None
    git(tmp_path, "init", "-q", "-b", "main")
    assert read_git_status(GIT, tmp_path, 60.0) == GitStatus(branch="main")


async def test_a_mode_chosen_in_a_resumed_session_is_kept_without_a_prompt(tmp_path: Path) -> None:
    (project := tmp_path / "project").mkdir()
    async with Assembled(project, ["Hello."]) as a:
        await a.run("hi")
        session = a.engine.session_id
    async with Assembled(project, [], options={"resume": session, "permission_mode": None}) as b:
        b.engine.permissions.set_mode(PermissionMode.PLAN)
    async with Assembled(project, [], options={"resume": session, "permission_mode": None}) as c:
        assert c.engine.permissions.mode is PermissionMode.PLAN
    (path,) = tmp_path.rglob(f"{session}.jsonl")
    before = path.read_bytes()
    async with Assembled(project, [], options={"resume": session, "permission_mode": None}):
        pass
    assert path.read_bytes() == before, "a session that is only looked at stays as it is"


async def test_a_model_chosen_after_the_last_prompt_is_kept(tmp_path: Path) -> None:
    (project := tmp_path / "project").mkdir()
    async with Assembled(project, ["Hello."]) as a:
        await a.run("hi")
        session = a.engine.session_id
        a.engine.set_model("sonnet")
        a.engine.set_effort("low")
    async with Assembled(project, [], options={"resume": session}) as b:
        assert (b.engine.model, b.engine.effort) == ("claude-sonnet-5-5", "low")


def style(project: Path, header: str = "", body: str = "Speak like a pirate.") -> Path:
    path = project / ".agentcli/output-styles/pirate.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\ndescription: Arr\n{header}---\n{body}\n")
    return path


def chosen(name: str) -> dict[str, Any]:
    return {"settings": json.dumps({"sandbox": {"mode": "off"}, "outputStyle": name})}


async def test_a_style_takes_the_place_of_the_manner_and_a_resumed_session_keeps_it(project: Path) -> None:
    path = style(project)
    async with Assembled(project, ["Arr."], options=chosen("Pirate")) as a:
        events = await a.run()
        session = a.engine.session_id
    (system,) = (a.requests[0]["system"][0]["text"],)
    assert "# Output style: pirate\nSpeak like a pirate." in system
    assert "# How to answer" not in system
    assert "# How to work" not in system
    assert "# Care" in system
    assert only(events, ev.SessionStarted)[0].output_style == "pirate"
    path.write_text("Speak like a lawyer.")
    async with Assembled(project, ["Arr."], options={"resume": session}) as b:
        await b.run()
    assert b.requests[0]["system"] == a.requests[0]["system"]


async def test_coding_instructions_can_stay(project: Path) -> None:
    style(project, "keep-coding-instructions: true\n")
    async with Assembled(project, ["Arr."], options=chosen("pirate")) as a:
        await a.run()
    assert "# How to work" in a.requests[0]["system"][0]["text"]


async def test_an_unknown_style_is_reported(project: Path) -> None:
    async with Assembled(project, ["Hi."], options=chosen("nosuch")) as a:
        await a.run()
        assert any("no output style 'nosuch'" in text for text in a.notices)
        assert "# How to answer" in a.requests[0]["system"][0]["text"]


def test_the_default_prompt_has_the_parts_that_a_style_replaces() -> None:
    assert all(heading in default_prompt() for heading in ("\n# How to answer\n", "\n# How to work\n", "\n# Care\n"))
    for built_in in all_styles(None).values():
        prompt = default_prompt(OutputStyle(built_in.name, built_in.body, built_in.keep_coding_instructions))
        assert "# How to work" in prompt
        assert "# How to answer" not in prompt


async def test_the_command_saves_a_style_for_the_next_session(project: Path) -> None:
    style(project)

    class Front(FrontEnd):
        async def options(self) -> Any:
            return SimpleNamespace(environ={"HOME": str(project.parent / "home")})

        async def choose(self, title: str, choices: Any) -> str | None:
            self.offered: list[Choice] = choices
            return "pirate"

    front, command = Front(), find("output-style")
    assert command is not None
    run = command.load()
    async with Assembled(project, []) as a:
        (said,) = [event async for event in run(a.engine, "", front)]
        assert [choice.value for choice in front.offered] == ["default", "concise", "explanatory", "pirate"]
        assert isinstance(said, ev.NoticeRaised)
        assert "next session or /clear" in said.text
        saved = json.loads((project.parent / "home/.config/agentcli/settings.json").read_text())
        assert saved == {"outputStyle": "pirate"}
        (refused,) = [event async for event in run(a.engine, "zzz", front)]
        assert isinstance(refused, ev.NoticeRaised)
        assert refused.level == "error"


def test_resume_options_do_not_carry_over_to_the_next_session() -> None:
    options = Options(continue_latest=True, fork_session=True, session_id="x", name="mine", model="opus")
    other = another_session(options, "id")
    assert (other.continue_latest, other.fork_session, other.session_id, other.name) == (False, False, None, None)
    assert (other.resume, other.model) == ("id", "opus")


def test_a_clear_keeps_session_recording_turned_off() -> None:
    assert not another_session(Options(persist=False), None).persist


async def spent(folder: Path, model: str, **usage: int) -> tuple[float, bool]:
    options = Options(
        cwd=folder,
        environ={"HOME": str(folder), "PATH": "/usr/bin:/bin"},
        model=model,
        persist=False,
        sandbox="off",
        provider=provider_for(reply("Done.", usage=usage)),
    )
    async with build_engine(options) as engine:
        result = result_of(await collect(engine.submit("go")))
    return result.total_cost_usd, result.fully_priced


@pytest.mark.parametrize(
    ("model", "usd"),
    [
        ("claude-opus-5", 30.0),
        ("claude-opus-4-8", 30.0),
        ("claude-opus-4-7", 30.0),
        ("claude-opus-4-6", 30.0),
        ("claude-opus-4-5", 30.0),
        ("claude-sonnet-4-6", 18.0),
        ("claude-sonnet-4-5-20250929", 18.0),
        ("claude-fable-5", 60.0),
        ("claude-mythos-5", 60.0),
    ],
)
async def test_older_models_have_their_price(tmp_path: Path, model: str, usd: float) -> None:
    cost, priced = await spent(tmp_path, model, input_tokens=1_000_000, output_tokens=1_000_000)
    assert priced
    assert cost == pytest.approx(usd)


async def test_haiku_is_billed_by_the_size_of_the_whole_prompt(tmp_path: Path) -> None:
    """Cached tokens count for the tier, and all of a request is billed in one."""
    small = await spent(tmp_path, "haiku", input_tokens=10_000, cache_read_input_tokens=90_000, output_tokens=1_000)
    assert small[0] == pytest.approx((10_000 * 0.1 + 90_000 * 0.01 + 1_000 * 0.5) / 1e6)
    large = await spent(tmp_path, "haiku", input_tokens=10_001, cache_read_input_tokens=90_000, output_tokens=1_000)
    assert large[0] == pytest.approx((10_001 * 0.5 + 90_000 * 0.05 + 1_000 * 2.5) / 1e6)


def test_a_broken_cache_is_priced_in_the_tier_of_its_request() -> None:
    price = Catalog().get("haiku").price
    assert price is not None

    def cost(_model: str, usage: Usage) -> float:
        return price.cost(usage)

    lost = CacheLosses().adding("haiku", 50_000, long_lived=False, broken=True, prompt=150_000)
    assert lost.cost_usd(cost) == pytest.approx(50_000 * (0.625 - 0.05) / 1e6)
    lost = CacheLosses().adding("haiku", 50_000, long_lived=False, broken=True, prompt=60_000)
    assert lost.cost_usd(cost) == pytest.approx(50_000 * (0.125 - 0.01) / 1e6)
    change = price_of_change(ExpectedCache(50_000), ExpectedCache(0), price, 150_000)
    assert change.usd == pytest.approx(50_000 * 0.625 / 1e6)


@pytest.mark.parametrize(("setting", "kind"), [("auto", WireTransport), ("wire", WireTransport), ("sdk", SdkTransport)])
def test_the_direct_api_is_reached_as_the_setting_says(tmp_path: Path, setting: str, kind: type[Transport]) -> None:
    environ = {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": "key", "AGENTCLI_PROVIDER": setting}
    transport, source, _credentials = ModelBuilder(Environment(Options(cwd=tmp_path, environ=environ)))._transport()
    assert (type(transport), source) == (kind, "ANTHROPIC_API_KEY")


@pytest.mark.parametrize("platform", ["bedrock", "vertex", "foundry"])
def test_other_platforms_are_reached_through_the_package(tmp_path: Path, platform: str) -> None:
    environ = {"HOME": str(tmp_path), "AGENTCLI_PLATFORM": platform}
    options = Options(cwd=tmp_path, environ=environ, interactive=True)
    transport, source, _credentials = ModelBuilder(Environment(options))._transport()
    assert (type(transport), source) == (SdkTransport, platform)


STEPS = ("budget", "snip", "microcompact", "collapse")
"""Context steps in the order in which they run."""


@pytest.mark.parametrize("off", ["", *STEPS])
def test_every_step_can_be_switched_off_and_the_others_keep_their_order(off: str, tmp_path: Path) -> None:
    paths = Paths(tmp_path, tmp_path, tmp_path, tmp_path / "managed.json")
    (tmp_path / "settings.json").write_text(json.dumps({"context": {off: False}} if off else {}))
    settings = load_settings(SettingsRequest(paths=paths, cwd=tmp_path, trusted=True))
    pipeline = pipeline_for(settings, None, collapser_for(settings, ContextView()))
    expected = [name for name in STEPS if name != off]
    assert [step.name for step in pipeline._steps] == expected, "a new step belongs in STEPS"
