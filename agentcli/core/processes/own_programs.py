"""Start the programs that agentcli itself runs: git, ripgrep, editors, clipboard programs, the user's helpers.

They run outside of any sandbox, so nothing that an agent can write may decide what runs. This is the only module that
starts processes (`tests/test_own_programs.py` checks it); commands of the model come through it too, with the program
and the environment that a `Launcher` has chosen. Three rules hold for everything else:

- a program is named by an absolute path that was found outside of the working directories (`find_program`);
- its environment comes from `user_environment` or `desktop_environment`: no search path into a working directory, no
  variable that loads code into another program;
- an interpreter of our own is `isolated_python`: no `site`, so no `.pth` and no `sitecustomize`, nothing from the
  current folder or the environment, and no virtual environment, whose `pyvenv.cfg` says where the standard library is.

`find_program` detects a program outside that is a link into a working directory; a shell that looks up a name does not.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import quote

from agentcli.core.aio import start_task
from agentcli.core.files.access import real_path
from agentcli.core.frozen import frozen
from agentcli.core.text.patterns import lazy_pattern

if TYPE_CHECKING:
    import asyncio


PIPE = subprocess.PIPE
DEVNULL = subprocess.DEVNULL
StartedProgram = subprocess.Popen[bytes]
StillRunning = subprocess.TimeoutExpired
"""Raised by `StartedProgram.wait`."""

_SHELL = "/bin/sh"
_HELPER_OUTPUT = 64 * 1024
"""Bytes that a helper may print; longer output is discarded."""
_LOADS_CODE = lazy_pattern(
    r"LD_.*|DYLD_.*|PYTHON.*|BASH_ENV|ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|PS4|IFS|CDPATH|GLOBIGNORE"
    r"|PERL5.*|PERLLIB|RUBYOPT|RUBYLIB|NODE_OPTIONS|NODE_PATH|LUA_(?:INIT|PATH|CPATH).*|GCONV_PATH|LESSOPEN|LESSCLOSE"
    r"|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|GIT_(?:EXEC_PATH|EXTERNAL_DIFF|SSH|SSH_COMMAND|ASKPASS|PAGER"
    r"|EDITOR|SEQUENCE_EDITOR|PROXY_COMMAND|TEMPLATE_DIR|DIR|WORK_TREE|INDEX_FILE|CONFIG.*)|RIPGREP_CONFIG_PATH"
    r"|GREP_OPTIONS|TAR_OPTIONS|VIRTUAL_ENV.*"
)
"""Variables with which another program loads, runs or looks up code."""
_DESKTOP = lazy_pattern(
    r"PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_.*|TZ|TMPDIR|DISPLAY|WAYLAND_DISPLAY|XAUTHORITY|XDG_RUNTIME_DIR"
    r"|XDG_SESSION_TYPE|DBUS_SESSION_BUS_ADDRESS|WSL_.*|__CF_USER_TEXT_ENCODING"
)
"""Variables that clipboard programs need."""


@frozen
class FinishedProgram:
    code: int
    """Exit code, negative for a signal."""
    output: bytes = b""
    errors: bytes = b""


def user_environment(environ: Mapping[str, str], working_dirs: Iterable[Path]) -> dict[str, str]:
    """The user's environment for a program that the user chose, such as an editor, without variables that load code."""
    kept = {name: value for name, value in environ.items() if not _LOADS_CODE.fullmatch(name)}
    kept["PATH"] = clean_search_path(environ.get("PATH"), working_dirs)
    # The current folder is a working directory: `python3 -c` in the user's command must not import from it.
    kept["PYTHONSAFEPATH"] = "1"
    return kept


def desktop_environment(environ: Mapping[str, str], working_dirs: Iterable[Path]) -> dict[str, str]:
    """The variables that clipboard programs need, without secrets."""
    kept = {name: value for name, value in environ.items() if _DESKTOP.fullmatch(name)}
    return {**kept, "PATH": clean_search_path(environ.get("PATH"), working_dirs)}


def shell_command(text: str) -> list[str]:
    """The command that runs a shell text from the user's settings."""
    return [_SHELL, "-c", text]


def isolated_python(code: str, *arguments: str, libraries: Sequence[str] = ()) -> list[str]:
    """The command that runs `code` in an isolated interpreter, which imports the standard library and then the folders
    `libraries`.

    The base interpreter, not that of the virtual environment, which obeys a `pyvenv.cfg` that may be in a project.
    """
    interpreter = getattr(sys, "_base_executable", "") or sys.executable
    prelude = f"import sys; sys.path += {list(libraries)!r}; "
    return [interpreter, "-I", "-S", "-E", "-B", "-c", prelude + code, *arguments]


