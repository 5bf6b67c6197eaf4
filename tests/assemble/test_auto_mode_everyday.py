"""Auto mode in the assembled program, played on a repository: everyday commands that must not stop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcli.core.permission import PermissionMode
from agentcli.sandbox import host_proxy
from tests.support.contained import Project, fetching, no
from tests.support.outside_temp import LASTING_TEMP
from tests.support.scripts import call

pytestmark = pytest.mark.anyio

IDENTITY = "-c user.name=t -c user.email=t@e.org"
NAMING = [
    "echo .idea/ >> .gitignore",
    f"git add -A && git {IDENTITY} commit -qm 'Ignore .idea and .vscode folders'",
    f"git {IDENTITY} commit -q --allow-empty -F - <<'EOF'\nIgnore .idea\nEOF",
    f"git {IDENTITY} tag -a v1 -m 'Without .npmrc'",
    "find . -type f -name '*.py' -not -path './.git/*' -exec sed -i s/x/y/ {} +",
    "find . -path ./.git -prune -o -name '*.py' -print | xargs sed -i s/y/z/",
    "grep -rl --exclude-dir=.git z . | xargs sed -i s/z/x/",
    "tar czf /tmp/x.tgz --exclude=.git .",
    "cat .git/HEAD && touch made",
]


async def test_protected_paths_may_be_named_where_they_are_not_changed(contained: Project) -> None:
    async with contained.commands(*NAMING) as session:
        results = await session.run(no)
        assert [event.reason for event in session.asked] == []
        failed = [text for text in results if "exit code" in text.lower() and "exit code 0" not in text.lower()]
        assert failed == []
    assert (contained.path / ".gitignore").read_text() == ".idea/\n"
    assert contained.git("log", "-2", "--format=%s") == "Ignore .idea\nIgnore .idea and .vscode folders"
    assert (contained.path / "made").exists()


async def test_changing_a_protected_path_still_asks(contained: Project) -> None:
    commands = [
        "find . -path './.git/*' -exec chmod a+r {} +",
        "git commit -m x && cp src/app.py .envrc",
        "tar xf a.tgz --exclude=x .git",
        "git commit -m '.npmrc' && cp src/app.py .npmrc",
    ]
    async with contained.commands(*commands) as session:
        await session.run(no)
        assert [event.input["command"] for event in session.asked] == commands


def library(project: Path) -> Path:
    folder = project / "lib"
    folder.mkdir()
    (folder / "source.py").write_text("def found(): ...\n")
    return folder


async def test_file_tools_read_files_outside_that_a_sandboxed_command_can_read(contained: Project) -> None:
    if contained.root.is_relative_to(LASTING_TEMP):
        pytest.skip("no folder outside of the temp folders can be written here")
    folder = library(contained.root)
    calls = [
        call("Read", file_path=str(folder / "source.py")),
        call("Grep", pattern="found", path=str(folder), output_mode="content"),
        call("Glob", pattern="*.py", path=str(folder)),
    ]
    async with contained.session(*calls) as session:
        results = await session.run(no)
        assert [event.reason for event in session.asked] == []
    assert "def found" in results[0]
    assert "def found" in results[1]
    assert "source.py" in results[2]


async def test_file_tools_ask_for_files_that_a_sandboxed_command_cannot_read(contained: Project) -> None:
    (contained.home / ".ssh").mkdir()
    (contained.home / ".ssh" / "id").write_text("secret")
    (contained.home / ".npmrc").write_text("token=secret")
    (contained.home / "closed").mkdir()
    (contained.home / "closed" / "a").write_text("secret")
    folder = library(contained.root)
    (folder / "link.py").symlink_to(contained.home / ".ssh" / "id")
    settings = {"sandbox": {"denyRead": [str(contained.home / "closed")]}, "permissions": {"ask": ["Read(~/asked/**)"]}}
    (contained.home / "asked").mkdir()
    (contained.home / "asked" / "a").write_text("secret")
    calls = [
        call("Read", file_path=str(contained.home / ".ssh" / "id")),
        call("Read", file_path=str(contained.home / ".npmrc")),
        call("Read", file_path=str(folder / "link.py")),
        call("Read", file_path=str(contained.home / "closed" / "a")),
        call("Read", file_path=str(contained.home / "asked" / "a")),
        call("Read", file_path="/proc/self/environ"),
        call("Grep", pattern="secret", path=str(contained.home), output_mode="content"),
        call("Grep", pattern="secret", path=str(folder), output_mode="content"),
    ]
    async with contained.session(*calls, settings=json.dumps(settings)) as session:
        results = await session.run(no)
        assert len(session.asked) == len(calls), results
        assert not any("secret" in text.replace("`secret`", "") for text in results)


async def test_other_modes_ask_for_reads_outside(contained: Project) -> None:
    path = library(contained.root) / "source.py"
    options = {"permission_mode": PermissionMode.ACCEPT_EDITS}
    async with contained.session(call("Read", file_path=str(path)), **options) as session:
        await session.run(no)
        assert len(session.asked) == 1


def fill(folder: Path) -> None:
    folder.mkdir(parents=True)
    for number in range(12):
        (folder / f"{number}.txt").touch()


async def test_caches_and_environments_may_be_removed(contained: Project) -> None:
    names = ["node_modules", "dist", ".mypy_cache", "src/__pycache__", ".venv/lib", "build"]
    for name in names:
        fill(contained.path / name)
    (contained.path / ".venv" / "pyvenv.cfg").touch()
    fill(contained.path / "tests" / "__pycache__")
    commands = [
        "rm -rf node_modules dist/ .mypy_cache src/__pycache__",
        "rm -rf .venv && mkdir .venv",
        "rm -rf build/*",
        "find . -type d -name __pycache__ -exec rm -rf {} +",
    ]
    async with contained.commands(*commands) as session:
        await session.run(no)
        assert [event.reason for event in session.asked] == []
    assert not any((contained.path / name).exists() for name in names[:4])
    assert list((contained.path / ".venv").iterdir()) == []
    assert list((contained.path / "build").iterdir()) == []


async def test_removing_a_folder_that_only_looks_like_a_cache_asks_and_names_the_limit(contained: Project) -> None:
    fill(contained.path / "dist")
    contained.git("add", "dist/0.txt")
    fill(contained.path / "work")
    fill(contained.root / "elsewhere")
    (contained.path / "build").symlink_to(contained.root / "elsewhere")
    fill(contained.path / "target")
    (contained.path / "target" / ".git").mkdir()
    commands = [
        "rm -rf dist",
        "rm -rf work",
        "rm -rf build/*",
        "rm -rf target",
        "find . ! -name __pycache__ -exec rm -rf {} +",
        "find . -name __pycache__ -prune -o -name '*.txt' -delete",
        "find . -name '*.txt' -delete",
    ]
    async with contained.commands(*commands) as session:
        await session.run(no)
        assert [event.input["command"] for event in session.asked] == commands
        assert "more than 10 files" in session.asked[0].reason


async def test_a_non_interactive_refusal_names_the_part_that_needs_approval(contained: Project) -> None:
    fill(contained.path / "work")
    async with contained.commands("touch made && rm -rf work", interactive=False) as session:
        (result,) = await session.run(no)
    assert "more than 10 files" in result
    assert "the parts without `rm -rf work` can run as a call of their own" in result


async def test_non_interactive_advice_names_no_tool_that_asks(contained: Project) -> None:
    command = "python3 -c \"open('.g' + 'it/config', 'a')\""
    async with contained.commands(command, interactive=False) as session:
        (result,) = await session.run(no)
    assert ".git/config is protected" in result
    assert "Write or Edit" not in result


async def test_a_client_without_its_server_gets_advice_to_run_both_in_one_command(contained: Project) -> None:
    script = "import urllib.request as u; u.urlopen('http://localhost:8765/')"
    async with contained.commands(f'python3 -c "{script}"') as session:
        (result,) = await session.run(no)
        assert session.asked == []
    assert "Run the server and its client in one command." in result


async def test_an_allowed_host_with_a_private_address_gets_a_note(
    contained: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_proxy, "_addresses", lambda _host, _port: ["10.0.0.1"])
    command = fetching("http://example.org/x")
    async with contained.commands(command, allowed_tools=("Network(example.org)",)) as session:
        (result,) = await session.run(no)
    assert "Sandbox: example.org leads to a private address" in result
