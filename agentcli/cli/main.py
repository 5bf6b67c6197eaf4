"""The entry point of the command line: parse, then import and start exactly one front end.

Every failure ends here in one message and an exit code; a traceback goes to a file.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agentcli.cli.flags import COMPLETE_VARIABLE, parse
from agentcli.cli.front_ends import run_front_end, terminal_restored
from agentcli.cli.output import complain, echo_styled
from agentcli.core.errors import AgentError, UsageError

if TYPE_CHECKING:
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
        from agentcli.cli.complete import answer

        return answer(shell, argv[1:], environ)
    parsed = parse(argv)
    if parsed.command == ("demo",):
        from agentcli.cli.demo import run_demo

        return run_demo(early=early)
    if parsed.command:
        from agentcli.cli.app import run_app

        return run_app(parsed.command)
    if parsed.get("help"):
        from agentcli.cli.help import root_help, terminal_style

        echo_styled(root_help(*terminal_style()))
        return 0
    if parsed.get("version"):
        from agentcli.__main__ import print_version

        return print_version()
    return run_front_end(parsed, argv, environ, stdin_open, early)


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
