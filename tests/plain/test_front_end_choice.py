"""The quick check whether plain mode is selected: when in doubt it reads the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.plain.front_end_choice import may_choose_plain
from agentcli.plain.terminal import wants_vi
from tests.support.tables import each_row

TERMINAL = {"TERM": "xterm"}


@each_row(
    ("argv", "environ", "wanted"),
    [
        ((), {}, True),
        ((), {"TERM": "dumb"}, True),
        ((), {"TERM": "unknown"}, True),
        ((), TERMINAL, False),
        (("--plain",), TERMINAL, True),
        (("-c", "--plain", "x"), TERMINAL, True),
        (("explain this",), TERMINAL, False),
        (("--settings", '{"plain": true}'), TERMINAL, True),
        ((), {**TERMINAL, "AGENTCLI_PLAIN": "1"}, True),
        ((), {**TERMINAL, "HOME": "/nowhere/at/all"}, False),
    ],
)
def test_flags_variables_and_the_terminal_decide(argv: tuple[str, ...], environ: dict[str, str], wanted: bool) -> None:
    assert may_choose_plain(argv, environ) == wanted


@pytest.mark.parametrize("variable", ["AGENTCLI_CONFIG_DIR", "XDG_CONFIG_HOME", "HOME"])
def test_the_user_settings_decide_wherever_they_are(tmp_path: Path, variable: str) -> None:
    below = {"AGENTCLI_CONFIG_DIR": "", "XDG_CONFIG_HOME": "agentcli", "HOME": ".config/agentcli"}[variable]
    file = tmp_path / below / "settings.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    environ = {**TERMINAL, variable: str(tmp_path)}
    assert not may_choose_plain((), environ)
    file.write_text('{"theme": "x"}')
    assert not may_choose_plain((), environ)
    file.write_text('{"plain": true}')
    assert may_choose_plain((), environ)


@pytest.mark.parametrize(
    ("text", "vi"),
    [
        ("set editing-mode vi\n", True),
        ("# set editing-mode vi\n", False),
        ("set editing-mode vi\nset editing-mode emacs\n", False),
        ("", False),
    ],
)
def test_readline_vi_mode_applies(tmp_path: Path, text: str, vi: bool) -> None:
    (tmp_path / ".inputrc").write_text(text)
    assert wants_vi({"HOME": str(tmp_path)}) == vi
    assert not wants_vi({"HOME": str(tmp_path), "INPUTRC": str(tmp_path / "none")})
