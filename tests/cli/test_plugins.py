"""`agentcli plugins`: an example that works, and a list of what is there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentcli.cli.app import run_app
from agentcli.config.trust import TrustStore
from agentcli.core.errors import UsageError

pytestmark = pytest.mark.usefixtures("home")

EXAMPLES = Path(__file__).parent.parent / "data" / "plugins"


def output(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run_app(["plugins", *arguments]) == 0
    return capfd.readouterr().out


def test_a_new_plugin_works_and_its_test_passes(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said = output(capfd, "new", "notes")
    folder = home / ".config/agentcli/plugins"
    assert f"Wrote {folder / 'notes.py'}" in said
    listed = output(capfd, "list")
    assert "notes  user  ~/.config/agentcli/plugins/notes.py" in listed
    assert "adds: tool notes_word_count, command /notes" in listed
    assert "problem" not in listed
    test = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder / "test_notes.py")]
    # A user needs no plugin of pytest for it.
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(test, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_plugin_of_the_project_waits_for_trust(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said = output(capfd, "new", "notes", "--project")
    assert "run `agentcli trust`" in said
    assert (home / "project/.agentcli/plugins/notes.py").exists()
    assert "not loaded: the project is not trusted" in output(capfd, "list")
    assert "adds: tool notes_word_count" in output(capfd, "list", "--trust")


def test_a_trusted_project_stays_trusted_with_a_new_plugin(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    store = TrustStore(home / ".local/state/agentcli", home)
    store.trust(store.state(home / "project"))
    output(capfd, "new", "notes", "--project")
    assert "adds: tool notes_word_count" in output(capfd, "list")


@pytest.mark.parametrize("name", ["Notes", "my-notes", "1st", "test_it", "../x"])
def test_a_name_that_is_no_module_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="Not a plugin name"):
        run_app(["plugins", "new", name])


def test_nothing_is_overwritten(capfd: pytest.CaptureFixture[str]) -> None:
    output(capfd, "new", "notes")
    with pytest.raises(UsageError, match="is already there"):
        run_app(["plugins", "new", "notes"])


def test_the_list_has_load_times_and_problems(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = home / ".config/agentcli/plugins"
    folder.mkdir(parents=True)
    shutil.copy(EXAMPLES / "word_count.py", folder)
    (folder / "broken.py").write_text("import nothing_like_it\n")
    text = (EXAMPLES / "standup.py").read_text().replace('"turns"', '"help"')
    (folder / "standup.py").write_text(text)
    rows = json.loads(output(capfd, "list", "--json"))
    assert [(row["name"], row["loaded"], row["adds"]) for row in rows] == [
        ("broken", False, []),
        ("standup", True, ["command /help", "command /standup"]),
        ("word_count", True, ["tool word_count"]),
    ]
    assert rows[1]["milliseconds"] > 0
    problem = "~/.config/agentcli/plugins/standup.py:10: /help is built in; this one is not used"
    assert rows[1]["problems"] == [problem]
    problem = "~/.config/agentcli/plugins/broken.py:1: ModuleNotFoundError: No module named 'nothing_like_it'"
    assert rows[0]["problems"] == [problem]
