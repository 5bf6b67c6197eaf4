"""Collect the tests once, and fork the workers of pytest-xdist from the process that did.

Importing all test modules and making 8,000 items of them takes 5 s of CPU, and every worker did it. Here the controller
starts one process that does, and xdist starts `worker_stand_in.py` as its workers, which have themselves forked from
that process. From there on xdist's own code runs: what it asks of pytest, the options parsed and the tests collected,
is there already.
"""

from __future__ import annotations

import gc
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import _pytest.config
import pytest
from _pytest.capture import CaptureManager
from _pytest.tmpdir import TempPathFactory

from tests.support import fork_server

_STAND_IN = Path(__file__).with_name("worker_stand_in.py")
_COLLECT = f"""
import os, sys
if os.fork():
    os._exit(0)
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from {__name__} import collect
collect()
"""
_MAX_WORKERS = 64
_FEW_TESTS = 1_000
"""Tests that hardly use all of the modules that are imported late."""


def start(config: pytest.Config, specs: Sequence[Any]) -> None:
    """Have the workers that xdist is about to start on this machine forked."""
    if sys.platform != "linux" or not all(spec.popen and not (spec.python or spec.chdir) for spec in specs):
        return
    if config.args_source.name == "TESTPATHS":
        # Some of all tests start the program: its server gets ready on the processor that has nothing to do yet.
        run = config.pluginmanager.getplugin("dsession").nodemanager.testrunuid
        config.add_cleanup(fork_server.connect_or_start(run).close)
    address = f"agentcli-workers-{os.getpid()}"
    arguments = map(str, config.invocation_params.args)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0{address}")
        listener.listen(_MAX_WORKERS)
        number = listener.fileno()
        subprocess.run(
            [sys.executable, "-c", _COLLECT, str(number), *arguments],
            pass_fds=[number],
            cwd=config.invocation_params.dir,
            stdin=subprocess.DEVNULL,
            # As the workers' own: what is to be shown goes to the controller.
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            check=True,
        )
    for spec in specs:
        spec.python = shlex.join([sys.executable, "-I", "-S", str(_STAND_IN), address])


class _Collector:
    """Plugin of the process that collects: instead of running tests it forks workers."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._reports: list[pytest.CollectReport] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self._reports.append(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        plugins = session.config.pluginmanager
        capture: CaptureManager = plugins.getplugin("capturemanager")
        # A worker captures into files of its own.
        capture.stop_global_capturing()
        if len(session.items) > _FEW_TESTS:
            fork_server.load_modules()
            from hypothesis import strategies  # after pytest has prepared to rewrite the assertions of its plugins

            # Hypothesis sorts all characters for its first text: 2 s of CPU in each worker of a new checkout.
            strategies.text().validate()
            gc.freeze()
        fork_server.end_threads()
        request = fork_server.serve(self._listener)
        if request is None:
            return True
        fork_server.take_streams(request["streams"])
        plugins.unregister(self)
        plugins.register(_Worker(session, capture, self._reports))
        _pytest.config._prepareconfig = lambda args, plugins: session.config  # type: ignore[assignment]
        fork_server.run(*request["command"])
        raise AssertionError("the worker has ended")


class _Worker:
    """Plugin of a forked worker: what pytest's main function does, without what is done already."""

    def __init__(
        self, session: pytest.Session, capture: CaptureManager, reports: Sequence[pytest.CollectReport]
    ) -> None:
        self._session = session
        self._capture = capture
        self._reports = reports
        self._path = list(sys.path)

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> pytest.ExitCode:
        session = self._session
        sys.path[:] = self._path
        self._capture.start_global_capturing()
        self._capture.suspend_global_capture()
        # Its own folder, that xdist has named.
        config._tmp_path_factory = TempPathFactory.from_config(config, _ispytest=True)  # type: ignore[attr-defined]
        interactor = find_interactor(config)
        interactor.pytest_sessionstart(session)
        interactor.pytest_collection()
        for report in self._reports:
            interactor.pytest_collectreport(report)
        interactor.pytest_collection_finish(session)
        try:
            config.hook.pytest_runtestloop(session=session)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED if session.testsfailed else pytest.ExitCode.OK
        finally:
            config.hook.pytest_sessionfinish(session=session, exitstatus=session.exitstatus)
            config._ensure_unconfigure()
        return pytest.ExitCode(session.exitstatus)


def find_interactor(config: pytest.Config) -> Any:
    """The plugin that connects a worker with the controller, None elsewhere. Its module is executed without being
    imported."""
    plugins = config.pluginmanager.get_plugins()
    return next((plugin for plugin in plugins if type(plugin).__name__ == "WorkerInteractor"), None)


def collect() -> None:
    number, *arguments = sys.argv[1:]
    config = _pytest.config._prepareconfig(arguments, None)
    from xdist.remote import setup_config  # after pytest has prepared to rewrite the assertions of its plugins

    setup_config(config, None)
    config.workerinput = {}  # type: ignore[attr-defined]
    config.workeroutput = {}  # type: ignore[attr-defined]
    config.pluginmanager.register(_Collector(socket.socket(fileno=int(number))))
    try:
        config.hook.pytest_cmdline_main(config=config)
    except pytest.UsageError as error:
        print(f"ERROR: {error}", file=sys.stderr)
