"""Where the process starts. Answers --version by itself, so that it costs no import beyond the package's own."""

from __future__ import annotations

import gc
import os
import sys

from agentcli import __version__

ALLOCATIONS_BETWEEN_COLLECTIONS = 100_000
"""More than the 60,000 of a start. Hardly any of them is garbage, and looking for it as often as is usual (every 700)
costs 20 ms before the first request."""


def print_version() -> int:
    os.write(1, f"{__version__} (agentcli)\n".encode())
    return 0


def main() -> None:
    """The console script. Never returns."""
    try:
        if len(sys.argv) == 2 and sys.argv[1] in ("-v", "--version"):
            code = print_version()
        else:
            gc.set_threshold(ALLOCATIONS_BETWEEN_COLLECTIONS)
            from agentcli.cli.main import main as command_line

            code = command_line(sys.argv[1:], os.environ)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    except KeyboardInterrupt:
        code = 130
    except OSError:
        code = 141
    # All that had to be closed is closed by now; taking the interpreter apart would only cost tens of milliseconds.
    os._exit(code)


if __name__ == "__main__":
    main()
