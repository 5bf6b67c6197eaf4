"""`agentcli demo` as a user runs it, in a terminal and without one."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from agentcli.demo import words
from tests.e2e.program import PATH_WITH_PYTHON, Ended, Program
from tests.support.terminal import TerminalProgram

LONG = 120.0
"""A whole tour on a machine that has other things to do. Only ever waited for when a test fails."""


def demo(folder: Path, *arguments: str, rows: int = 40) -> TerminalProgram:
    """No key and no server: whoever asked for one would fail."""
    temp = folder / "temp"
    temp.mkdir()
    environ = {"PATH": PATH_WITH_PYTHON, "TMPDIR": str(temp), "ANTHROPIC_API_KEY": "", "ANTHROPIC_BASE_URL": ""}
    return TerminalProgram(folder, "demo", *arguments, environ=environ, rows=rows)


def left_behind(folder: Path) -> list[str]:
    """Files of the demo: its own folder, and anything in the user's."""
    found = [path for place in ("temp", "home", "work") for path in (folder / place).rglob("*")]
    names = [str(path.relative_to(folder)) for path in found]
    # The marker that the fixture puts there.
    return [name for name in names if not "home/.local/state/agentcli/auto-mode-offered".startswith(name)]


async def ended(app: TerminalProgram) -> int:
    await app.wait_for(lambda: app.process.poll() is not None, seconds=LONG)
    return await app.end()


@pytest.mark.anyio
async def test_played_in_a_terminal_the_whole_tour_ends_well_and_leaves_nothing(tmp_path: Path) -> None:
    # Faster, some of it would be replaced before it is painted.
    async with demo(tmp_path, "--auto", "--speed", "20") as app:
        assert await ended(app) == 0, app.text
        assert "the test of the temporary project passes" in app.text
        assert app._emulator.is_as_before
        shown = app.raw.decode(errors="replace")
        for sight in ("prices shown", "429", "Make this change", "Interrupted", "Undid the changes", "login"):
            assert sight in shown, sight
    assert left_behind(tmp_path) == []


@pytest.mark.anyio
async def test_pressing_enter_and_approving_leads_to_a_passing_test(tmp_path: Path) -> None:
    async with demo(tmp_path, "--speed", "100", "--keep") as app:
        await app.wait_for(lambda: "scripted demo" in app.text and words.FIX in app.text)
        await app.press("enter")
        for question in ("Run this command?", "Make this change?", "Run this command?"):
            await app.wait_for(question, LONG)
            await app.answer("enter")
            await app.wait_for(question, gone=True)
        await app.wait_for(words.TALK, LONG)
        assert "Fixed, and proven" in app.text
        await app.wait_for(lambda: f"{words.TALK}  ↵" in app.text)
        await app.submit("/exit")
        assert await ended(app) == 0
    folder = next((tmp_path / "temp").glob("agentcli-demo-*"))
    assert str(folder) in app.text.replace("\n", "")
    assert "divmod" in (folder / "evening" / "tab" / "money.py").read_text()
    assert [name for name in left_behind(app.home.parent) if name.startswith("home")] == []


@pytest.mark.anyio
async def test_text_typed_during_startup_is_sent_and_after_esc_in_the_long_answer_any_prompt_is(
    tmp_path: Path,
) -> None:
    async with demo(tmp_path) as app:
        await app.submit("hello there")
        await app.wait_for("I am a script, not a model", LONG)
        assert "❯ hello there\n" in app.text
        await app.wait_for(lambda: f"{words.FIX}  ↵" in app.text, LONG)
        await app.submit(words.TALK)
        await app.wait_for("One prompt, many turns", LONG)
        await app.press("escape")
        await app.wait_for("Interrupted.")
        await app.wait_for(lambda: f"{words.FIX}  ↵" in app.text)
        await app.submit("be brief")
        await app.wait_for("You stopped me and said “be brief”", LONG)
        await app.wait_for(lambda: "↵" in app.text, LONG)
        await app.press("ctrl+c", "ctrl+c")
        assert await ended(app) == 0
    assert left_behind(tmp_path) == []


@pytest.mark.anyio
@pytest.mark.parametrize("flags", [(), ("--speed", "100")])
async def test_enter_during_startup_begins_the_tour_and_a_signal_during_it_leaves_nothing(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    async with demo(tmp_path, *flags) as app:
        await app.press("enter")
        await app.wait_for(lambda: f"❯ {words.FIX}\n" in app.text, LONG)
        # As soon as the scripted reply begins; the whole of it takes five seconds at the usual speed.
        await app.wait_for("the code, its test and the README", LONG)
        if flags:
            await app.wait_for("Run this command?", LONG)
        app.signal(signal.SIGTERM)
        assert await ended(app) == 143
        assert app._emulator.is_as_before
    assert left_behind(tmp_path) == []


@pytest.fixture
def offline(program: Program) -> Program:
    temp = program.home.parent / "temp"
    temp.mkdir()
    del program.environ["ANTHROPIC_API_KEY"]
    program.environ |= {"PATH": PATH_WITH_PYTHON, "TMPDIR": str(temp)}
    return program


async def told(program: Program, *arguments: str) -> Ended:
    """What a demo without a terminal says, to its end."""
    running = await program.start("demo", *arguments, stdin=asyncio.subprocess.DEVNULL)
    async with asyncio.timeout(LONG):
        out, err = await running.process.communicate()
    assert running.process.returncode is not None
    return Ended(running.process.returncode, out.decode(), err.decode())


@pytest.mark.anyio
async def test_without_a_terminal_the_tour_is_printed_as_text(offline: Program) -> None:
    done = await told(offline, "--auto", "--speed", "100")
    assert done.code == 0, done.out + done.err
    assert done.err == ""
    for sight in ("A scripted demo", "+    share, rest = divmod", "429", "You stopped me", "/undo", "passes"):
        assert sight in done.out, sight
    assert left_behind(offline.home.parent) == []


@pytest.mark.anyio
async def test_without_a_terminal_a_signal_leaves_nothing(offline: Program) -> None:
    running = await offline.start("demo", "--auto", "--speed", "0.5", stdin=asyncio.subprocess.DEVNULL)
    assert running.process.stdout is not None
    while words.FIX not in (await running.process.stdout.readline()).decode():
        pass
    running.signal(signal.SIGTERM)
    assert (await running.finish()).code == 143
    assert left_behind(offline.home.parent) == []


@pytest.mark.anyio
@pytest.mark.parametrize("wrong", [("--speed", "0"), ("--speed", "-1"), ("--permission-mode", "no"), ()])
async def test_wrong_usage_is_reported_before_anything_is_created(offline: Program, wrong: tuple[str, ...]) -> None:
    done = await told(offline, *wrong)
    assert done.code == 2
    assert done.err.startswith("agentcli: ")
    assert left_behind(offline.home.parent) == []
