"""The entry point of the command line: parse, then import and start exactly one front end.

Every failure ends here in one message and an exit code; a traceback goes to a file.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.cli.flags.early_prompt import restore_terminal, terminal_restored
from agentcli.cli.flags.parse import Parsed, parse
from agentcli.cli.flags.table import COMPLETE_VARIABLE
from agentcli.cli.output import complain, write_bytes
from agentcli.core.errors import AgentError, UsageError
from agentcli.plain.front_end_choice import is_dumb_terminal, may_choose_plain

if TYPE_CHECKING:
    from agentcli.assemble import Options
    from agentcli.config.settings import Settings
    from agentcli.tui.terminal.instant import Instant


def main(argv: Sequence[str], environ: Mapping[str, str], early: Instant | None = None) -> int:
    """Run the command line and return the exit code. Never raises except for a bug in its own error handling. `early`:
    the prompt that is already on the screen, if any."""
    stdin_open = _open_missing_streams()
    try:
        with terminal_restored(early):
            return _dispatch(argv, environ, stdin_open, early)
    except UsageError as error:
        return _complain(str(error), 2)
    except AgentError as error:
        return _complain(str(error), 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            return _report(error, environ)
        return _complain(f"Cannot write the output: {error.strerror}.", 1)
    except Exception as error:  # noqa: BLE001 -- the last line of defence: the user gets a message, the file the traceback
        return _report(error, environ)


def _report(error: Exception, environ: Mapping[str, str]) -> int:
    from agentcli.cli.crash import write_report

    return _complain(write_report(error, environ), 1)


def _dispatch(argv: Sequence[str], environ: Mapping[str, str], stdin_open: bool, early: Instant | None) -> int:
    if (shell := environ.get(COMPLETE_VARIABLE)) is not None:
        from agentcli.cli.flags.complete import answer

        return answer(shell, argv[1:], environ)
    parsed = parse(argv)
    if parsed.command == ("demo",):
        from agentcli.cli.demo import run_demo

        return run_demo(early=early)
    if parsed.command:
        return _typer(parsed.command)
    if parsed.get("help"):
        from agentcli.cli.flags.helptext import here, print_help, root_help

        return print_help(root_help(*here()))
    if parsed.get("version"):
        from agentcli.__main__ import print_version

        return print_version()
    if "worktree" in parsed.values:
        from agentcli.cli.worktree import in_worktree

        with in_worktree(parsed, _current_folder(), environ):
            return _front_end(parsed, argv, environ, stdin_open, early)
    return _front_end(parsed, argv, environ, stdin_open, early)


def _front_end(
    parsed: Parsed, argv: Sequence[str], environ: Mapping[str, str], stdin_open: bool, early: Instant | None
) -> int:
    if not parsed.headless:
        _check_output_format(parsed)
        if may_choose_plain(argv, environ) and _wants_plain(parsed, environ):
            _report_unused_theme(parsed, "in plain mode")
            return _plain(parsed, environ, early)
        return _app(parsed, environ, early)
    _report_unused_theme(parsed, "with -p")
    return _headless(parsed, environ, stdin_open)


def _report_unused_theme(parsed: Parsed, where: str) -> None:
    if parsed.get("theme") is not None:
        complain(f"--theme has no effect {where}: themes are for the app.")


def _check_output_format(parsed: Parsed) -> None:
    """Require -p for --output-format if there is no terminal. Raises `UsageError`."""
    wanted = parsed.get("output_format")
    if wanted is not None and not (os.isatty(0) and os.isatty(1)):
        raise UsageError(f"--output-format needs -p. Use: agentcli -p 'PROMPT' --output-format {wanted}")


def _typer(arguments: Sequence[str]) -> int:
    from agentcli.cli.app import run_app

    return run_app(arguments)


def _app(parsed: Parsed, environ: Mapping[str, str], early: Instant | None) -> int:
    cwd = _current_folder()
    if early is None:  # otherwise this was checked before the prompt was drawn
        from agentcli.cli.busy_session import refuse_busy_session

        refuse_busy_session(parsed, environ, cwd)
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


def _options(parsed: Parsed, cwd: Path) -> Options:
    from agentcli.cli.flags.invocation import build_invocation

    return build_invocation(parsed, cwd).options


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
    from agentcli.core.processes.own_programs import user_environment
    from agentcli.core.processes.programs import folders_named

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
    from agentcli.cli.flags.invocation import build_invocation

    try:
        invocation = build_invocation(parsed, _current_folder())
    except UsageError as error:
        _report_as_json(str(error), parsed)
        raise
    from agentcli.headless.run import run
    from agentcli.headless.streams import Streams

    _keep_tracebacks_in_files(environ, complain)
    return run(invocation.options, invocation.headless, Streams(stdin=0 if stdin_open else None))


def _report_as_json(message: str, parsed: Parsed) -> None:
    """Print a JSON result for clients that asked for JSON, even if nothing could be started."""
    if parsed.get("output_format", "text") == "text":
        return
    from agentcli.core.ids import RandomIds
    from agentcli.headless.encode import encode_whole
    from agentcli.headless.result_frame import failure_frame

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


def _open_missing_streams() -> bool:
    """Open /dev/null for closed standard streams; False if standard input was closed.

    Otherwise the next file or socket would get its number and be used as the stream.
    """
    stdin_open = True
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            stdin_open = stdin_open and descriptor != 0
            os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
    return stdin_open


def _complain(message: str, code: int) -> int:
    complain(message)
    return code
