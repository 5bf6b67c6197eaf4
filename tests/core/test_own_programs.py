"""How agentcli starts its own programs: where they are found, what they see, and that nothing is left running."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import venv
from pathlib import Path

import anyio
import pytest

from agentcli.__main__ import without_project
from agentcli.core.processes import installation
from agentcli.core.processes.own_programs import (
    PIPE,
    clean_search_path,
    desktop_environment,
    end_program,
    isolated_python,
    run_helper,
    run_program,
    shell_command,
    start_program_async,
    user_environment,
)

SYSTEM = "/usr/bin:/bin"


def planted(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


# ------------------------------------------------------------------------------------------------------ environment


def test_a_search_path_loses_relative_and_project_folders(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    (project / ".venv/bin").mkdir(parents=True)
    outside.mkdir()
    (outside / "link").symlink_to(project / ".venv/bin")
    given = f"{project}/.venv/bin:bin:.::{outside}/link:{project}:{outside}:{project}/../project/x:/usr/bin"
    assert clean_search_path(given, [project]) == f"{outside}:/usr/bin"
    assert clean_search_path(f"{project}/.venv/bin", [project]) == os.defpath


def test_variables_that_load_code_into_programs_are_left_out(tmp_path: Path) -> None:
    dangerous = ("LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "PYTHONSTARTUP", "BASH_ENV", "ENV", "PERL5OPT")
    dangerous += ("NODE_OPTIONS", "RUBYOPT", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT", "BASH_FUNC_cat%%", "LESSOPEN")
    given = dict.fromkeys(dangerous, "x") | {"EDITOR": "vi", "AWS_PROFILE": "me", "PATH": SYSTEM}
    assert user_environment(given, [tmp_path]) == {
        "EDITOR": "vi",
        "AWS_PROFILE": "me",
        "PATH": SYSTEM,
        "PYTHONSAFEPATH": "1",
    }


def test_the_desktop_s_programs_get_no_secret(tmp_path: Path) -> None:
    given = {"PATH": SYSTEM, "DISPLAY": ":0", "HOME": "/h", "ANTHROPIC_API_KEY": "k", "DATABASE_URL": "d"}
    assert desktop_environment(given, [tmp_path]) == {"PATH": SYSTEM, "DISPLAY": ":0", "HOME": "/h"}


# --------------------------------------------------------------------------------------------------------- starting


@pytest.mark.anyio
async def test_a_program_without_an_absolute_path_is_not_started(tmp_path: Path) -> None:
    planted(tmp_path, "cat", "touch ran")
    for name in ("cat", "./cat"):
        with pytest.raises(ValueError, match="absolute"):
            run_program([name], cwd=tmp_path, environ={"PATH": str(tmp_path)}, seconds=1)
        with pytest.raises(ValueError, match="absolute"):
            await start_program_async([name], cwd=tmp_path, environ={"PATH": str(tmp_path)})
    assert not (tmp_path / "ran").exists()


def test_a_program_that_takes_too_long_is_killed_with_its_children(tmp_path: Path) -> None:
    command = shell_command(f"sleep 60 & echo $! > {tmp_path}/pid; wait")
    with pytest.raises(TimeoutError, match="took longer"):
        run_program(command, cwd=tmp_path, environ={"PATH": SYSTEM}, seconds=0.3)
    child = int((tmp_path / "pid").read_text())
    if sys.platform == "linux":
        with contextlib.suppress(ProcessLookupError):
            # A signal takes a moment to arrive where all processors are busy.
            handle = os.pidfd_open(child)
            ended, _, _ = select.select([handle], [], [], 30)
            os.close(handle)
            assert ended


@pytest.mark.anyio
async def test_the_end_of_a_program_does_not_wait_for_its_output(tmp_path: Path) -> None:
    """Python's `wait` does: for ever if nobody reads the output, or if a process outside the group holds the pipe."""
    for text in ("yes", f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 60' & sleep 60"):
        process = await start_program_async(
            shell_command(text), cwd=tmp_path, environ={"PATH": SYSTEM}, stdout=PIPE, stderr=PIPE
        )
        while text == "yes" and not process.stdout._paused:  # type: ignore[union-attr]
            await anyio.sleep(0.001)
        while text != "yes" and not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text()):
            await anyio.sleep(0.001)
        with anyio.fail_after(30):
            await end_program(process)
        assert process.returncode == -signal.SIGKILL
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


