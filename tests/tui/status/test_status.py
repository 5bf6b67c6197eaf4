"""The status line at every width, and the user's own command in its place."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult

from agentcli.tui.model import Facts
from agentcli.tui.status.command import Ran, StatusCommand, StatusFeed, payload, style_line
from agentcli.tui.status.lines import StatusLine, context_bar, fit
from agentcli.tui.theme.palette import WITHOUT_COLOURS, Palette

pytestmark = pytest.mark.anyio

PALETTE = Palette()
FACTS = Facts(
    model="claude-sonnet-5",
    effort="high",
    mode="acceptEdits",
    context_tokens=172_000,
    context_window=1_000_000,
    compact_at=900_000,
    cost_usd=0.42,
    next_cost_usd=0.012,
    cached_share=0.97,
    branch="main",
    cwd="~/projects/agentcli",
    session="s1",
)


LONG = "17% of 1M ▕█▍     ╎▏ · $0.42 next ~$0.012 · 97% cached"


def line(facts: Facts, width: int, palette: Palette = PALETTE) -> str:
    text = "".join(part for part, _style in fit(facts, width, palette))
    assert cell_len(text) <= width
    assert "\n" not in text
    return text


def style_of(facts: Facts, text: str) -> object:
    return next(style for part, style in fit(facts, 200, PALETTE) if text in part)


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (160, f"  claude-sonnet-5 · high effort · accept edits · {LONG}{' ' * 29}~/projects/agentcli (main)"),
        (120, f"  claude-sonnet-5 · high · accept edits · {LONG}     …/agentcli (main)"),
        (80, "  sonnet-5 · high · accept edits · 17% ▕▉   ╎▏ · $0.42 next ~$0.012       main"),
        (60, "  sonnet-5 · high · edits · 17% · $0.42 next ~$0.012  main"),
        (40, " sonnet-5 · high · edits · 17% · $0.42"),
        (20, "sonnet-5 · edits"),
        (8, "edits"),
        (1, "…"),
        (0, ""),
    ],
)
def test_less_important_parts_are_dropped_in_a_narrow_row(width: int, shown: str) -> None:
    assert line(FACTS, width) == shown


def test_eighty_columns_have_room_for_model_mode_context_cost_and_the_next_request() -> None:
    facts = replace(
        FACTS,
        model="claude-sonnet-5-5",
        cost_usd=12.34,
        next_cost_usd=0.0234,
        branch="feature/some-long-branch",
        cwd="~/projects/agent/thing",
    )
    busy = {"todos": 5, "todos_done": 2, "tasks": 1, "agents": 2, "failed_servers": 1, "cache_cold": True}
    for mode in ("default", "acceptEdits", "auto", "plan", "bypassPermissions"):
        for more in ({}, {"effort": "medium"}, {"is_sandboxed": False}, busy, {**busy, "is_sandboxed": False}):
            row = line(replace(facts, mode=mode, **more), 80)  # type: ignore[arg-type]
            assert "sonnet-5-5 · " in row
            assert " · 17%" in row
            assert " · $12.34 next ~$0.023" in row, row


def test_the_initial_status_claims_nothing() -> None:
    assert line(Facts(), 80).strip() == "default mode"
    assert line(Facts(model="claude-opus-5", context_tokens=12_345), 80).split(" · ")[-1] == "12.3k tokens"


@pytest.mark.parametrize(("word", "narrowest"), [("! bypass", 8), ("no sandbox", 50)])
def test_what_is_dangerous_is_shown_at_every_usual_width(word: str, narrowest: int) -> None:
    mode = "bypassPermissions" if "bypass" in word else "default"
    risky = replace(FACTS, mode=mode, sandbox="off", is_sandboxed=False, tasks=3)
    assert all(word in line(risky, width) for width in range(narrowest, 160))
    assert style_of(risky, word) == PALETTE.warning
    assert next(style for part, style in fit(risky, 80, WITHOUT_COLOURS) if word in part).bold
    assert "sandbox" not in line(replace(FACTS, sandbox="bubblewrap, network on"), 120)


@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        ({"fully_priced": False}, "$0.42+?"),
        ({"cost_usd": 0, "fully_priced": False}, "$?"),
        ({"next_cost_usd": 0.001}, "next ~$0.001"),
        ({"cost_usd": 0, "next_cost_usd": None}, "¬$"),
        ({}, "¬MCP"),
        ({"failed_servers": 1}, "1 MCP server down"),
        ({"tasks": 1}, "1 task "),
        ({"tasks": 2}, "2 tasks"),
        ({"todos": 7, "todos_done": 3}, "todos 3/7"),
        ({"todos": 7, "todos_done": 7}, "¬todos"),
    ],
)
def test_costs_servers_tasks_and_todos_are_shown(facts: dict[str, Any], shown: str) -> None:
    row = line(replace(FACTS, **facts), 180)
    assert (shown.removeprefix("¬") in row) is not shown.startswith("¬")


@pytest.mark.parametrize(
    ("tokens", "threshold", "bar"),
    [
        (0, 900, "▕       ╎▏"),
        (1, 900, "▕▏      ╎▏"),
        (500, 900, "▕████   ╎▏"),
        (500, 500, "▕████╎   ▏"),
        (700, 500, "▕█████▋  ▏"),
        (1000, 900, "▕████████▏"),
        (5000, 0, "▕████████▏"),
        (500, 0, "▕████    ▏"),
    ],
)
def test_the_bar_shows_how_full_the_window_is_and_where_it_is_compacted(tokens: int, threshold: int, bar: str) -> None:
    facts = Facts(context_tokens=tokens, context_window=1000, compact_at=threshold)
    assert "".join(part for part, _style in context_bar(facts, 8, PALETTE)) == bar


def test_the_share_of_the_window_warns_before_the_threshold() -> None:
    for tokens, style in ((100_000, PALETTE.muted), (800_000, PALETTE.warning), (890_000, PALETTE.error)):
        assert style_of(replace(FACTS, context_tokens=tokens), "%") == style


def test_names_from_elsewhere_are_inert() -> None:
    facts = replace(FACTS, branch="\x1b]0;title\x07evil\u202egpj", cwd="~/\x1b[31m[bold]red[/bold]\n", model="m\x9b31m")
    shown = line(facts, 200)
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert "\u202e" not in shown
    assert "<U+202E>" in shown
    assert "[bold]red[/bold]" in shown


@given(
    st.builds(
        Facts,
        model=st.text(max_size=30),
        mode=st.sampled_from(["default", "plan", "bypassPermissions", "new"]),
        context_tokens=st.integers(0, 10**8),
        context_window=st.sampled_from([0, 1000, 200_000]),
        compact_at=st.integers(0, 10**6),
        cost_usd=st.floats(0, 1e7),
        branch=st.text(max_size=40),
        cwd=st.text(max_size=60),
        tasks=st.integers(0, 99),
        failed_servers=st.integers(0, 99),
    ),
    st.integers(0, 200),
)
def test_any_facts_fit_any_width(facts: Facts, width: int) -> None:
    line(facts, width)


# ---------------------------------------------------------------------------------------------------- the command


def command(text: str, folder: Path) -> StatusCommand:
    return StatusCommand(text, str(folder), {"PATH": os.environ["PATH"]}, "1.2.3")


def shown(ran: Ran) -> str:
    return "".join(text for text, _style in ran.line)


def run(text: str, folder: Path, facts: Facts = FACTS) -> Ran:
    return asyncio.run(command(text, folder).run(facts))


def test_the_command_gets_all_status_data_and_its_first_line_is_shown(tmp_path: Path) -> None:
    ran = run("cat > told.json; pwd >&2; printf '\\nfirst\\nsecond\\n'", tmp_path)
    assert shown(ran) == "first"
    told = json.loads((tmp_path / "told.json").read_text())
    assert told == payload(FACTS, str(tmp_path), "1.2.3")
    assert told["model"] == {"id": "claude-sonnet-5", "display_name": "sonnet-5"}
    assert told["workspace"]["current_dir"] == str(tmp_path)
    assert told["cost"]["total_cost_usd"] == 0.42
    assert told["context_window"]["used_percentage"] == 17.2
    assert told["session_id"] == "s1"


def test_colours_of_the_command_are_kept_and_other_sequences_removed() -> None:
    runs = style_line(
        "\x1b[1;31mred\x1b[0m \x1b]0;title\x07\x1b[2Jplain\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\x1b[5A\x07\n"
    )
    assert "".join(text for text, _style in runs) == "red plainlink"
    assert runs[0][1].bold
    assert runs[0][1].color is not None
    assert runs[0][1].color.number == 1
    assert all(not style.link and not style.meta for _text, style in runs)
    torn = style_line("\x1b]0;ti\x1b[1mtle\x07 x\x9b31m\x1b[38;5;999999m[bold]y[/bold]")
    assert all(ord(character) >= 32 for text, _style in torn for character in text)
    assert "[bold]y[/bold]" in "".join(text for text, _style in torn)


@pytest.mark.parametrize(
    ("text", "facts", "shows"),
    [
        ('echo "key:$ANTHROPIC_API_KEY"', {}, "key:"),
        ("exec 0<&-; echo ok", {"branch": "x" * 60_000}, "ok"),
        ("echo said; sleep 989", {}, "said"),
        ("exit 3", {}, "statusLine: the command printed nothing (exit 3)"),
        ("sleep 987 & sleep 988", {}, "within"),
        ("echo \0", {}, "did not start"),
    ],
    ids=["given environment", "unread input", "said before it hung", "nothing", "children", "no program"],
)
def test_a_command_shows_its_line_or_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, facts: dict[str, Any], shows: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    monkeypatch.setattr("agentcli.tui.status.command.TIMEOUT_SECONDS", 0.5)
    ran = run(text, tmp_path, replace(FACTS, **facts))
    assert shown(ran) == shows or shows in ran.problem


def test_endless_output_costs_nothing(tmp_path: Path) -> None:
    assert set(shown(run("yes a | tr -d '\\n'", tmp_path))) == {"a"}
    assert "did not start" in run("echo hi", tmp_path / "missing").problem


async def test_one_run_at_a_time_and_the_last_facts_are_always_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentcli.tui.status.command.PAUSE_SECONDS", 0)
    go, done, lines = asyncio.Event(), asyncio.Event(), list[str]()

    class Waits(StatusCommand):
        async def run(self, facts: Facts) -> Ran:
            await go.wait()
            return Ran([(facts.model, PALETTE.text)])

    def show(ran: Ran) -> None:
        lines.append(shown(ran))
        if lines[-1] == "9":
            done.set()

    feed = StatusFeed(Waits("", "", {}), show)
    for number in range(10):
        feed.update(Facts(model=str(number)))
        await asyncio.sleep(0)
    go.set()
    await asyncio.wait_for(done.wait(), 10)
    await feed.close()
    assert lines == ["0", "9"]


async def test_closing_does_not_wait_for_a_slow_command(tmp_path: Path) -> None:
    feed = StatusFeed(command("sleep 986", tmp_path), lambda _ran: None)
    feed.update(FACTS)
    await asyncio.sleep(0.05)
    await feed.close()


# ---------------------------------------------------------------------------------------------------------- widget


class Host(App[None]):
    def __init__(self, status: StatusCommand | None = None) -> None:
        super().__init__()
        self.status = StatusLine(PALETTE, status)
        self.failed: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.status

    def on_status_line_failed(self, event: StatusLine.Failed) -> None:
        self.failed.append(event.problem)


async def test_the_widget_shows_what_fits_and_follows_its_size() -> None:
    app = Host()

    async with app.run_test(size=(80, 5)) as pilot:
        app.status.update(FACTS)
        await pilot.pause()
        assert app.status.size.height == 1
        assert app.status.render_line(0).text == line(FACTS, 80)
        await pilot.resize_terminal(40, 5)
        assert app.status.render_line(0).text == line(FACTS, 40)
        app.status.set_palette(WITHOUT_COLOURS)
        assert app.status.render_line(0).text == line(FACTS, 40)


def test_the_users_command_provides_the_line_and_a_failure_restores_the_default(tmp_path: Path) -> None:
    script = tmp_path / "say"
    script.write_text("echo my own line")
    app = Host(command("sh ./say", tmp_path))

    async def until(condition: object) -> None:
        for _attempt in range(500):
            if condition():  # type: ignore[operator]
                return
            await asyncio.sleep(0.02)
        raise AssertionError("never came")

    async def run_app() -> None:
        async with app.run_test(size=(80, 5)):
            await until(lambda: app.status.render_line(0).text.startswith("my own line"))
            script.write_text("exit 1")
            app.status.update(FACTS)
            await until(lambda: app.status.render_line(0).text == line(FACTS, 80))
            await until(lambda: app.failed == ["statusLine: the command printed nothing (exit 1)"])

    asyncio.run(run_app())
