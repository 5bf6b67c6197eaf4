"""Write a traceback to a file in the state folder, and name the file in a message.

Also the destination of error log records: the package logs only bugs, and users never see a traceback.
"""

from __future__ import annotations

import logging
import os
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

from agentcli import __version__
from agentcli.config.paths import Paths
from agentcli.core.text.secret_text import without_secrets

_MAX_MESSAGE = 500


def write_report(error: BaseException, environ: Mapping[str, str]) -> str:
    """Write the report and return the message for the user. Never raises, even if the file cannot be written."""
    what = without_secrets(f"Bug in agentcli ({type(error).__name__}: {str(error)[:_MAX_MESSAGE]}).")
    # Without the values of variables. A message can quote some, and reports are sent to strangers.
    text = without_secrets(f"agentcli {__version__}\n\n{''.join(traceback.format_exception(error))}")
    for folder in _folders(environ):
        try:
            return f"{what} Details are in {_write(folder, text)}; please report it with that file."
        except OSError:
            continue
    return f"{what} No report could be written."


class ReportingHandler(logging.Handler):
    """Handler of the root logger: writes a report for an error with an exception, drops everything else.

    Without it the standard library would print tracebacks of any thread or forgotten task on standard error.
    """

    def __init__(self, environ: Mapping[str, str], tell: Callable[[str], object]) -> None:
        super().__init__(logging.ERROR)
        self._environ = environ
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            self._tell(write_report(error, self._environ))


def _folders(environ: Mapping[str, str]) -> list[Path]:
    state = Paths.from_environ(environ).state_dir
    temporary = Path(tempfile.gettempdir())
    return [temporary] if state is None else [state / "crashes", temporary]


def _write(folder: Path, text: str) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix="agentcli-crash-", suffix=".txt", dir=folder)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    return Path(name)
