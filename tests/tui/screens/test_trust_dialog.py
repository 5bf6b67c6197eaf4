"""The question whether to trust a folder: all its settings are shown, and Enter alone does not trust it."""

from __future__ import annotations

import json
from pathlib import Path

from textual.pilot import Pilot

from agentcli.config.trust import UNREADABLE, TrustedContent, TrustState, TrustStore
from agentcli.interactive.questions.kinds import EXIT, RESTRICTED, TRUSTED, ask_for_trust
from agentcli.tui.screens.question import QuestionDialog
from tests.tui.screen_host import Host, calm, look, play, press, replies, shown

HOOKS = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "./check.sh --all"}]}]}}
SERVERS = {"mcpServers": {"db": {"command": "npx", "args": ["-y", "db-server"]}}}
PARTS = (
    TrustedContent(".agentcli/settings.json", "1", json.dumps(HOOKS)),
    TrustedContent(".mcp.json", "2", json.dumps(SERVERS, indent=1)),
    TrustedContent(".claude/skills/link", UNREADABLE),
)


def state(
    parts: tuple[TrustedContent, ...] = PARTS, known: bool = False, changed: tuple[str, ...] | None = None
) -> TrustState:
    names = tuple(part.name for part in parts)
    return TrustState(Path("/srv/app"), known, parts, names if changed is None else changed)


def dialog(about: TrustState | None = None) -> QuestionDialog:
    return calm(QuestionDialog(ask_for_trust(about or state(), can_exit=True)))


def test_every_file_is_shown_whole_with_the_programs_it_would_start() -> None:
    seen = look(dialog(), size=(70, 40))
    for part in (
        " /srv/app\n\n It brings 3 files. Such files can make agentcli run programs, or\n let them run",
        " Programs it would start:\n   $ ./check.sh --all\n     from .agentcli/settings.json\n   $ npx -y db-server\n",
        ' 1 {"hooks": {"PreToolUse": [{"hooks": [{"type": "command",\n   "command": "./check.sh --all"}]}]}}\n',
        '  3   "db": {\n  4    "command": "npx",\n',
        " .claude/skills/link  (new)\n ! It cannot be shown: not a regular file inside the folder, or too\n",
        "   1 Trust it: all of this takes effect: a file cannot be shown\n ❯ 2 Continue without it: only its deny and",
    ):
        assert part in seen


def test_each_choice_has_its_keys_and_enter_alone_does_not_trust() -> None:
    scripts = ("1", "t", "up enter", "enter", "r", "3", "x", "escape")
    verdicts = [TRUSTED, TRUSTED, TRUSTED, RESTRICTED, RESTRICTED, EXIT, EXIT, EXIT]
    assert replies(lambda: dialog(state(PARTS[:2])), *scripts) == verdicts


def test_a_folder_with_a_file_that_cannot_be_shown_cannot_be_trusted() -> None:
    assert replies(dialog, "1 r", "t r", "up enter", "enter") == [RESTRICTED, RESTRICTED, EXIT, RESTRICTED]


def test_in_a_known_folder_changed_files_come_first_and_are_marked() -> None:
    text = look(dialog(state(PARTS[:2], known=True, changed=(".mcp.json",))), size=(80, 50))
    assert "Changed settings: still trust it?" in text
    assert "1 file changed since you trusted it." in text
    assert text.index(".mcp.json  (new or changed)") < text.index(".agentcli/settings.json  (known, unchanged)")


def test_a_long_file_can_be_read_to_its_end_while_the_choices_stay() -> None:
    long = TrustedContent(".agentcli/hooks/run.sh", "3", "".join(f"echo {number}\n" for number in range(500)))

    async def script(pilot: Pilot[None], host: Host) -> None:
        assert any("more lines" in row for row in shown(host))
        await press(pilot, "end")
        rows = shown(host)
        assert any("500 echo 499" in row for row in rows)
        assert any("2 Continue without it" in row for row in rows)

    play(dialog(state((long,))), script, (40, 10))


def test_it_shows_the_files_of_the_store_and_changes_nothing(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".agentcli").mkdir(parents=True)
    (project / ".agentcli" / "settings.json").write_text(json.dumps(HOOKS))
    store = TrustStore(tmp_path / "state")
    host = play(dialog(store.state(project)), "1")
    assert host.answer == TRUSTED
    assert not store.state(project).trusted
    assert not (tmp_path / "state").exists()


def test_during_a_session_there_is_no_exit() -> None:
    names = [choice.name for choice in ask_for_trust(state(), can_exit=False).choices]
    assert names == ["trust", "restricted"]
