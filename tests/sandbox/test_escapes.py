"""Attempts to escape from a real sandbox. Each would be a vulnerability if it worked."""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
import sys
from contextlib import chdir
from pathlib import Path

import pytest

from agentcli.core.permission import Need, PermissionMode
from agentcli.permissions.policy import Policy
from tests.sandbox.box import KEY, SECRET, Box

pytestmark = pytest.mark.anyio


# ------------------------------------------------------------------------------------------------ reading and writing


WRITES_OUTSIDE = (
    "echo x > {outside}/file.txt",
    "echo x > {home}/.bashrc",
    "echo x >> {home}/.ssh/authorized_keys",
    "ln -s evil {home}/.zshrc",
    "mv {outside} {outside}.old",
    "rm -rf {outside}",
    "touch /etc/planted",
    "cp /bin/sh {home}/.local/bin/git",
    "ln {outside}/file.txt ./hard && echo x > ./hard",
    "ln -s {outside} link && echo x > link/file.txt",
    "mkdir -p {home}/.config/autostart",
    # Opened, not written: if one of these works it works on the whole machine.
    "exec 3>>/usr/bin/git",
    "exec 3>>/proc/sys/kernel/core_pattern",
    "exec 3>>/proc/sys/vm/drop_caches",
    "exec 3>>/proc/sysrq-trigger",
    "exec 3>>/sys/kernel/uevent_helper",
    "rmdir {project} || mv {project} {project}.old",
)
READS_SECRETS = (
    "cat {home}/.ssh/id_ed25519",
    "cat {home}/.ss*/*",
    "cat {home}/.config/agentcli/settings.json",
    "cat {home}/.netrc",
    "grep -r secret {home}",
    "ln -s {home}/.ssh keys; cat keys/id_ed25519",
    "tar -cf - {home} | strings",
    "find {home} -type f -exec cat {{}} +",
    "cd {home}/.ssh && cat id_ed25519",
    "cat /proc/1/root{home}/.ssh/id_ed25519",
    "cat /proc/self/root{home}/.ssh/id_ed25519",
    "for p in /proc/[0-9]*; do cat $p/root{home}/.ssh/id_ed25519 $p/cwd/../home/.ssh/id_ed25519; done",
    "umount {home}/.ssh; cat {home}/.ssh/id_ed25519",
    "unshare -Urm sh -c 'umount {home}/.ssh; cat {home}/.ssh/id_ed25519'",
    "unshare -Urm sh -c 'umount -l {home}/.ssh; mount --bind {home} /mnt; cat /mnt/.ssh/id_ed25519'",
    "mkdir m; mount --bind {home} m; cat m/.ssh/id_ed25519",
)


async def test_nothing_is_written_outside(box: Box) -> None:
    before = _tree(box.home)
    names = {"outside": box.outside, "home": box.home, "project": box.project}
    done = await box.run_each([command.format(**names) for command in WRITES_OUTSIDE])
    assert [command for command, output in done.items() if not output.is_error] == []
    assert _tree(box.home) == before


async def test_the_quarantine_is_out_of_reach(box: Box) -> None:
    context = box.context()
    await box.run("echo evil > .envrc", context=context)
    await box.run(f"rm -rf {box.quarantine}; echo x > {box.quarantine}/x", context=context)
    (folder,) = box.quarantine.iterdir()
    assert (folder / "content").read_text() == "evil\n"
    assert box.quarantine.stat().st_mode & 0o777 == 0o700


async def test_secrets_cannot_be_read(box: Box) -> None:
    done = await box.run_each([command.format(home=box.home) for command in READS_SECRETS])
    assert [command for command, output in done.items() if SECRET in output.content] == []