@pytest.mark.anyio
async def test_a_helper_s_child_that_keeps_its_output_open_is_not_waited_for(tmp_path: Path) -> None:
    text = f"setsid sh -c 'echo $$ > {tmp_path}/pid; exec sleep 60' & echo key"
    with anyio.fail_after(30), pytest.raises(TimeoutError):
        await run_helper(text, environ={"PATH": SYSTEM}, working_dirs=[], seconds=0.3)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_input_output_and_exit_code_come_through(tmp_path: Path) -> None:
    done = run_program(
        shell_command("cat; echo no >&2; exit 3"), cwd=tmp_path, environ={"PATH": SYSTEM}, seconds=10, input=b"yes"
    )
    assert (done.code, done.output, done.errors) == (3, b"yes", b"no\n")


# ------------------------------------------------------------------------------------------- our own interpreter


def test_our_interpreter_loads_nothing_from_a_folder_an_environment_or_site_packages(tmp_path: Path) -> None:
    for name in ("json.py", "sitecustomize.py", "usercustomize.py"):
        (tmp_path / name).write_text("raise SystemExit('planted')")
    environ = {"PYTHONPATH": str(tmp_path), "PYTHONSTARTUP": str(tmp_path / "json.py"), "HOME": str(tmp_path)}
    code = "import json; print(json.dumps([sys.path, sorted(sys.modules), sys.flags.dont_write_bytecode]))"
    done = run_program(isolated_python(code, libraries=["/last"]), cwd=tmp_path, environ=environ, seconds=20)
    path, modules, no_bytecode = json.loads(done.output)
    assert path[-1] == "/last"
    assert not any("-packages" in entry or entry in ("", str(tmp_path)) for entry in path)
    assert "site" not in modules
    assert no_bytecode == 1


def test_a_virtual_environment_s_configuration_cannot_move_our_standard_library(tmp_path: Path) -> None:
    """`home` in pyvenv.cfg says where an environment's interpreter finds its modules."""
    environment = tmp_path / ".venv"
    venv.EnvBuilder(symlinks=True).create(environment)
    code = (
        "import sys\n"
        f"sys.path.insert(0, {str(installation.package_root())!r})\n"
        "from agentcli.core.processes.own_programs import isolated_python\n"
        "print(isolated_python('')[0])"
    )
    done = subprocess.run([environment / "bin/python", "-c", code], capture_output=True, text=True, check=True)
    assert not Path(done.stdout.strip()).is_relative_to(tmp_path)


# --------------------------------------------------------------------------------------------------- installation


def described(python: Path, folder: Path) -> list[Path]:
    """The installation as an interpreter sees it that works in this folder."""
    code = (
        "import sys, json\nfrom pathlib import Path\n"
        f"sys.path.append({str(installation.package_root())!r})\n"
        "from agentcli.core.processes.installation import installation_paths\n"
        f"print(json.dumps([str(path) for path in installation_paths([Path({str(folder)!r})])]))"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return [Path(text) for text in json.loads(done.stdout)]


def test_an_environment_is_part_of_the_installation_but_not_the_source_of_an_editable_one(tmp_path: Path) -> None:
    venv.EnvBuilder(symlinks=True).create(tmp_path / ".venv")
    found = described(tmp_path / ".venv/bin/python", tmp_path)
    assert tmp_path.resolve() / ".venv" in found
    root = installation.package_root()
    assert not any((root / "agentcli").is_relative_to(path) for path in found)
    assert any(Path(os.__file__).resolve().is_relative_to(path) for path in found)


def test_a_project_inside_the_environment_stays_writable(tmp_path: Path) -> None:
    source = tmp_path / ".venv/src/project"
    venv.EnvBuilder(symlinks=True).create(tmp_path / ".venv")
    source.mkdir(parents=True)
    found = described(tmp_path / ".venv/bin/python", source)
    assert not any(source.resolve().is_relative_to(path) for path in found)
    for part in ("bin/agentcli", "lib/python3/site-packages/x.pth", "pyvenv.cfg"):
        assert any((tmp_path.resolve() / ".venv" / part).is_relative_to(path) for path in found)


def test_a_prefix_that_holds_the_whole_system_is_not_protected_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("prefix", "exec_prefix", "base_prefix", "base_exec_prefix"):
        monkeypatch.setattr(sys, name, "/usr")
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    found = installation.installation_paths([tmp_path], tmp_path)
    assert not any(Path("/usr/share/doc/x").is_relative_to(path) for path in found)
    assert not any(Path("/usr/bin/git").is_relative_to(path) for path in found)


def test_the_program_itself_imports_nothing_from_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "prefix", "/work/.venv")
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    root = str(installation.package_root())
    site, standard = "/work/.venv/lib/python3.11/site-packages", "/usr/lib/python3.11"
    given = ["/work", "", "lib", "/work/src", standard, site, "/opt/extra"]
    assert without_project(given, "/work") == [standard, site, "/opt/extra"]
    assert without_project([root, standard, site, root], root) == [standard, site, root]
    assert without_project([standard, site], "/") == [standard, site]
