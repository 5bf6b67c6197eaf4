"""Plugin that shows which tests take the most processor time, with all the programs they start.

    python -m pytest -q -n 4 -p tests.support.processor_times [--processor-times 100]

A duration says little where workers share processors: most of it is waiting. Processes that outlive their parents are
not counted.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import fork_server

_FOLDER = "AGENTCLI_PROCESSOR_TIMES"
"""Environment variable: where workers write their figures."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--processor-times", type=int, default=50, metavar="N", help="show the N tests that take the most")


def pytest_configure() -> None:
    if _FOLDER not in os.environ:
        os.environ[_FOLDER] = tempfile.mkdtemp(prefix="processor-times-")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    before = _used()
    result = yield
    with (Path(os.environ[_FOLDER]) / str(os.getpid())).open("a") as file:
        file.write(json.dumps([item.nodeid, _used() - before]) + "\n")
    return result  # type: ignore[return-value]


def _used() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    python = sum(usage.ru_utime + usage.ru_stime for usage in (own, children))
    return python + fork_server.processor_seconds


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        return
    folder = Path(os.environ.pop(_FOLDER))
    rows = [json.loads(line) for path in folder.iterdir() for line in path.read_text().splitlines()]
    shutil.rmtree(folder)
    folders: Counter[str] = Counter()
    for name, seconds in rows:
        folders[name.partition("::")[0].rpartition("/")[0]] += seconds
    terminalreporter.section("processor time")
    for folder, seconds in folders.most_common():
        terminalreporter.write_line(f"{seconds:7.1f} s  {folder}/")
    terminalreporter.write_line(f"{folders.total():7.1f} s  in all")
    for name, seconds in sorted(rows, key=lambda row: -row[1])[: config.option.processor_times]:
        terminalreporter.write_line(f"{seconds:7.2f} s  {name}")