async def test_no_environment_that_a_command_sees_has_our_keys(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    text = await box.text(f"env; cat /proc/*/environ; cat /proc/{os.getpid()}/environ; ls /proc; true")
    assert KEY not in text
    assert f"\n{os.getpid()}\n" not in text


async def test_denied_files_are_covered_and_the_cover_cannot_be_removed(box: Box) -> None:
    denied = box.project / ".env"
    denied.write_text(SECRET)
    folder = box.project / "secrets"
    folder.mkdir()
    (folder / "a.txt").write_text(SECRET)
    covered = box.with_rules(denied_files=lambda: (denied, folder))
    commands = (
        *("cat .env secrets/a.txt", "cat < .env", "grep -r secret .", "mv .env x; cat x"),
        *("cp -r . ../copy; cp -r . c; cat c/.env", "git init -q r; cd r; git add ../.env; git show :.env"),
        *("umount .env; cat .env", "rm -f .env; cat .env"),
    )
    done = await covered.run_each(commands)
    assert [command for command, output in done.items() if SECRET in output.content] == []
    assert denied.read_text() == SECRET


# ---------------------------------------------------------------------------------------------------- planted files


@pytest.mark.parametrize(
    "paths",
    [
        (
            *(".agentcli/settings.json", ".claude/settings.json", ".mcp.json", ".envrc", ".vscode/tasks.json"),
            *(".idea/workspace.xml", ".husky/pre-commit", ".git/config"),
        ),
        (".git/hooks/post-checkout",),
    ],
    ids=["most", "hooks"],
)
@pytest.mark.parametrize(
    "plant",
    [
        "mkdir -p $(dirname {path}); echo evil > {path}",
        "rm -rf {top}; mkdir -p $(dirname {path}); echo evil > {path}",
        "mv {top} away; mkdir -p $(dirname {path}); echo evil > {path}",
        "echo evil > new; mv -f new {path}; cp new {path}; rm -f new",
        "ln -sfn /bin/sh {path}",
    ],
)
@pytest.mark.parametrize("there", [True, False])
async def test_files_that_other_programs_run_cannot_be_planted_or_replaced(
    box: Box, there: bool, plant: str, paths: tuple[str, ...]
) -> None:
    for path in paths if there else ():
        (box.project / path).parent.mkdir(parents=True, exist_ok=True)
        (box.project / path).write_text("mine\n")
    before = _tree(box.project)
    plants = (plant.format(path=path, top=path.partition("/")[0]) for path in paths)
    await box.run("; ".join(f"({each}); rm -f new" for each in plants))
    assert _tree(box.project) == before


async def test_a_loop_that_plants_files_until_killed_leaves_none(box: Box) -> None:
    await box.run("(while :; do mkdir .vscode; echo evil > .envrc; done) >/dev/null 2>&1 & sleep 0.05")
    assert _tree(box.project) == {}


async def test_git_works_and_its_hooks_and_configuration_stay(box: Box) -> None:
    box.git("init", "-q")
    (box.project / "a").write_text("a\n")
    configuration = (box.project / ".git" / "config").read_text()
    identity = "git -c user.name=t -c user.email=t@example.org"
    output = await box.run(f"git add a && {identity} commit -qm one && git checkout -qb other && git log --oneline")
    assert not output.is_error, output.content
    assert "one" in box.git("log", "--oneline")
    for command in (
        "git config core.fsmonitor ./evil",
        "git config core.hooksPath .",
        "git status; echo evil > .git/hooks/post-checkout",
        "git status; echo '[core] fsmonitor=evil' >> .git/config",
        "git status; mv .git g; cp -r g .git; echo '[core] fsmonitor=evil' >> .git/config",
        "git status; mv .git/hooks h; mkdir .git/hooks; echo evil > .git/hooks/pre-commit",
        "git status; rm -rf .git/hooks; ln -s ../hooks .git/hooks",
        "git status; mkdir c; cp .git/config c; echo ../c > .git/commondir",
    ):
        await box.run(f"{command}; rm -rf c g")
        assert (box.project / ".git" / "config").read_text() == configuration, command
        assert not [hook for hook in (box.project / ".git" / "hooks").iterdir() if hook.suffix != ".sample"], command
        assert not (box.project / ".git" / "commondir").exists(), command


async def test_a_command_unrelated_to_git_leaves_the_repository_alone(box: Box) -> None:
    box.git("init", "-q")
    before = _tree(box.project)
    assert (await box.run("rm -rf .git; echo x > .git/HEAD")).is_error
    assert _tree(box.project) == before


async def test_a_write_through_a_planted_link_asks_about_its_target(box: Box) -> None:
    output = await box.run(f"ln -s {box.home}/.bashrc notes.txt")
    assert not output.is_error
    policy = Policy(mode=PermissionMode.ACCEPT_EDITS, home=box.home)
    target = str(box.project / "notes.txt")
    decision = policy.decide("Write", {}, [Need("write", target)], box.project, [box.project])
    assert decision.behavior == "ask"


# -------------------------------------------------------------------------------------------------------- processes


@pytest.mark.parametrize(
    "detach",
    [
        *("sleep 300 &", "nohup sleep 300 >/dev/null 2>&1 &", "setsid sleep 300 >/dev/null 2>&1 </dev/null &"),
        "(setsid sh -c '(sleep 300 >/dev/null 2>&1 &) &' &)",
        "setsid env -i sh -c 'trap \"\" TERM HUP; sleep 300' >/dev/null 2>&1 &",
    ],
)
async def test_nothing_outlives_the_command(box: Box, detach: str) -> None:
    seconds = f"3{os.getpid()}"
    output = await box.run(detach.replace("300", seconds))
    assert _running(f"sleep\0{seconds}") == []
    assert "left running" in str(output.content)


async def test_a_command_without_leftover_processes_reports_none(box: Box) -> None:
    output = await box.run("sleep 0 & wait; ls | cat")
    assert output.content == "(no output, exit code 0)"


async def test_processes_outside_can_be_neither_seen_nor_signalled(box: Box) -> None:
    outside = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        text = await box.text(f"kill -9 {outside.pid}; kill -9 -1; ps aux | grep -c sleep; true")
        assert outside.returncode is None
        assert os.getpgid(outside.pid)
        assert "No such process" in text
    finally:
        outside.kill()
        await outside.wait()


async def test_the_parent_cannot_be_traced(box: Box) -> None:
    script = (
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        f"print({os.getpid()}, libc.ptrace(16, {os.getpid()}, 0, 0), os.path.exists('/proc/{os.getpid()}/mem'))\n"
    )
    (box.project / "trace.py").write_text(script)
    text = await box.text(f"{shlex.quote(sys.executable)} trace.py; true")
    assert f"{os.getpid()} -1 False" in text


# ------------------------------------------------------------------------------------------- devices, mounts, sockets


async def test_devices_and_mounts_are_not_available(box: Box) -> None:
    text = await box.text("ls /dev; mknod d b 8 0 || echo refused; mount -t tmpfs x . || echo refused; true")
    assert text.count("refused") == 2
    for name in ("sda", "vda", "mem", "kmsg", "kvm", "loop0"):
        assert f"\n{name}\n" not in text


async def test_the_file_system_cannot_be_made_writable_again(box: Box) -> None:
    commands = (
        "mount -o remount,rw /",
        f"mount -o remount,rw,bind {box.home}",
        "unshare -Urm mount -o remount,rw,bind /",
        "unshare -Urmpf --mount-proc mount -o remount,rw /",
    )
    done = await box.run_each([f"{command} && touch {box.outside}/planted" for command in commands])
    assert all(output.is_error for output in done.values())
    assert not (box.outside / "planted").exists()


async def test_sockets_in_shared_folders_are_not_visible(box: Box) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        path = Path("/tmp") / f"agentcli-test-{os.getpid()}.sock"
        server.bind(str(path))
        server.listen()
        try:
            assert "FileNotFoundError" in await box.text(_connect(str(path)))
        finally:
            path.unlink()
    assert "run/docker" not in await box.text("find /run -type s; true")


async def test_without_network_the_sockets_of_programs_outside_cannot_be_reached(box: Box) -> None:
    closed = box.with_rules(network=False)
    for folder in (box.home, box.project):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(name := f"{folder}/s")
            server.listen()
            assert "Error" in await closed.text(_connect(name))
            assert not (await box.run(_connect(name))).is_error, "the test itself works"
            (folder / "s").rename(moved := f"{folder}/moved")
            assert "Error" in await closed.text(_connect(moved))
    with chdir(box.project), socket.socket(socket.AF_UNIX) as server:
        server.bind("relative")
        server.listen()
        assert "Error" in await closed.text(_connect("relative"))
    own = "import socket; s = socket.socket(socket.AF_UNIX); s.bind('own'); s.listen(); socket.socket(1).connect('own')"
    assert not (await closed.run(f'{shlex.quote(sys.executable)} -c "{own}"')).is_error, "its own sockets work"


async def test_strict_mode_disables_user_namespaces(box: Box) -> None:
    strict = box.with_rules(network=False, strict=True)
    if not box.ability.lockdown:
        pytest.skip("this bubblewrap cannot take user namespaces away")
    assert (await strict.run("unshare -U true")).is_error


def _connect(address: str) -> str:
    return f"{shlex.quote(sys.executable)} -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{address}\")'"


def _running(words: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "cmdline").read_text(errors="replace")
            except OSError:
                continue
            if words in text and "bwrap" not in text:
                found.append(text)
    return found


def _tree(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_dir():
            found[f"{name}/"] = ""
        else:
            found[name] = path.read_text(errors="replace")
    return found
