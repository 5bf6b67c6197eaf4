"""Start one front end with the parsed flags: the app, plain mode or a headless run. Imports only that one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.cli.flags import Parsed
from agentcli.cli.output import complain, write_bytes
from agentcli.core.errors import AgentError, UsageError
from agentcli.plain.front_end_choice import is_dumb_terminal, may_choose_plain

if TYPE_CHECKING:
    from agentcli.assemble import Options
    from agentcli.config.settings import Settings
    from agentcli.history.replay.playback import Frame
    from agentcli.tui.terminal.instant import Instant


def run_front_end(
    parsed: Parsed, argv: Sequence[str], environ: Mapping[str, str], stdin_open: bool, early: Instant | None
) -> int:
    """Run the front end that the flags choose; returns the exit code. Raises `AgentError`."""
    if "worktree" in parsed.values:
        with _in_worktree(parsed, _current_folder(), environ):
            return _run_here(parsed, argv, environ, stdin_open, early)
    return _run_here(parsed, argv, environ, stdin_open, early)


def _run_here(
    parsed: Parsed, argv: Sequence[str], environ: Mapping[str, str], stdin_open: bool, early: Instant | None
) -> int:
    if not parsed.headless:
        _check_output_format(parsed)
        if may_choose_plain(argv, environ) and _wants_plain(parsed, environ):
            return _plain(parsed, environ, early)
        return _app(parsed, environ, early)
    return _headless(parsed, environ, stdin_open)


def _check_output_format(parsed: Parsed) -> None:
    """Require -p for --output-format if there is no terminal. Raises `UsageError`."""
    wanted = parsed.get("output_format")
    if wanted is not None and not (os.isatty(0) and os.isatty(1)):
        raise UsageError(f"--output-format needs -p. Use: agentcli -p 'PROMPT' --output-format {wanted}")


def _app(parsed: Parsed, environ: Mapping[str, str], early: Instant | None) -> int:
    cwd = _current_folder()
    from agentcli.tui.start import DEMO_WANTED, Start, run

    _keep_tracebacks_in_files(environ)
    code = run(
        Start(
            make_options=partial(_options, parsed, cwd),
            cwd=cwd,
            environ=_environment_of_programs(parsed, environ, cwd),
            settings=parsed.get("settings"),
            theme=parsed.get("theme"),
            prompt=parsed.prompt or "",
            pick_session="resume" in parsed.values and not parsed.get("resume"),
            resume=parsed.get("resume") or "",
            continue_latest=bool(parsed.get("continue", False)),
            has_demo=True,
        ),
        early,
    )
    return _become_demo(early) if code == DEMO_WANTED else code


def play_session(frames: Sequence[Frame], speed: float) -> int:
    """Play a recorded session in the app. Raises `UsageError` without a terminal for it."""
    if not (os.isatty(0) and os.isatty(1)) or is_dumb_terminal(os.environ):
        raise UsageError("Playing a session needs a terminal. Without one: agentcli replay SESSION --verify")
    from agentcli.tui.start import run_replay

    _keep_tracebacks_in_files(os.environ)
    with terminal_restored(None):
        return run_replay(frames, speed, _current_folder(), os.environ)


def _options(parsed: Parsed, cwd: Path) -> Options:
    from agentcli.cli.invocation import build_options

    return build_options(parsed, cwd)


def _become_demo(early: Instant | None) -> int:
    """Replace the process by the tour, so that nothing of this session remains."""
    restore_terminal(early)
    from agentcli.core.processes.installation import library_folders, package_root
    from agentcli.core.processes.own_programs import become

    libraries = dict.fromkeys((*library_folders(), str(package_root())))
    become("from agentcli.__main__ import main; main()", "demo", libraries=list(libraries))


def _environment_of_programs(
    parsed: Parsed, environ: Mapping[str, str], cwd: Path, further: Sequence[str] = ()
) -> Mapping[str, str]:
    """The environment for a front end and its programs (editor, clipboard, status line), not for the engine."""
    from agentcli.core.processes.own_programs import folders_named, user_environment

    home = environ.get("HOME")
    named = folders_named((*parsed.get("add_dir", ()), *further), cwd, Path(home) if home else None)
    return user_environment(environ, (cwd, *named))


def _writable_folders(parsed: Parsed, environ: Mapping[str, str], cwd: Path) -> tuple[str, ...]:
    settings = _settings(parsed, environ, cwd)
    return (*settings.texts("permissions.additionalDirectories"), *settings.texts("sandbox.allowWrite"))


def _wants_plain(parsed: Parsed, environ: Mapping[str, str]) -> bool:
    """Whether plain mode is chosen, by flag, by setting or by a dumb terminal."""
    if parsed.get("plain") or is_dumb_terminal(environ):
        return True
    return _settings(parsed, environ, _current_folder()).boolean("plain")


def _settings(parsed: Parsed, environ: Mapping[str, str], cwd: Path) -> Settings:
    from agentcli.config.paths import Paths
    from agentcli.config.settings import SettingsRequest, load_settings

    paths = Paths.from_environ(environ)
    return load_settings(SettingsRequest(paths=paths, cwd=cwd, environ=environ, flag_text=parsed.get("settings")))


def _plain(parsed: Parsed, environ: Mapping[str, str], early: Instant | None) -> int:
    restore_terminal(early)
    from agentcli.plain.start import PlainStart, run

    cwd = _current_folder()

    _keep_tracebacks_in_files(environ)
    return run(
        PlainStart(
            make_options=partial(_options, parsed, cwd),
            cwd=cwd,
            environ=_environment_of_programs(parsed, environ, cwd, _writable_folders(parsed, environ, cwd)),
            prompt=parsed.prompt or "",
            pick_session="resume" in parsed.values and not parsed.get("resume"),
            goes_on=bool(parsed.get("resume") or parsed.get("continue")),
            trust=bool(parsed.get("trust", False)),
            verbose=bool(parsed.get("verbose", False)),
        )
    )


def _headless(parsed: Parsed, environ: Mapping[str, str], stdin_open: bool) -> int:
    from agentcli.cli.invocation import build_options, headless_settings

    cwd = _current_folder()
    try:
        options, settings = build_options(parsed, cwd), headless_settings(parsed, cwd)
    except UsageError as error:
        _report_as_json(str(error), parsed)
        raise
    from agentcli.headless.run import run
    from agentcli.headless.streams import Streams

    _keep_tracebacks_in_files(environ, complain)
    return run(options, settings, Streams(stdin=0 if stdin_open else None))


def _report_as_json(message: str, parsed: Parsed) -> None:
    """Print a JSON result for clients that asked for JSON, even if nothing could be started."""
    if parsed.get("output_format", "text") == "text":
        return
    from agentcli.core.ids import RandomIds
    from agentcli.headless.encode import encode_whole
    from agentcli.headless.stream_json import failure_frame

    write_bytes(encode_whole(failure_frame(message, "", RandomIds().new())))


def _keep_tracebacks_in_files(environ: Mapping[str, str], tell: Callable[[str], object] = lambda _text: None) -> None:
    """Write logged tracebacks to files and pass a message about each to `tell`. By default nothing is shown: in a
    session only the front end may write to the screen."""
    import logging

    from agentcli.cli.crash import ReportingHandler

    logging.getLogger().addHandler(ReportingHandler(environ, tell))


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except OSError:
        raise UsageError("The current folder no longer exists. Change to another one.") from None


@contextmanager
def _in_worktree(parsed: Parsed, cwd: Path, environ: Mapping[str, str]) -> Iterator[None]:
    """Make the worktree the current folder, then remove it unless it has changes. Raises `AgentError`."""
    from agentcli.assemble import Options
    from agentcli.assemble.environment import Environment
    from agentcli.assemble.worktrees import ProjectWorktrees

    options = Options(cwd=cwd, environ=environ, settings=parsed.get("settings"), trust=bool(parsed.get("trust")))
    worktrees = ProjectWorktrees(Environment(options))
    worktree = worktrees.open(parsed.get("worktree") or "")
    try:
        os.chdir(worktree.inside(Path(os.path.realpath(cwd))))
        yield
    finally:
        os.chdir(cwd)
        try:
            if worktrees.close(worktree):
                from agentcli.core.text.plaintext import show_name

                where = show_name(str(worktree.path))
                complain(
                    f"The worktree {worktree.name} has changes and is kept: {where}, branch {worktree.branch}. "
                    f"To continue in it: agentcli --worktree={worktree.name}"
                )
        except AgentError as error:
            complain(f"The worktree {worktree.name} is kept: {error}")


def restore_terminal(early: Instant | None) -> None:
    """Restore the terminal before printing. Does nothing if it was restored already."""
    if early is not None:
        early.finish()
        early.restore.restore_terminal()


@contextmanager
def terminal_restored(early: Instant | None) -> Iterator[None]:
    """Restore the terminal at the end in any case."""
    try:
        yield
    finally:
        restore_terminal(early)