def run_program(
    command: Sequence[str],
    *,
    cwd: Path | str,
    environ: Mapping[str, str],
    seconds: float,
    input: bytes = b"",
    captures: bool = True,
    pass_descriptors: tuple[int, ...] = (),
) -> FinishedProgram:
    """Run a program to its end. Blocking. Raises OSError; TimeoutError, which is one, after killing its group.

    `captures=False` for programs that stay in the background: with our pipes open they would be waited for.
    """
    stream = PIPE if captures else DEVNULL
    process = start_program(
        command,
        cwd=cwd,
        environ=environ,
        stdin=PIPE if input else DEVNULL,
        stdout=stream,
        stderr=stream,
        pass_descriptors=pass_descriptors,
    )
    with process:
        try:
            output, errors = process.communicate(input or None, timeout=seconds)
        except subprocess.TimeoutExpired:
            kill_group(process.pid)
            raise TimeoutError(f"{Path(command[0]).name} took longer than {seconds:g} seconds") from None
        except BaseException:
            kill_group(process.pid)
            raise
    return FinishedProgram(process.returncode, output or b"", errors or b"")


def start_program(
    command: Sequence[str],
    *,
    cwd: Path | str,
    environ: Mapping[str, str],
    stdin: int = DEVNULL,
    stdout: int = DEVNULL,
    stderr: int = DEVNULL,
    pass_descriptors: tuple[int, ...] = (),
) -> subprocess.Popen[bytes]:
    """Start a program in a new session. Raises OSError; the caller stops it and waits for it."""
    return subprocess.Popen(  # noqa: S603 - absolute path, environment chosen by the caller
        _check(command),
        cwd=cwd,
        env=dict(environ),
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=pass_descriptors,
        start_new_session=True,
    )


