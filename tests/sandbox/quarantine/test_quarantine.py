"""Files that commands plant for other programs are quarantined and reported; nothing else appears."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentcli.sandbox.quarantine import store as store_module
from agentcli.sandbox.quarantine.store import Quarantine
from tests.sandbox.box import Box

pytestmark = pytest.mark.anyio

FSMONITOR = "[core]\n\tfsmonitor = touch {ran}\n"


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def items(box: Box) -> list[str]:
    return [str(Path(item.path).relative_to(box.project)) for item in Quarantine(box.quarantine).items()]


# ---------------------------------------------------------------------------------------------------------- no traces


@pytest.mark.parametrize("command", ["true", ": git"])
async def test_nothing_appears_in_the_project_while_a_command_runs(box: Box, command: str) -> None:
    box.git("init", "-q")
    (box.project / ".git" / "hooks").rename(box.root / "hooks")
    before = listing(box.project)
    context = box.context()
    waiting = f"{command}; ls -lA . .git; echo > $TMPDIR/ready; until [ -e $TMPDIR/go ]; do sleep 0.01; done"
    running = asyncio.ensure_future(box.run(waiting, context=context))
    async with asyncio.timeout(20):
        while not (ready := list(box.root.glob("agentcli-*/tmp/ready"))):
            assert listing(box.project) == before
            await asyncio.sleep(0.005)
    assert listing(box.project) == before
    ready[0].with_name("go").touch()
    text = str((await running).content)
    for name in (".claude", ".mcp.json", ".envrc", ".vscode", ".husky", "config.worktree", "commondir", "hooks"):
        assert name not in text
    assert listing(box.project) == before


# ---------------------------------------------------------------------------------------------------- planted names


async def test_a_planted_file_is_moved_away_while_the_command_still_runs(box: Box) -> None:
    text = await box.text("echo evil > .envrc; for i in $(seq 500); do [ -e .envrc ] || break; sleep 0.01; done; ls -A")
    assert ".envrc was moved to quarantine" in text
    assert not text.startswith(".envrc")
    (item,) = Quarantine(box.quarantine).items()
    assert item.path == str(box.project / ".envrc")
    assert "seq 500" in item.command
    assert f"agentcli quarantine restore {item.id}" in text


async def test_quarantine_is_reported_and_can_be_restored(box: Box) -> None:
    output = await box.run("mkdir .vscode; echo '{}' > .vscode/tasks.json; ln -s /etc .idea; sleep 0.2")
    assert any(".idea was moved" in notice for notice in output.notices)
    assert not (box.project / ".idea").is_symlink()
    store = Quarantine(box.quarantine)
    assert {".vscode", ".idea"} == set(items(box))
    for item in store.items():
        store.restore(item)
    assert (box.project / ".idea").readlink() == Path("/etc"), "moved as a link, never followed"
    assert (box.project / ".vscode").is_dir()
    assert store.items() == []


async def test_restoring_overwrites_nothing(box: Box) -> None:
    await box.run("echo evil > .envrc")
    (box.project / ".envrc").write_text("mine\n")
    store = Quarantine(box.quarantine)
    with pytest.raises(FileExistsError):
        store.restore(store.items()[0])
    assert (box.project / ".envrc").read_text() == "mine\n"


async def test_strict_mode_stops_the_command_at_once(box: Box) -> None:
    strict = box.with_rules(network=False, strict=True)
    async with asyncio.timeout(20):
        output = await strict.run("echo evil > .envrc; sleep 60; echo reached > done")
    assert output.is_error
    assert "stopped because it created protected files" in str(output.content)
    assert not (box.project / "done").exists()


async def test_a_command_that_keeps_planting_files_is_stopped(box: Box) -> None:
    async with asyncio.timeout(30):
        output = await box.run("while :; do mkdir .vscode 2>/dev/null; sleep 0.001; done")
    assert "stopped because it created protected files" in str(output.content)
    assert listing(box.project) == []


async def test_files_written_meanwhile_with_approval_stay(box: Box) -> None:
    launcher = box.launcher()
    launch = launcher.launch(["sleep", "1"], box.project, os.environ)
    launcher.permit(str(box.project / ".vscode" / "settings.json"))
    (box.project / ".vscode").mkdir()
    assert launch.look() is False
    assert launch.close() == ()
    assert (box.project / ".vscode").is_dir()


# ------------------------------------------------------------------------------------------------ planted repositories


@pytest.mark.parametrize(
    "plant",
    [
        "git -C docs init -q; git -C docs config core.fsmonitor 'touch {ran}'",
        "cd docs; mkdir -p .git/objects .git/refs; cp {config} .git/config; echo ref: refs/heads/m > .git/HEAD",
        "cd docs; mkdir objects refs; cp {config} config; echo ref: refs/heads/m > HEAD",
        "mkdir x; git init -q --bare x/r; cp {config} x/r/config; echo gitdir: ../x/r > docs/.git",
        "git init -q docs; mkdir -p docs/.git/hooks; printf '#!/bin/sh\\ntouch {ran}' > docs/.git/hooks/pre-commit",
        "git init -q $TMPDIR/r; cp {config} $TMPDIR/r/.git/config; ln -s $TMPDIR/r/.git docs/.git",
    ],
)
async def test_a_repository_that_runs_programs_is_quarantined(box: Box, plant: str) -> None:
    ran = box.root / "ran"
    box.git("init", "-q")
    (box.project / "docs").mkdir()
    (box.project / "docs" / "notes.md").write_text("mine\n")
    config = box.project / "planted.config"
    config.write_text(FSMONITOR.format(ran=ran))
    output = await box.run(plant.format(ran=ran, config=config))
    assert "agentcli quarantine restore" in str(output.content), output.content
    assert output.notices
    for folder in (box.project, box.project / "docs"):
        environ = {**os.environ, "GIT_CONFIG_COUNT": "0"}
        subprocess.run(["git", "status"], cwd=folder, env=environ, capture_output=True, check=False)
    assert not ran.exists()
    assert (box.project / "docs" / "notes.md").read_text() == "mine\n"


async def test_a_nested_repository_added_as_a_gitlink_runs_nothing(box: Box) -> None:
    ran = box.root / "ran"
    box.git("init", "-q")
    await box.run(
        "git init -q nested && git -C nested -c user.name=t -c user.email=t@x commit -q --allow-empty -m x"
        f" && git add nested && git -C nested config core.fsmonitor 'touch {ran}'"
    )
    box.git("status")
    assert not ran.exists()


async def test_an_existing_nested_repository_keeps_its_configuration_and_hooks(box: Box) -> None:
    nested = box.project / "lib" / "nested"
    nested.mkdir(parents=True)
    box.git("init", "-q", str(nested))
    before = (nested / ".git" / "config").read_bytes()
    context = box.context()
    await box.run("ls", context=context)
    for plant in (
        "echo '[core] fsmonitor = evil' >> lib/nested/.git/config",
        "git -C lib/nested config core.hooksPath ../evil",
        "echo evil > lib/nested/.git/hooks/pre-commit",
        "mkdir c; cp lib/nested/.git/config c; echo ../../../c > lib/nested/.git/commondir",
        "rm lib/nested/.git/config; ln -s ../../../evil lib/nested/.git/config",
    ):
        text = str((await box.run(plant, context=context)).content)
        assert "quarantine restore" in text, plant
        assert (nested / ".git" / "config").read_bytes() == before, plant
        assert not (nested / ".git" / "commondir").exists()
        assert not (nested / ".git" / "hooks" / "pre-commit").exists()
    assert nested.joinpath(".git", "HEAD").exists()
    quiet = await box.run(
        "git -C lib/nested checkout -q -b other; git -C lib/nested remote add o https://x/y", context=context
    )
    assert not quiet.is_error, quiet.content
    assert "quarantine" not in str(quiet.content)


async def test_the_folder_that_the_configuration_names_for_hooks_is_read_only(box: Box) -> None:
    box.git("init", "-q")
    box.git("config", "core.hooksPath", ".githooks")
    assert "quarantine restore" in await box.text("mkdir .githooks; echo evil > .githooks/pre-commit")
    assert not (box.project / ".githooks").exists()
    (box.project / ".githooks").mkdir()
    assert (await box.run("echo evil > .githooks/pre-commit")).is_error
    assert listing(box.project / ".githooks") == []


# ------------------------------------------------------------------------------------------------ what keeps working


async def test_git_commands_that_write_harmless_configuration_work(box: Box) -> None:
    source = box.outside / "source"
    source.mkdir()
    box.git("init", "-q", "-b", "main", str(source))
    box.git("-C", str(source), "commit", "-q", "--allow-empty", "-m", "one")
    box.git("clone", "-q", str(source), ".")
    context = box.context()
    for command in (
        "git checkout -q -b x origin/main",
        "git remote add fork https://example.org/x.git",
        "git config user.name someone",
        "git worktree add -q trees/a && git worktree remove trees/a",
        "git init -q made && git clone -q made copied",
        f"git -c protocol.file.allow=always submodule --quiet add {source} sub",
        "git -C sub status --short; git submodule status",
        "rm -rf made copied",
    ):
        output = await box.run(command, context=context)
        assert not output.is_error, (command, output.content)
        assert "quarantine" not in str(output.content), command
    assert box.git("config", "branch.x.merge") == "refs/heads/main\n"
    assert box.git("config", "remote.fork.url") == "https://example.org/x.git\n"


@pytest.mark.parametrize(
    "command",
    [
        "git config core.fsmonitor ./evil",
        "git config remote.origin.uploadpack ./evil; git config extensions.partialClone origin",
        "git remote add x 'ext::sh -c evil'",
        "git config alias.st '!evil'",
        "git config include.path ../evil",
        "git branch x; printf '\\xef\\xbb\\xbf[core]\\n\\tfsmonitor = evil\\n' > .git/config",
        "git branch x; rm .git/config; ln -s ../evil .git/config",
        "git branch x; rm .git/config",
    ],
)
async def test_configuration_that_runs_programs_is_changed_back(box: Box, command: str) -> None:
    box.git("init", "-q")
    before = (box.project / ".git" / "config").read_bytes()
    await box.run(command)
    left = (box.project / ".git" / "config").read_bytes()
    # Git adds a remote in two steps; the second, which is harmless, may follow when the first was changed back.
    assert left == before or (command.startswith("git remote add") and b"url" not in left)
    assert not (box.project / ".git" / "config").is_symlink()


async def test_a_gitdir_that_points_outside_makes_nothing_there_writable(box: Box) -> None:
    outside = box.outside / "repository"
    outside.mkdir()
    box.git("init", "-q", str(outside))
    modules = box.outside / ".git" / "modules" / "sub"
    modules.parent.mkdir(parents=True)
    box.git("init", "-q", "--bare", str(modules))
    for target in (outside / ".git", modules):
        (box.project / ".git").write_text(f"gitdir: {target}\n")
        await box.run(f"git status; echo evil > {target}/description; echo evil > {target}/config")
        assert "evil" not in (target / "description").read_text()
        assert "evil" not in (target / "config").read_text()


async def test_an_inert_repository_that_a_build_tool_clones_stays_and_is_reported(box: Box) -> None:
    (box.project / "fetch.sh").write_text("git init -q _deps/lib\n")
    output = await box.run("sh ./fetch.sh")
    assert (box.project / "_deps" / "lib" / ".git" / "HEAD").exists()
    assert "harmless and was kept" in str(output.content)


# ------------------------------------------------------------------------------------------- ways around the check


async def test_a_planted_folder_of_any_depth_and_size_does_not_end_the_check(box: Box) -> None:
    deep = "import os\nfor i in range(1500):\n    os.mkdir('d'); os.chdir('d')\n"
    many = "mkdir many; seq -f 'many/%g' 3000 | xargs touch"
    script = f'mkdir t; (cd t; python3 -c "{deep}"); {many}; mv many .claude; mv t .agentcli; mkdir -p sub/.git'
    await box.run(f"{script}; printf '[core]\\n\\tfsmonitor = evil\\n' > sub/.git/config")
    found = items(box)
    # Not by pytest, which cannot remove so deep a tree.
    subprocess.run(["rm", "-rf", str(box.quarantine)], check=True)
    assert sorted(found) == [".agentcli", ".claude", "sub/.git"]


@pytest.mark.parametrize("swapped", ["work", "work/.envrc"])
def test_an_item_is_not_restored_through_a_link_that_appears_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    kept = Quarantine(tmp_path / "quarantine")
    planted, keys = tmp_path / "work/.envrc", tmp_path / "keys"
    planted.parent.mkdir()
    keys.mkdir()
    planted.write_text("planted")
    item = kept.take(planted, "sh plant.sh", "planted")
    rename = os.rename

    def swapping(source: Any, target: Any, **descriptors: int) -> None:
        if Path(source).name == store_module.CONTENT:
            place = tmp_path / swapped
            if not place.is_symlink():
                if place.is_dir():
                    rename(place, tmp_path / "aside")
                place.symlink_to(keys)
            raise OSError(errno.EXDEV, "cross-device")
        rename(source, target, **descriptors)

    monkeypatch.setattr(os, "rename", swapping)
    kept.restore(item)
    assert list(keys.iterdir()) == []
    assert (tmp_path / ("aside" if swapped == "work" else "work") / ".envrc").read_text() == "planted"


def test_an_item_too_large_to_copy_is_renamed_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ".vscode"
    (folder / "inner").mkdir(parents=True)
    rename = os.rename

    def between_file_systems(source: str, target: str | Path, **places: int) -> None:
        if isinstance(target, Path):
            raise OSError(errno.EXDEV, "cross-device")
        rename(source, target, **places)

    monkeypatch.setattr(os, "rename", between_file_systems)
    monkeypatch.setattr(store_module, "_MAX_COPIED", (1000, 1))
    monkeypatch.setattr(store_module, "_QUICK", (1000, 1))
    kept = Quarantine(tmp_path / "quarantine")
    with pytest.raises(store_module.TooLarge):
        kept.take(folder, "true", "planted", quick=True)
    assert folder.exists()
    with pytest.raises(OSError, match=r"renamed to \.vscode\.quarantined-"):
        kept.take(folder, "true", "planted")
    assert not folder.exists()
    assert len(list(tmp_path.glob(".vscode.quarantined-*/inner"))) == 1


@pytest.mark.parametrize(
    "hidden", ["evil", "modules/worktrees/evil"], ids=["any folder", "a worktree of what is no repository"]
)
async def test_a_pointer_into_the_repositorys_own_folder_leads_only_to_checked_files(box: Box, hidden: str) -> None:
    box.git("init", "-q")
    git_dir, settings = f".git/{hidden}", ".git/modules/config" if "worktrees" in hidden else f".git/{hidden}/config"
    # With `git worktree` in it the command may make repositories.
    await box.run(
        f"git worktree list; mkdir -p sub .git/modules/objects .git/modules/refs {git_dir}/objects {git_dir}/refs;"
        f" echo 'ref: refs/heads/x' > {git_dir}/HEAD; echo \"gitdir: $PWD/{git_dir}\" > sub/.git;"
        f' printf "[core]\\n\\tfsmonitor = touch $PWD/ran\\n" > {settings};'
        + (f" echo ../.. > {git_dir}/commondir; echo $PWD/sub/.git > {git_dir}/gitdir" if "worktrees" in hidden else "")
    )
    box.git("-C", "sub", "status")
    assert not (box.project / "ran").exists()
    assert "sub/.git" in items(box)


@pytest.mark.skipif(os.geteuid() == 0, reason="root can list every folder")
async def test_a_repository_in_a_folder_that_cannot_be_listed_is_found_later(box: Box) -> None:
    context = box.context()
    await box.run("true", context=context)
    plant = "mkdir -p docs/sub/.git; printf '[core]\\n\\tfsmonitor = evil\\n' > docs/sub/.git/config; chmod 311 docs"
    first = await box.run(plant, context=context)
    assert "docs cannot be listed" in str(first.content)
    await box.run("mv docs other; chmod 755 other", context=context)
    assert items(box) == ["other/sub/.git"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root can list every folder")
async def test_a_submodules_folder_that_cannot_be_listed_does_not_end_the_check(box: Box) -> None:
    box.git("init", "-q")
    context = box.context()
    await box.run("git status; mkdir -p .git/modules/x; chmod 000 .git/modules/x", context=context)
    output = await box.run("git status; mkdir -p sub/.git; echo '[alias]x=!evil' > sub/.git/config", context=context)
    (box.project / ".git" / "modules" / "x").chmod(0o700)
    assert output.is_error is False
    assert items(box) == ["sub/.git"]
