"""Input of the checks: the options of a session here, the environment and the terminal."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from functools import cached_property

from agentcli.assemble import Options
from agentcli.assemble.environment import Environment
from agentcli.config.paths import Paths
from agentcli.core.frozen import frozen


@frozen
class OutputScreen:
    """The terminal or stream that shows the findings."""

    is_terminal: bool
    columns: int
    rows: int
    encoding: str
    may_ask: bool = False
    """Whether the terminal may be queried: no other reader would get its answers."""

    @classmethod
    def here(cls, may_ask: bool) -> OutputScreen:
        # The app replaces `sys.stdout` by its own stream.
        stream = sys.__stdout__ or sys.stdout
        try:
            is_terminal = os.isatty(1)
        except OSError:
            is_terminal = False
        size = shutil.get_terminal_size()
        return cls(is_terminal, size.columns, size.lines, stream.encoding or "", may_ask and is_terminal)


class CheckContext:
    """What every check gets."""

    def __init__(self, options: Options, environ: Mapping[str, str], screen: OutputScreen) -> None:
        self.options = options
        self.environ = environ
        self.screen = screen
        self.paths = Paths.from_environ(environ)

    @cached_property
    def environment(self) -> Environment:
        """Settings and folders of a session here. Raises `UsageError` for wrong flags or a missing folder."""
        return Environment(self.options)
