"""The examples of CONTRIBUTING.md run, and the files it names exist."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
CHANGED = {f"agentcli/{name}" for name in ("tools", "commands", "core", "interactive", "context", "assemble")}
TESTS = ("tests/tools", "tests/commands", "tests/context")


def section(title: str) -> str:
    return TEXT.partition(f"### {title}\n")[2].partition("\n### ")[0].partition("\n## ")[0]


def blocks(title: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", section(title), re.DOTALL)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy to follow the recipes in, with the bytecode that is there already. What no recipe changes are links."""
    for folder in ("agentcli", *TESTS):
        (tmp_path / folder).mkdir(parents=True)
    for name in CHANGED:
        shutil.copytree(ROOT / name, tmp_path / name)
    helpers = [path for name in TESTS for path in (ROOT / name).glob("[!t]*.py")]
    others = {path.relative_to(ROOT).as_posix() for path in (*(ROOT / "agentcli").iterdir(), *helpers)}
    for name in {*others, "tests/support", "tests/data", "tests/conftest.py", "themes", "pyproject.toml"} - CHANGED:
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def python(checkout: Path, *arguments: str, **environ: str) -> str:
    variables = {"PATH": os.environ["PATH"], "HOME": str(checkout / "home"), "PYTHONPATH": str(checkout), **environ}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=checkout, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def add_tool(checkout: Path) -> str:
    """Follow the recipe; its test."""
    tool, test = blocks("A tool", "python")
    (checkout / "agentcli/tools/countlines.py").write_text(tool)
    (checkout / "agentcli/tools/countlines.md").write_text("Counts the lines of a file.")
    (checkout / "tests/tools/test_countlines.py").write_text(test)
    registry = checkout / "agentcli/tools/registry.py"
    text = registry.read_text().replace('*("Read", ', '*("CountLines", "Read", ')
    text = text.replace("*(Read(), ", "*(CountLines(), Read(), ")
    first_import = "    from agentcli.tools.files.edit import Edit"
    text = text.replace(first_import, f"    from agentcli.tools.countlines import CountLines\n{first_import}")
    registry.write_text(text)
    return "tests/tools/test_countlines.py"


def add_command(checkout: Path) -> str:
    """Follow the recipe; its test."""
    command, row, test = blocks("A slash command", "python")
    (checkout / "agentcli/commands/words.py").write_text(command)
    (checkout / "tests/commands/test_words.py").write_text(test)
    registry = checkout / "agentcli/commands/registry.py"
    table = "COMMANDS: tuple[Command, ...] = (\n"
    registry.write_text(registry.read_text().replace(table, f"{table}    {row.strip()},\n"))
    return "tests/commands/test_words.py"


def test_following_the_recipes_gives_a_tool_and_a_command_that_work(checkout: Path) -> None:
    tests = (add_tool(checkout), add_command(checkout))
    added = [path for path in checkout.glob("agentcli/*/*.py") if path.stem in ("countlines", "words")]
    python(checkout, "-m", "ruff", "check", "--no-cache", *map(str, added))
    script = str(checkout / "tests/data/hello.json")
    runs = f"""
import os, sys
import pytest
assert pytest.main(["-q", "-rA", "-p", "no:cacheprovider", *{tests}]) == 0
print("---", flush=True)
from agentcli.cli.main import main
import agentcli.tools.registry as registry
print([tool.name for tool in registry.builtin_tools()][0], registry.BUILTIN_NAMES[0])
print(*registry.builtin_traits("explores"))
print("---", flush=True)
for prompt in sys.argv[1:]:
    assert main(["-p", prompt], os.environ) == 0
    print("---", flush=True)
"""
    prompts = ("/words", "/help", "/help words")
    shown = python(checkout, "-c", runs, *prompts, AGENTCLI_SCRIPT=script).split("---\n")
    report, tools, words, commands, one = shown[:5]
    assert all(f"PASSED {test}" in report for test in tests), report
    assert tools.split()[:3] == ["CountLines", "CountLines", "CountLines"]
    assert words == "0 words so far.\n"
    assert "/words" in commands
    assert "count them" in one


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1, f"{path}: {old!r}"
    path.write_text(text.replace(old, new))


def test_following_the_recipe_for_an_event_gives_one_that_every_front_end_shows(checkout: Path) -> None:
    event, case = blocks("An event", "python")
    end = "\n\nEVENT_TYPES: Mapping"
    edit(checkout / "agentcli/core/events.py", end, f"\n\n{event}{end}")
    first = "        case ev.NoticeRaised():\n            return event.text,"
    edit(checkout / "agentcli/interactive/wording.py", first, case + first)
    runs = """
from agentcli import PoemFinished
from agentcli.core.event_base import event_from_dict, event_to_dict
from agentcli.interactive.wording import event_line
event = PoemFinished(verses=3)
assert event_from_dict(event_to_dict(event)) == event
print(event_line(event), event.policy.recorded, event.policy.stderr)
"""
    assert python(checkout, "-c", runs) == "('The poem has 3 verses', 'info') shown always\n"


def test_following_the_recipe_for_a_context_step_gives_one_that_frees_space(checkout: Path) -> None:
    (checkout / "agentcli/context/polite.py").write_text(blocks("A context step", "python")[0])
    pipeline = checkout / "agentcli/assemble/context_pipeline.py"
    edit(pipeline, " Snip(),", " Snip(), Polite(),")
    imported = "from agentcli.context.steps import ContextStep, Pipeline\n"
    edit(pipeline, imported, f"{imported}from agentcli.context.polite import Polite\n")
    runs = """
from pathlib import Path
from agentcli.agent.ports import Collapser
from agentcli.assemble.context_pipeline import pipeline_for
from agentcli.config.paths import Paths
from agentcli.config.settings import SettingsRequest, load_settings
from agentcli.context.polite import Polite
from agentcli.context.steps import ContextState
from tests.context.logs import Talk
talk = Talk()
talk.prompt("go")
target = talk.call("Bash", {"command": "make"}, "All went well. " * 50)
talk.call("Bash", {"command": "ls"}, "a")
talk.answer()
talk.prompt("more")
plan = Polite().plan(talk.log, ContextState(estimate=1_000, usable=100_000))
assert [(edit.target, edit.text) for edit in plan.edits] == [(target, "[ok]")]
settings = load_settings(SettingsRequest(paths=Paths(None, None, None), cwd=Path.cwd(), sources=()))
print([step.name for step in pipeline_for(settings, None, Collapser())._steps])
"""
    assert "'snip', 'polite'" in python(checkout, "-c", runs)


def test_following_the_recipe_for_a_theme_gives_one_that_can_be_read(tmp_path: Path) -> None:
    from agentcli.config.themes import load_theme, theme_folders

    (tmp_path / "themes").mkdir()
    (tmp_path / "themes/moss.toml").write_text(blocks("A theme", "toml")[0])
    theme = load_theme("moss", theme_folders(tmp_path))
    assert theme.colours["accent"].rgb == (0x8F, 0xCE, 0x72)


def test_the_files_it_names_exist() -> None:
    made_up = ("countlines", "words", "moss", "polite")
    named = set(re.findall(r"`([a-z_.]+/[a-z_/]+\.(?:py|md|toml|yml|sh))`", TEXT))
    named = {name for name in named if not any(word in name for word in made_up)}
    assert len(named) > 25
    missing = [name for name in sorted(named) if not ((ROOT / name).exists() or (ROOT / "agentcli" / name).exists())]
    assert missing == []
