"""The pages: text, cost, context, help, settings and background commands."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import ComposeResult
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import Selection
from textual.widgets import Static

from agentcli.commands.extensions import HookRow
from agentcli.config.schema import BY_NAME, KEYS
from agentcli.config.settings import Layer
from agentcli.config.settings import SettingRow as Setting
from agentcli.context.report import Category, ContextItem
from agentcli.tools.shell.background import BackgroundTask
from agentcli.tui.app import AgentApp
from agentcli.tui.chat import ChatScreen
from agentcli.tui.keys import PROMPT_KEYS, SCREEN_KEYS, app_bindings, help_rows, key_table, screen_bindings
from agentcli.tui.progress import AgentItem, AgentProgress
from agentcli.tui.prompt import editor
from agentcli.tui.prompt.box import PromptBox
from agentcli.tui.prompt.editor import PromptEditor
from agentcli.tui.screens.context import ContextPage, share_out
from agentcli.tui.screens.page import TablesPage, TextPage
from agentcli.tui.screens.pickers import HelpPage, HooksPage
from agentcli.tui.screens.settings import SettingChange, SettingScope, SettingsPage
from agentcli.tui.screens.sheet import Sheet
from agentcli.tui.screens.tasks import AgentPage, TasksPage
from agentcli.tui.theme.palette import Palette
from tests.support.agent_events import agent_end, agent_work
from tests.tui.screen_host import OPEN, Host, after_each, answer, look, play, press, through_all_sizes
from tests.tui.test_progress import running

# ---------------------------------------------------------------------------------------------------------------- text


def test_a_text_page_is_as_high_as_its_text_and_scrolls_a_longer_one() -> None:
    assert look(TextPage("Short", ["one", "two"]), size=(40, 24)) == (
        "─── Short ──────────────────────────────\n one\n two\n / search · Esc close"
    )
    page = TextPage("Long", [f"line {number}" for number in range(200)])

    async def steps(pilot: Pilot[None], host: Host) -> None:
        tops = {"": 0, "down j j": 3, "k": 2, "home": 0, "pagedown": 18, "pageup": 0, "end": 181, "g": 0, "G up": 180}
        for keys, top in tops.items():
            await press(pilot, *keys.split())
            assert host.shown.splitlines()[1].split()[:2] == ["line", str(top)], keys

    play(page, steps)


def test_searching_in_a_page_marks_counts_and_steps_on() -> None:
    lines = [f"line {number}" + (" Needle" if number % 50 == 30 else "") for number in range(200)]

    async def steps(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "/", "=needle")
        assert "1 of 4" in host.shown
        assert "line 30 Needle" in host.shown
        await press(pilot, "enter", "n")
        assert "2 of 4" in host.shown
        assert "line 80 Needle" in host.shown
        await press(pilot, "N", "N")
        assert "4 of 4" in host.shown
        strip = next(strip for strip in host.screen._compositor.render_strips() if "line 180" in strip.text)
        assert any(segment.text == "Needle" and segment.style.bgcolor is not None for segment in strip)
        await press(pilot, "escape")
        assert host.answers == []
        assert "4 of 4" not in host.shown
        await press(pilot, "escape")

    assert play(TextPage("Log", lines), steps).answer is None


@pytest.mark.parametrize(("keys", "said"), [("/ =zzz", "not found"), ("/ =Text", "not found"), ("/ =text", "1 of 1")])
def test_a_search_without_matches_is_reported_and_a_capital_counts(keys: str, said: str) -> None:
    seen, closed = after_each(TextPage("Log", ["text"]), (keys,), ("escape q",))
    assert said in seen[1]
    assert closed[0] is None


def test_hostile_text_in_a_page_is_inert() -> None:
    lines = ["\x1b[31mred\x1b[0m \x1b]52;c;eA==\x07x", "[b]bold[/b]", "\u202eevil", "a\tb\r\nc", "\ud800", "日本" * 60]

    async def steps(pilot: Pilot[None], host: Host) -> None:
        for strip in host.screen._compositor.render_strips():
            assert strip.cell_length == 40
            assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in strip.text)
        assert " red x\n [b]bold[/b]\n <U+202E>evil\n a       b\n c\n" in host.shown

    play(TextPage("\x1b[2J", lines), steps, (40, 24))


def test_copying_from_a_page_gives_lines_without_wraps_and_margins() -> None:
    page = TextPage("x", ["the quick brown fox", "second"])

    async def steps(pilot: Pilot[None], host: Host) -> None:
        pager = host.sheet.scroller
        copied = pager.get_selection(Selection(Offset(4, 0), None))
        assert copied == ("quick brown fox\nsecond", "\n")

    play(page, steps, (14, 12))


def test_a_page_of_tables_makes_them_for_its_width() -> None:
    page = TablesPage("Cost", lambda width: ["$1.24 so far.", f"model  {width}\nopus       5"])
    assert " $1.24 so far.\n\n model  97\n opus       5\n" in look(page, size=(100, 24))


# ------------------------------------------------------------------------------------------------------------- context

ITEMS = [
    ContextItem(id="s", category="system", label="System prompt", tokens=3000, cached=True),
    ContextItem(id="t", category="tools", label="Tool Read", tokens=1000, cached=True),
    ContextItem(id="p", category="prompts", label="find the bug", tokens=20, age=1, cached=False),
    ContextItem(id="r", category="results", label="Read parser.py", tokens=6000, age=0),
]


def test_without_colours_every_cell_of_the_map_has_its_letter() -> None:
    page = ContextPage(ITEMS, 20_000, 16_000)
    page.palette = Palette(colours=False)
    row = page._map(page._sums(), 78)
    cells = "".join(text for text, _style in row)
    assert [cells.count(letter) for letter in "STPR·░"] == [12, 4, 1, 23, 23, 15]


def test_the_context_is_shown_with_kinds_and_notes() -> None:
    notes = [f"MCP server number-{number}: 10 tokens" for number in range(20)]
    seen, small = (look(ContextPage(ITEMS, 20_000, 16_000, notes=notes), size=(80, rows)) for rows in (24, 9))
    assert " Next request: 10k of 20k tokens, 50% · auto-compacts at 16k, 80%\n" in seen
    assert seen.splitlines()[2].replace(" ", "").rstrip("·░") == "STPR", "the first cell of a kind has its letter"
    assert " S system prompt      3k  15%     R tool results       6k  30%\n" in seen
    assert "· free               6k  30%" in seen
    assert "░ kept free          4k  20%" in seen
    assert seen.index("kept free") < seen.index("number-0") < seen.index("Read parser.py")
    assert "number-6" not in seen
    assert "number-" not in small


def test_items_are_sorted_by_size_or_by_position() -> None:
    def order(seen: str) -> list[str]:
        return [
            line[5:19].strip()
            for line in seen.splitlines()
            if "this prompt" in line or "ago" in line or "always" in line
        ]

    (_, by_size), (_, by_position) = after_each(ContextPage(ITEMS, 20_000, 0), (), ("s",))
    assert order(by_size) == ["Read parser.py", "System prompt", "Tool Read", "find the bug"]
    assert " ❯ R Read parser.py      6k    30%     this prompt\n" in by_size
    assert "   P find the bug        20   0.1%    1 prompt ago  not cached\n" in by_size
    assert order(by_position) == [item.label for item in ITEMS]


def test_every_kind_of_item_has_its_own_letter() -> None:
    items = [ContextItem(name, name, f"an item of {name}", 1000) for name in get_args(Category)]
    seen = look(ContextPage(items, 20_000, 0), size=(100, 40))
    marks = {line[3] for line in seen.splitlines() if "an item of" in line}
    assert len(marks) == len(items)
    assert "?" not in marks
    strange = ContextItem("x", "of a later version", "strange", 5)  # type: ignore[arg-type]
    assert "? strange" in look(ContextPage([strange], 20_000, 0))

    full = [ContextItem(id="x", category="answers", label="much", tokens=30_000)]
    assert "! exceeds the context window" in look(ContextPage(full, 20_000, 16_000))
    assert "The context is empty" in look(ContextPage([], 20_000))


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=9), st.integers(1, 200))
def test_all_cells_of_the_map_are_assigned_and_every_item_has_one(amounts: list[int], cells: int) -> None:
    counts = share_out(amounts, cells)
    assert sum(counts) == cells
    assert cells < len(amounts) or min(counts) >= 1


# ---------------------------------------------------------------------------------------------------------------- help

KEYS_TABLE = [("Prompt", "Enter", "send"), ("Work", "Esc", "interrupt")]
COMMANDS = [("Commands", "/cost", "what was used"), ("Commands", "/model [name]", "the model")]


def test_help_lists_keys_by_group_and_commands() -> None:
    assert look(HelpPage(COMMANDS, KEYS_TABLE, lambda _usage: [])) == (
        "─── Help ───────────────────────────────────────────────────────────────────────\n"
        " ⌕ type to search\n"
        " Prompt\n"
        " ❯ Enter          send\n"
        " Work\n"
        "   Esc            interrupt\n"
        " Commands\n"
        "   /cost          what was used\n"
        "   /model [name]  the model\n"
        " ↑↓ move · Esc close"
    )


def test_long_key_names_do_not_push_descriptions_off_the_screen() -> None:
    keys = [("Prompt", "Ctrl+Shift+Left, Alt+Shift+Left, Alt+B", f"moves {'a word ' * 8}left")]
    rows = look(HelpPage(COMMANDS, keys, lambda _usage: []), size=(100, 24)).split("\n")
    assert f" ❯ Ctrl+Shift+Left, Alt+Shif…  moves {'a word ' * 8}left" in rows
    assert any(row.startswith(" Ctrl+Shift+Left, Alt+Shift+Left, Alt+B  moves") for row in rows)


def test_the_help_says_all_of_what_a_key_does_at_100_columns() -> None:
    rows = help_rows({})
    shown = look(HelpPage([], rows, lambda _usage: []), size=(100, 120))
    assert [text for _group, _keys, text in rows if text not in shown] == []


def test_a_wide_screen_shows_more_about_the_command_under_the_cursor() -> None:
    def about(usage: str) -> list[str]:
        return ["By id or by a short name.", "  /model sonnet  change it"] if usage == "/model [name]" else []

    shown = look(HelpPage(COMMANDS[1:], KEYS_TABLE, more=about, commands_first=True), size=(140, 24))
    assert "│ By id or by a short name." in shown
    assert " ❯ /model [name]" in shown
    assert "By id" not in look(HelpPage(COMMANDS[1:], KEYS_TABLE, more=about, commands_first=True), size=(120, 24))


def test_every_key_that_help_lists_is_bound_and_does_something() -> None:
    bound = {binding.id: binding for binding in (*app_bindings(), *screen_bindings())}
    for key in SCREEN_KEYS:
        binding = bound[key.id]
        owner = AgentApp if key.everywhere else ChatScreen
        action = binding.action if binding.action != "interrupt_work" else key.action
        assert any(hasattr(one, f"action_{action}") for one in (owner, ChatScreen, AgentApp)), key.action
    table, sources = key_table(), inspect.getsource(PromptBox.act) + inspect.getsource(PromptEditor)
    for prompt_key in PROMPT_KEYS:
        in_table = prompt_key.action in {*editor._MOVES, *editor._CUTS, *editor._EDITS}
        assert in_table or f'"{prompt_key.action}"' in sources, prompt_key.action
        for name in prompt_key.keys.split(","):
            assert table[name.strip()] is prompt_key
    assert len(help_rows({})) >= len(SCREEN_KEYS)


# ------------------------------------------------------------------------------------------------------------ settings

FILES: dict[SettingScope, str] = {"user": "~/.config/agentcli/settings.json", "local": ".agentcli/settings.local.json"}


def settings(layer: Layer = Layer.DEFAULT, **values: tuple[object, str]) -> Sequence[Setting]:
    rows = []
    for key in KEYS:
        value, source = values.get(key.name.replace(".", "_"), (key.default, "default"))
        rows.append(Setting(key.name, value, source, key.doc, layer))
    return rows


def test_settings_show_value_and_source_with_changed_ones_first() -> None:
    page = SettingsPage(settings(model=("claude-opus-5-5", "settings.json")), FILES)
    seen = look(page, size=(100, 24)).splitlines()
    assert seen[2].split() == ["Set", "│", "model"]
    assert seen[3].split()[:3] == ["❯", "model", "claude-opus-5-5"]
    assert "│ From      settings.json" in "\n".join(seen)


@pytest.mark.parametrize(
    ("keys", "change"),
    [
        ("=sandbox.mode enter =strict | enter", SettingChange("sandbox.mode", "strict", "user")),
        ("=autoCompact enter | =false tab enter", SettingChange("autoCompact", False, "local")),
        ("=maxRetries enter | =700 enter", OPEN),
        ("=maxRetries enter | =7 enter", SettingChange("maxRetries", 7, "user")),
        ("=smallModel enter | =my space =model enter", SettingChange("smallModel", "my model", "user")),
        ("=maxRetries enter | end enter", SettingChange("maxRetries", None, "user")),
        ("=effort enter | escape", OPEN),
        ("=effort enter | escape | escape", None),
    ],
    ids=["typed early", "tab: where", "invalid", "valid", "text", "removed", "back", "back twice"],
)
def test_a_setting_is_changed(keys: str, change: object) -> None:
    assert answer(SettingsPage(settings(), FILES), keys) == change


def test_a_setting_closed_to_projects_is_saved_for_the_user_only() -> None:
    assert BY_NAME["baseUrl"].repository == "no"
    seen = look(SettingsPage(settings(), FILES), "=baseUrl", "enter")
    assert "Saved for all your projects" in seen
    assert "Tab" not in seen


@pytest.mark.parametrize(
    ("rows", "files", "query", "said"),
    [
        (settings(), FILES, "permissions.allow", "has several values. Edit it in ~/.config"),
        (settings(), FILES, "maxRetries enter | =700", "it must be at most 100"),
        (
            settings(Layer.ENVIRONMENT, effort=("high", "environment variable AGENTCLI_EFFORT")),
            FILES,
            "effort",
            "overrides all settings files",
        ),
        (settings(Layer.MANAGED, effort=("low", "/etc/x.json")), FILES, "effort", "comes from /etc/x.json, which over"),
        (settings(), {}, "effort", "Settings cannot be changed here."),
    ],
)
def test_a_setting_that_cannot_be_changed_shows_the_reason(
    rows: Sequence[Setting], files: dict[SettingScope, str], query: str, said: str
) -> None:
    assert said in " ".join(look(SettingsPage(rows, files), f"={query} enter").split())


# --------------------------------------------------------------------------------------------------------------- tasks


def no_output(_id: str) -> list[str]:
    return []


TASKS = [
    BackgroundTask("bash_1", "npm run dev", "running", "", 75),
    BackgroundTask("bash_2", "pytest -q", "failed", "exit code 1", 12.3),
]


def test_background_commands_show_their_state() -> None:
    assert look(TasksPage(TASKS, no_output)) == (
        "─── Background commands ────────────────────────────────────────────────────────\n"
        " ❯ ● npm run dev  bash_1  running    1 min 15 s\n"
        "   ✗ pytest -q    bash_2  failed           12 s  exit code 1\n"
        " / search · ↑↓ move · s stop · Enter show output · Esc back"
    )
    for width in (120, 80, 40):
        empty = look(TasksPage([], no_output), size=(width, 24)).split("\n")
        assert empty[1:] == ["   No agents, no background commands.", " Esc back"]


def test_hooks_are_listed_by_event_found_by_typing_and_shown_whole() -> None:
    hooks = [
        HookRow("PreToolUse", "Bash", "check.sh", ".agentcli/settings.json", "denied, 0.1 s"),
        HookRow("Stop", "", "run-tests", "~/.claude/settings.json", ""),
    ]
    assert look(HooksPage(hooks)) == (
        "─── Hooks ──────────────────────────────────────────────────────────────────────\n"
        " ⌕ type to search\n"
        " PreToolUse Bash\n"
        " ❯ check.sh   .agentcli/settings.json  denied, 0.1 s\n"
        " Stop\n"
        "   run-tests  ~/.claude/settings.json\n"
        " type search · ↑↓ move · Enter show · Esc back"
    )
    (_, found), (_, whole) = after_each(HooksPage(hooks), ("=tests",), (*["backspace"] * 5, "home", "enter"))
    assert "run-tests" in found
    assert "check.sh" not in found
    assert "Last run: denied, 0.1 s" in whole
    play(HooksPage(hooks), through_all_sizes)


def test_s_stops_a_running_command_and_reports_one_that_has_ended() -> None:
    assert answer(TasksPage(TASKS, no_output), "s") == "bash_1"
    ended, closed = after_each(TasksPage(TASKS, no_output), ("down", "s"), ("escape",))
    assert ended[0] == OPEN
    assert "bash_2 has ended already." in ended[1]
    assert closed[0] is None


def test_enter_shows_the_output_and_escape_goes_back_to_the_list() -> None:
    def output(id: str) -> list[str]:
        return [f"output of {id}"]

    opened, back = after_each(TasksPage(TASKS, output), ("down", "enter"), ("|", "escape"))
    assert " output of bash_2\n" in opened[1]
    assert "─── Background commands" in back[1]


def test_tasks_that_change_keep_the_cursor() -> None:
    async def steps(pilot: Pilot[None], host: Host) -> None:
        await press(pilot, "down")
        ended = BackgroundTask("bash_1", "npm run dev", "completed", "exit code 0", 80)
        host.sheet.update_tasks([ended, *TASKS[1:], BackgroundTask("bash_3", "sleep 9", "running", "", 1)])
        await pilot.pause()
        assert "   ✓ npm run dev" in host.shown
        assert " ❯ ✗ pytest -q" in host.shown
        assert "sleep 9" in host.shown

    play(TasksPage(TASKS, no_output), steps)


def agents() -> list[AgentProgress]:
    session = running("general-1", "explore-1")
    session.show(agent_work("explore-1"), agent_end("explore-1", "t-explore-1"))
    return [item.progress for item in session.shown.of(AgentItem)]


def test_agents_stand_beside_background_commands() -> None:
    assert look(TasksPage(TASKS, no_output, agents=agents(), clock=lambda: 65.0)) == (
        "─── Agents and background commands ─────────────────────────────────────────────\n"
        " Agents\n"
        " ❯ ● Find the callers  general-1 running         1 min  Starting\n"
        "   ✓ Find the callers  explore-1 done             14 s  24k tokens · $0.05\n"
        " Background commands\n"
        "   ● npm run dev       bash_1    running    1 min 15 s\n"
        "   ✗ pytest -q         bash_2    failed           12 s  exit code 1\n"
        " / search · ↑↓ move · s stop · Enter open · Esc back"
    )


def test_an_agent_is_found_by_its_id_opened_and_stopped() -> None:
    (_, found), (_, ended), (_, opened), (stopped, _) = after_each(
        TasksPage(TASKS, no_output, agents=agents()),
        ("/", "=explore"),
        ("escape", "home", "down", "s"),
        ("enter", "|"),
        ("escape", "|", "up", "s"),
    )
    assert "explore-1" in found
    assert "bash_1" not in found
    assert "explore-1 has ended already." in ended
    assert "─── explore-1: Find the callers" in opened
    assert "│ ❯ Find all callers." in opened
    assert "✓ Grep head · 2 matches" in opened
    assert stopped == "general-1"
    assert answer(TasksPage(TASKS, no_output, agents=agents()), "enter", "|", "s") == "general-1"


def test_an_id_that_comes_again_in_a_resumed_session_is_the_newest_agent_s() -> None:
    old, new = agents()[1], agents()[1]
    rows = look(TasksPage([], no_output, agents=[old, new]))
    assert "explore-1 (1)" in rows
    assert answer(TasksPage([], no_output, agents=[old, agents()[0]]), "down", "s") == "general-1"


def test_the_page_of_an_agent_is_live_and_follows_its_end() -> None:
    session = running("explore-1")
    now = [0.0]

    async def steps(pilot: Pilot[None], host: Host) -> None:
        assert "Starting" in host.shown
        session.show(agent_work("explore-1", turns=20))
        now[0] = 90.0
        host.sheet.refresh_content()
        await pilot.pause()
        assert "Grep head" in host.shown
        await press(pilot, "home")
        await pilot.pause()
        session.show(agent_end("explore-1", "t-explore-1"))
        host.sheet.refresh_content()
        await pilot.pause()
        assert "✓ explore-1 Find the callers · done · 14 s" in host.shown
        assert "s stop" not in host.shown

    play(AgentPage(session.progress(), clock=lambda: now[0]), steps)


@pytest.mark.parametrize(
    "page",
    [
        lambda: AgentPage(agents()[1]),
        lambda: TasksPage(TASKS, no_output, agents=agents()),
        lambda: TextPage("x", ["some text"] * 30),
        lambda: TablesPage("Cost", lambda width: ["spent", "model  cost\nopus  5"]),
        lambda: ContextPage(ITEMS, 20_000, 16_000),
        lambda: HelpPage(COMMANDS, KEYS_TABLE, lambda _usage: []),
        lambda: SettingsPage(settings(), FILES),
    ],
)
def test_every_page_works_at_every_size(page: Callable[[], Sheet[Any]]) -> None:
    assert play(page(), through_all_sizes).answer is None


def test_a_low_page_covers_the_whole_prompt_under_it() -> None:
    class PromptBox(Static):
        """Stands in for the true one."""

    class Prompted(Host):
        def compose(self) -> ComposeResult:
            yield from super().compose()
            box = PromptBox("─── a rule", markup=False)
            box.styles.dock, box.styles.height = "bottom", 8
            yield box

    async def seen(sheet: Sheet[Any]) -> list[str]:
        host = Prompted()
        async with host.run_test(size=(60, 24)) as pilot:
            host.ask(sheet)
            await pilot.pause()
            return [strip.text.rstrip() for strip in host.strips()]

    for sheet in (TablesPage("Cost", lambda _width: ["none"]), TasksPage([], no_output)):
        lines = asyncio.run(seen(sheet))
        assert [line[:5] for line in lines].count("─── B") + [line[:5] for line in lines].count("─── C") == 1
        assert not any("a rule" in line for line in lines)
        assert lines[-8].startswith("─── ")
        assert lines[-1].endswith("Esc back") or lines[-1].endswith("Esc close")


def test_keys_have_the_names_printed_on_them() -> None:
    shown = {text: keys for _group, keys, text in help_rows({})}
    assert [shown[text] for text in ("Page up", "Page down", "Close the menu")] == ["PgUp", "PgDn", "Esc"]
    assert shown["Undo"] == "Ctrl+_, Ctrl+/, Super+Z"
