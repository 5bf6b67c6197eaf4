"""The promises of the README and the guide: flags, links and examples work."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

from tests.support.fork_server import forking_command
from tests.support.guide import GUIDE, PAGES, ROOT, block_with, blocks

README = (ROOT / "README.md").read_text(encoding="utf-8")


def example_command() -> list[str]:
    """`python example.py`"""
    return forking_command("-c", "import runpy; runpy.run_path('example.py', run_name='__main__')")


def test_ci_runs_the_readmes_own_test_command() -> None:
    command = next(block.strip() for block in blocks("sh") if "pytest" in block and "-m venv" in block)
    assert command in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert command in (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_picture_is_there_and_shows_the_app() -> None:
    picture = (ROOT / re.search(r"!\[[^]]+\]\(([^)]+\.svg)\)", README)[1]).read_text(encoding="utf-8")  # type: ignore[index]
    assert "Allow once".replace(" ", "\N{NO-BREAK SPACE}") in picture


def test_its_links_have_targets() -> None:
    missing, seen = [], 0
    for page in (*PAGES, *(ROOT / ".github").glob("*.md"), *(ROOT / ".github/decisions").glob("*.md")):
        for path, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text(encoding="utf-8")):
            target = page.parent / path if path else page
            if "://" in path:
                continue
            seen += 1
            if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
                missing.append(f"{page.name}: {path}#{anchor}")
    assert missing == []
    assert seen > 30


def anchors(text: str) -> set[str]:
    """The names of a page's headings in links."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


def test_the_papers_are_short_and_the_readme_links_all_pages() -> None:
    limits = {"README.md": 25_000, "CHANGELOG.md": 8_000, ".github/CONTRIBUTING.md": 12_000}
    sizes = {name: (ROOT / name).stat().st_size for name in limits}
    assert {name: size for name, size in sizes.items() if size > limits[name]} == {}
    pages = [page.relative_to(ROOT).as_posix() for page in PAGES[1:]]
    assert [page for page in (*pages, ".github/REFERENCE.md", ".github/SPEC.md") if f"({page})" not in README] == []


def test_its_table_of_tools_has_every_built_in_tool() -> None:
    from agentcli.tools.registry import BUILTIN_NAMES

    rows = README.partition("| tool | use |")[2].partition("\n\n")[0].splitlines()
    named = {name for row in rows for name in re.findall(r"\w+", row.split("|")[1] if "|" in row else "")}
    missing = [name for name in BUILTIN_NAMES if name not in named]
    assert missing == [], "README's table of tools leaves out these"


def test_every_flag_that_is_named_exists() -> None:
    from agentcli.cli.app import command_tree
    from agentcli.cli.flags import BY_NAME

    commands = list(command_tree().commands.values())
    commands += [inner for command in commands for inner in getattr(command, "commands", {}).values()]
    known = {*BY_NAME, *(name for command in commands for param in command.params for name in param.opts)}
    unquoted = (re.sub(r"'[^']*'", "", line) for block in blocks("sh") for line in block.splitlines())
    lines = [line for line in unquoted if "agentcli" in line]
    named = {flag for line in lines for flag in re.findall(r"(?<=\s)--[a-z][a-zA-Z-]+", line)} - {"--help"}
    prose = set(re.findall(r"`(--[a-z][a-zA-Z-]+)", GUIDE)) - {"--help"}
    assert named | prose <= known


def test_the_run_without_a_key_works(tmp_path: Path) -> None:
    line = next(line for block in blocks("sh") for line in block.splitlines() if "AGENTCLI_SCRIPT" in line)
    command = line.replace(" agentcli ", f" {shlex.join(forking_command('-m', 'agentcli'))} ")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["/bin/sh", "-c", command], cwd=ROOT, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    frames = [json.loads(line) for line in done.stdout.splitlines()]
    assert frames[-1]["result"].startswith("This folder holds")
    results = [f["message"]["content"][0] for f in frames if f["type"] == "user"]
    assert len(results) == 2
    assert not any(result["is_error"] for result in results)


def test_the_python_example_runs_against_a_script(tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(
        json.dumps({"version": 1, "replies": [{"steps": [{"tool": "lookup", "input": {"word": "loop"}}]}, "See loop."]})
    )
    (tmp_path / "example.py").write_text(block_with("python", "Look a word up"))
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    environ["AGENTCLI_SCRIPT"] = "script.json"
    done = subprocess.run(example_command(), cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "see loop" in done.stdout
    assert "Result(" in done.stdout


def test_the_plugin_example_is_a_plugin(tmp_path: Path) -> None:
    folder = tmp_path / ".config/agentcli/plugins"
    folder.mkdir(parents=True)
    (folder / "words.py").write_text(block_with("python", "plugin = Plugin()"))
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = forking_command("-m", "agentcli", "plugins", "list")
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True)
    assert "adds: tool word_count\n" in done.stdout
    assert "problem" not in done.stdout


def test_the_example_with_permission_questions_writes_only_after_a_yes(tmp_path: Path) -> None:
    write = {"tool": "Write", "input": {"file_path": "poem.txt", "content": "Round and round.\n"}}
    (tmp_path / "script.json").write_text(json.dumps({"version": 1, "replies": [{"steps": [write]}, "Finished."]}))
    (tmp_path / "example.py").write_text(block_with("python", "PermissionRequested"))
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    environ["AGENTCLI_SCRIPT"] = "script.json"
    for answer, written in (("n", False), ("y", True)):
        done = subprocess.run(
            example_command(), cwd=tmp_path, env=environ, capture_output=True, text=True, input=answer
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == "Write poem.txt? [y/N] Finished.\n"
        assert (tmp_path / "poem.txt").exists() == written


def test_the_settings_example_is_valid() -> None:
    from agentcli.config.paths import Paths
    from agentcli.config.settings import SettingsRequest, load_settings

    settings = load_settings(
        SettingsRequest(
            paths=Paths(None, None, None),
            cwd=ROOT / "tests",
            flag_text=block_with("json", "fallbackModels"),
            sources=(),
        )
    )
    assert [problem.text for problem in settings.problems] == []
    assert settings.text("model") == "sonnet"


def mcp_examples() -> list[dict[str, Any]]:
    return [json.loads(block) for block in blocks("json") if '"mcpServers"' in block]


def test_another_program_reaches_agentcli_with_the_entry_it_shows(tmp_path: Path) -> None:
    _example, served = mcp_examples()
    entry = served["mcpServers"].pop("agentcli")
    assert entry["command"] == "agentcli"
    program, *words = forking_command("-m", "agentcli", *entry["args"])
    entry |= {"command": program, "args": words}
    served["mcpServers"]["other"] = entry  # agentcli takes no server with its own name
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = forking_command("-m", "agentcli", "mcp", "test", "other", "--mcp-config", json.dumps(served))
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=True)
    assert "Tools (4)" in done.stdout


def test_the_mcp_servers_it_shows_are_valid() -> None:
    from agentcli.mcp.configuration import parse_servers

    example, _served = mcp_examples()
    parsed = parse_servers(example["mcpServers"], "user", "mcp.md", {"API_TOKEN": "x"})
    assert parsed.problems == ()
    assert [config.kind for config in parsed.configs] == ["stdio", "http", "sse"]