async def start_program_async(
    command: Sequence[str],
    *,
    cwd: Path | str,
    environ: Mapping[str, str],
    stdin: int = DEVNULL,
    stdout: int = DEVNULL,
    stderr: int = DEVNULL,
) -> asyncio.subprocess.Process:
    """As `start_program`, on the event loop. If cancelled during the start, it kills the process and raises."""
    import asyncio

    from agentcli.core.aio import wait_uncancelled

    task = start_task(
        asyncio.create_subprocess_exec(
            *_check(command),
            cwd=cwd,
            env=dict(environ),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        try:
            await wait_uncancelled([task])
        finally:
            if task.exception() is None:
                await end_program(task.result())
        raise


async def end_program(process: asyncio.subprocess.Process) -> None:
    """Kill a program of `start_program_async` with its group unless it has exited, and wait for it. Its unread output
    is lost. Completes even if the caller is cancelled meanwhile.
    """

    from agentcli.core.aio import wait_uncancelled

    if process.returncode is None:
        kill_group(process.pid)
    # Python's `wait` returns only when every pipe has ended. A pipe does not end while more output waits than is read,
    # or while a process that left the group keeps it open, so they are closed here. There is no public way to do it.
    transport = process._transport  # type: ignore[attr-defined]
    for number in range(3):
        if (pipe := transport.get_pipe_transport(number)) is not None and not pipe.is_closing():
            pipe.abort() if number == 0 else pipe.close()
    await wait_uncancelled([start_task(process.wait())])


async def run_helper(
    text: str, *, environ: Mapping[str, str], working_dirs: Iterable[Path], seconds: float
) -> FinishedProgram:
    """Run a shell text from the user's settings that prints something short, such as a key. Raises OSError;
    TimeoutError, which is one. Nothing of its group is left.

    It runs in the home folder: a relative path in it must not name a file of a project, which the agent can write.
    """
    import asyncio

    home = Path(environ.get("HOME") or "/")
    process = await start_program_async(
        shell_command(text),
        cwd=home if home.is_absolute() and home.is_dir() else "/",  # noqa: ASYNC240 - one stat
        environ=user_environment(environ, working_dirs),
        stdout=PIPE,
    )
    assert process.stdout is not None
    output = b""
    try:
        async with asyncio.timeout(seconds):
            # All of it: a helper blocks while its output is not read.
            while piece := await process.stdout.read(_HELPER_OUTPUT):
                output += piece if len(output) <= _HELPER_OUTPUT else b""
            code = await process.wait()
    finally:
        kill_group(process.pid)
        await end_program(process)
    return FinishedProgram(code, output if len(output) <= _HELPER_OUTPUT else b"")


async def run_in_foreground(command: Sequence[str], *, cwd: Path | str, environ: Mapping[str, str]) -> int:
    """Run a program that uses the terminal, such as an editor; returns its exit code. Raises OSError.

    In our own process group, so that the terminal's keys reach it. Killed when cancelled.
    """
    import asyncio

    from agentcli.core.aio import wait_uncancelled

    process = await asyncio.create_subprocess_exec(*_check(command), cwd=cwd, env=dict(environ))
    try:
        return await process.wait()
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await wait_uncancelled([start_task(process.wait())])
        raise


def become(code: str, *arguments: str, libraries: Sequence[str]) -> NoReturn:
    """Replace this process by an isolated interpreter running `code`. Keeps the environment and `sys.executable`."""
    command = [sys.executable, *isolated_python(code, *arguments, libraries=libraries)[1:]]
    os.execv(_check(command)[0], command)  # noqa: S606 - our own interpreter


def kill_group(leader: int) -> None:
    """SIGKILL to the group of a process started here. Call it before waiting: after that its number may be reused."""
    signal_group(leader, signal.SIGKILL)


def signal_group(leader: int, number: signal.Signals) -> None:
    """As `kill_group`, with any signal."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


def _check(command: Sequence[str]) -> Sequence[str]:
    if not command or not command[0].startswith("/"):
        raise ValueError(f"not an absolute path of a program: {list(command[:1])}")
    return command


def find_program(name: str, search_path: str | None, working_dirs: Iterable[Path]) -> str | None:
    """Find a program on a PATH (None: the system's), but never in a working directory.

    Otherwise a sandboxed command could put a program into `.venv/bin` and have agentcli run it outside the sandbox.
    Relative entries depend on the current folder, so they are skipped too.
    """
    writable = _resolve(working_dirs)
    for entry in _absolute_entries(search_path):
        found = os.path.join(entry, name)  # noqa: PTH118
        # Most entries have no such program; links are resolved only for those that have.
        if not _can_run(found) or os.path.isdir(found):  # noqa: PTH112 - before every command
            continue
        # A link from outside into a project is like a program in it.
        if not _lies_in(entry, writable) and not _lies_in(found, writable):
            return found
    return None


def clean_search_path(search_path: str | None, working_dirs: Iterable[Path]) -> str:
    """A PATH without the entries that `find_program` skips; the system's if none is left."""
    writable = _resolve(working_dirs)
    safe = (entry for entry in _absolute_entries(search_path) if not _lies_in(entry, writable))
    return os.pathsep.join(safe) or os.defpath


def folders_named(names: Iterable[str], cwd: Path, home: Path | None) -> tuple[Path, ...]:
    """Folders named in settings: absolute, relative to `cwd`, or below `~/`."""
    at_home = (home / name[2:] if home is not None and name.startswith("~/") else Path(name) for name in names)
    return tuple(Path(os.path.normpath(cwd / path)) for path in at_home)


def lies_in(path: str, working_dirs: Iterable[Path]) -> bool:
    """Whether a path leads into one of the folders."""
    return _lies_in(path, _resolve(working_dirs))


def _can_run(path: str) -> bool:
    try:
        return os.access(path, os.X_OK)
    except ValueError:  # a null character or a lone surrogate, which no path contains
        return False


def _resolve(folders: Iterable[Path]) -> list[str]:
    return [real_path(folder) for folder in folders]


def _absolute_entries(search_path: str | None) -> Iterator[str]:
    entries = (os.defpath if search_path is None else search_path).split(os.pathsep)
    return (entry for entry in entries if entry.startswith("/"))


def _lies_in(path: str, folders: list[str]) -> bool:
    real = real_path(path)
    return any(real == folder or real.startswith(folder.rstrip("/") + "/") for folder in folders)


_START_SECONDS = 3.0
"""An opener that still runs after this time is the browser itself."""
_DESKTOP_NAMES = ("XDG_CURRENT_DESKTOP", "DESKTOP_SESSION", "KDE_FULL_SESSION", "KDE_SESSION_VERSION")
_SAFE = ":/?#[]@&+,=%-._~"
"""Characters that have no special meaning for any opener, or a shell behind it."""


def open_in_browser(address: str, environ: Mapping[str, str], working_dirs: Iterable[Path]) -> bool:
    """Open an address; returns whether a browser was started. Blocking. Only http and https addresses are opened; ask
    the user first."""
    if not re.match(r"https?://", address):
        return False
    folders = tuple(working_dirs)
    variables = desktop_environment(environ, folders)
    variables |= {name: environ[name] for name in _DESKTOP_NAMES if name in environ}
    if "XDG_DATA_DIRS" in environ:
        variables["XDG_DATA_DIRS"] = clean_search_path(environ["XDG_DATA_DIRS"], folders)
    programs = (find_program(name, environ.get("PATH"), folders) for name in _openers(environ))
    return any(program and _starts([program, quote(address, safe=_SAFE)], variables) for program in programs)


def _openers(environ: Mapping[str, str]) -> tuple[str, ...]:
    if sys.platform == "darwin":
        return ("open",)
    if "WSL_DISTRO_NAME" in environ:
        return ("wslview", "xdg-open")
    # Without a display xdg-open starts a text browser.
    return ("xdg-open",) if environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") else ()


def _starts(command: Sequence[str], environ: Mapping[str, str]) -> bool:
    try:
        process = start_program(command, cwd="/", environ=environ)
    except OSError:
        return False
    try:
        return process.wait(_START_SECONDS) == 0
    except StillRunning:
        # The browser outlives the session, so it is only waited for, never stopped.
        threading.Thread(target=process.wait, name="browser opener", daemon=True).start()
        return True
