"""Transport for an MCP server that is a program: messages are lines on its stdin and stdout.

No process of the program is left when the transport is closed, even if closing is cancelled: its stdin is closed, then
its process group gets SIGTERM, then SIGKILL, as do processes that left the group. If agentcli itself exits, all of them
are killed at once; if agentcli is killed, a second later.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.core.aio import cancel_and_wait, in_thread, start_task, wait_uncancelled
from agentcli.core.processes.child import Child, Pipe, exit_text
from agentcli.core.processes.exit_cleanup import kill_descendants, on_exit
from agentcli.core.processes.orphan_processes import SESSION_VARIABLE, Watch, kill_marked, marked, new_mark
from agentcli.core.processes.own_programs import (
    clean_search_path,
    find_program,
)
from agentcli.core.text.plaintext import plain_line
from agentcli.core.text.secret_text import is_secret_name, proxy_without_credentials, without_url_credentials
from agentcli.mcp.answers import AnswerReader, error_answer
from agentcli.mcp.link import ServerLimits, ServerLink

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage


_PASSED = re.compile(
    r"HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_.*|TZ|TZDIR|TMPDIR|TMP|TEMP|NO_COLOR|XDG_[A-Z]+_(?:HOME|DIRS?)"
    r"|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NODE_EXTRA_CA_CERTS|NIX_SSL_CERT_FILE|NIX_PATH"
    r"|NVM_DIR|NVM_BIN|FNM_DIR|FNM_MULTISHELL_PATH|VOLTA_HOME|PNPM_HOME|BUN_INSTALL|DENO_DIR|npm_config_.*|NPM_CONFIG_.*"
    r"|UV_.*|PIPX_HOME|PIPX_BIN_DIR|PYENV_ROOT|RBENV_ROOT|ASDF_.*|MISE_.*|CONDA_.*|CARGO_HOME|RUSTUP_HOME|GOPATH|GOROOT"
    r"|JAVA_HOME|DOTNET_ROOT|DOCKER_HOST|DOCKER_CONTEXT|DOCKER_CONFIG|KUBECONFIG|SSH_AUTH_SOCK"
    r"|DISPLAY|WAYLAND_DISPLAY|XAUTHORITY|DBUS_SESSION_BUS_ADDRESS|WSL_DISTRO_NAME|no_proxy|NO_PROXY"
)
_PROXY = re.compile(r"(?:http|https|all)_proxy", re.IGNORECASE)


def server_environment(
    environ: Mapping[str, str], given: Mapping[str, str], working_dirs: Iterable[Path]
) -> dict[str, str]:
    """The environment of a server: variables that programs need to run, without secrets, and the configuration's own.

    PATH contains no folder of the working directories: a sandboxed command could put a `node` there for a server to
    run.
    """
    kept: dict[str, str] = {}
    for name, value in environ.items():
        if _PROXY.fullmatch(name):
            kept[name] = proxy_without_credentials(value)
        elif _PASSED.fullmatch(name) and not is_secret_name(name):
            cleaned = without_url_credentials(value)
            if cleaned is not None:
                kept[name] = cleaned
    if SESSION_VARIABLE in environ:
        # An agent that started this one finds the server by its own mark.
        kept[SESSION_VARIABLE] = environ[SESSION_VARIABLE]
    return {**kept, "PATH": clean_search_path(environ.get("PATH"), working_dirs), "TERM": "dumb", **given}


def server_command(
    command: str,
    args: Iterable[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    given: Mapping[str, str],
    working_dirs: Iterable[Path],
) -> list[str]:
    """The command with an absolute path. Raises `FileNotFoundError`, whose text says what to do.

    A name is searched in PATH, but never in a working directory; a path was approved with the configuration.
    """
    if "/" not in command:
        found = find_program(command, given.get("PATH", environ.get("PATH")), working_dirs)
        if found is None:
            raise FileNotFoundError(f"{command}: no such program in PATH. Install it, or give its full path.")
        return [found, *args]
    home = environ.get("HOME", "")
    path = Path(home, command[2:]) if command.startswith("~/") and home else cwd / command
    if not os.access(path, os.X_OK) or path.is_dir():
        raise FileNotFoundError(f"{path}: no such program, or it is not executable.")
    return [os.path.abspath(path), *args]  # noqa: PTH100  links stay as they are: a virtual environment's python is one


_STDERR_LINES = 200
"""Lines of one chunk of stderr that are kept; the log has no room for more."""
_STDERR_LINE = 4096
_LAST_WORDS_SECONDS = 0.5
"""Timeout for the exit code after the end of stdout, and for the remaining output after the exit."""


_ANSWER_ID = re.compile(rb'"id": ?(\d{1,15})\b')
_ENDS = 100
"""Bytes at the beginning and end of a malformed line that are searched for its id."""


class StdioTransport:
    """A transport for the library, and both of its streams. For one use."""

    def __init__(
        self,
        command: Sequence[str],
        cwd: Path,
        environ: Mapping[str, str],
        reader: AnswerReader,
        link: ServerLink,
        limits: ServerLimits,
    ) -> None:
        self._command = command
        self._cwd = cwd
        self._mark = new_mark()
        self._environ = marked(environ, SESSION_VARIABLE, self._mark)
        self._reader = reader
        self._link = link
        self._limits = limits
        self._last_error = ""
        self._tasks: list[asyncio.Task[Any]] = []
        self._stdin: asyncio.WriteTransport | None = None
        self._forget: Callable[[], None] = lambda: None
        self._orphan_watch = Watch()
        self._pieces: list[bytes] = []
        """The beginning of an incomplete line of stdout."""
        self._size = 0
        self._lines: list[bytes] = []
        """Complete lines, the next one last."""
        self._bad = 0

    async def __aenter__(self) -> tuple[StdioTransport, StdioTransport]:
        try:
            await self._orphan_watch.start(self._mark)
            stdin = self._start()
        except BaseException:
            self._orphan_watch.dismiss()
            raise
        self._orphan_watch.add_group(self._child.pid)
        self._forget = on_exit(self._kill)
        self._tasks = [
            start_task(self._log_errors(), name="mcp stderr"),
            start_task(self._watch(), name="mcp exit"),
        ]
        try:
            self._stdin, _ = await asyncio.get_running_loop().connect_write_pipe(asyncio.Protocol, stdin)
        except BaseException:
            await self._stop_uncancelled()
            raise
        return self, self

    def _start(self) -> FileIO:
        """Start the program; returns the writing end of its stdin."""
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            (stdin, ours_in), (ours_errors, errors) = os.pipe(), os.pipe()
            for stack, descriptor in ((theirs, stdin), (theirs, errors), (ours, ours_in), (ours, ours_errors)):
                stack.callback(os.close, descriptor)
            self._child = Child.start(self._command, cwd=self._cwd, environ=self._environ, stdin=stdin, stderr=errors)
            ours.pop_all()
        self._errors = Pipe(ours_errors)
        return FileIO(ours_in, "wb")

    async def __aexit__(self, *_exc: object) -> None:
        await self._stop_uncancelled()

    async def aclose(self) -> None:
        """Does nothing: leaving the transport closes both streams."""

    # ---------------------------------------------------------------------------------------------------------- output

    def __aiter__(self) -> StdioTransport:
        return self

    async def __anext__(self) -> SessionMessage:
        while True:
            line = await self._next_line()
            if line is None:
                raise StopAsyncIteration
            if not line.strip():
                continue
            message = await self._parse(line)
            if message is not None:
                self._bad = 0
                return message
            self._bad += 1
            if self._bad >= self._limits.bad_lines:
                self._link.end(f"{self._bad} lines in a row on its stdout are not messages of the protocol", "refused")
                raise StopAsyncIteration

    async def _next_line(self) -> bytes | None:
        # Let other tasks run between two messages of a flood.
        await asyncio.sleep(0)
        while not self._lines:
            chunk = await self._child.output.read()
            if not chunk:
                await self._end_link()
                return None
            first, *more = chunk.split(b"\n")
            self._pieces.append(first)
            self._size += len(first)
            if self._size > self._limits.message_bytes:
                megabytes = self._limits.message_bytes / 1e6
                self._link.end(f"a line on its stdout is longer than {megabytes:g} MB", "refused")
                return None
            if more:
                self._lines = [b"".join(self._pieces), *more[:-1]][::-1]
                self._pieces, self._size = [more[-1]], len(more[-1])
        return self._lines.pop()

    async def _parse(self, line: bytes) -> SessionMessage | None:
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        try:
            raw = await self._reader.parse(line)
            return SessionMessage(jsonrpc_message_adapter.validate_python(raw, by_name=False))
        except ValueError:
            shown = line[:_STDERR_LINE].decode("utf-8", "replace")
            self._link.note(f"not a message: {plain_line(shown, 200)}")
        answered = _ANSWER_ID.search(line[:_ENDS]) or _ANSWER_ID.search(line[-_ENDS:])
        if answered is None or not line.startswith(b"{"):
            return None
        # The request fails now instead of waiting for its timeout.
        is_too_large = len(line) > self._limits.result_bytes
        reason = f"larger than {self._limits.result_bytes / 1e6:g} MB" if is_too_large else "malformed"
        error = error_answer(int(answered[1]), f"the answer is {reason}")
        return SessionMessage(jsonrpc_message_adapter.validate_python(error))

    async def _watch(self) -> None:
        """Soon after the exit, end the children of the program, which may keep stdout open, and the link."""
        await self._child.wait()
        await asyncio.sleep(_LAST_WORDS_SECONDS)
        self._kill()
        await self._end_link()

    async def _end_link(self) -> None:
        if self._link.ended.is_set():
            return
        if await self._child.wait(_LAST_WORDS_SECONDS):
            await asyncio.wait([self._tasks[0]], timeout=_LAST_WORDS_SECONDS)
        code = self._child.code
        what = "closed its output" if code is None else exit_text(code)
        # The last stderr line of a server that was killed, or exited successfully, is not the reason.
        is_reason = self._last_error and (code is None or code > 0)
        self._link.end(f"{what}: {self._last_error}" if is_reason else what)

    async def _log_errors(self) -> None:
        rest = b""
        while chunk := await self._errors.read():
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop()[:_STDERR_LINE]
            for line in lines[-_STDERR_LINES:]:
                self._note_error(line)
        self._note_error(rest)

    def _note_error(self, line: bytes) -> None:
        text = plain_line(line[:_STDERR_LINE].decode("utf-8", "replace"), 500)
        if text:
            self._last_error = text
            self._link.note(text)

    # ----------------------------------------------------------------------------------------------------------- input

    async def send(self, item: SessionMessage) -> None:
        """Queue a message, without waiting. A program that does not read is disconnected when too much is queued."""
        import anyio

        if self._stdin is None or self._stdin.is_closing():
            raise anyio.ClosedResourceError
        self._stdin.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
        if self._stdin.get_write_buffer_size() > self._limits.unread_bytes:
            self._link.end(f"does not read its input ({self._limits.unread_bytes:,} bytes wait)")
            self._kill()
        await asyncio.sleep(0)

    # ------------------------------------------------------------------------------------------------------------- end

    async def _stop_uncancelled(self) -> None:
        import anyio

        task = start_task(self._stop(), name="mcp stop")
        with anyio.CancelScope(shield=True):
            await wait_uncancelled([task])

    async def _stop(self) -> None:
        child, seconds = self._child, self._limits.grace_seconds
        draining = start_task(self._drain(), name="mcp drain")
        try:
            if child.code is not None or (self._stdin is not None and self._stdin.is_closing()):
                await self._end_link()
            if self._stdin is not None and not self._stdin.get_write_buffer_size():
                self._stdin.close()
            elif self._stdin is not None:
                self._stdin.abort()
            if not await child.wait(seconds):
                child.signal_group(signal.SIGTERM)
                if not await child.wait(seconds):
                    # Children that left the group can be found only while it runs.
                    await in_thread(kill_descendants, child.pid)
        finally:
            # Also kills remaining children, and runs if this is cancelled because the event loop ends.
            self._kill()
            self._forget()
            self._orphan_watch.dismiss()
            await cancel_and_wait([draining, *self._tasks])
            self._errors.close()
            if self._stdin is not None and not self._stdin.is_closing():
                self._stdin.abort()
            await child.aclose()

    def _kill(self) -> None:
        self._child.signal_group(signal.SIGKILL)
        kill_marked(self._mark)

    async def _drain(self) -> None:
        """Read and discard stdout: a program that blocks on writing cannot exit."""
        while await self._child.output.read():
            pass
