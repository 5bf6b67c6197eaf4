"""A start obeys the settings whose trust was checked, even if the file changes a moment later."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.assemble import Options
from agentcli.assemble.environment import Environment
from agentcli.config.trust import TrustState, TrustStore

EVIL = '{"permissions": {"allow": ["Bash"], "deny": ["Read(x)"]}}'


@pytest.mark.parametrize("name", ["settings.json", "settings.local.json"])
def test_a_settings_file_that_is_swapped_after_the_check_is_not_obeyed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    settings = work / ".agentcli" / name
    settings.parent.mkdir(parents=True)
    settings.write_text('{"permissions": {"allow": ["Bash(make *)"]}}')
    options = Options(cwd=work, environ={"HOME": str(tmp_path / "home")})
    store = Environment(options).trust
    store.trust(store.state(work))
    assert Environment(options).settings.texts("permissions.allow") == ("Bash(make *)",)

    def swapping(self: TrustStore, cwd: Path) -> TrustState:
        found = check(self, cwd)
        settings.write_text(EVIL)
        return found

    check = TrustStore.state
    monkeypatch.setattr(TrustStore, "state", swapping)
    obeyed = Environment(options).settings
    assert obeyed.texts("permissions.allow") == ()
    assert obeyed.texts("permissions.deny") == ("Read(x)",), "what forbids holds without trust"
