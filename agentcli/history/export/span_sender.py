"""Sends the spans of each finished prompt to an OpenTelemetry collector: OTLP/HTTP with JSON, never with texts.

Off unless the setting `otlpEndpoint` is set. Everything happens beside the conversation: a collector that is slow or
gone costs one notice. What could not be sent can be exported later, with the same ids.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agentcli.agent.engine import Engine
from agentcli.core.aio import in_thread, start_task
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line
from agentcli.history.export.otlp import export_prompts, wrap_spans
from agentcli.providers.credentials import show_url
from agentcli.providers.transports.wire import fetch, network_errors
from agentcli.session.load import LoadedSession, scan_places
from agentcli.session.timeline import Timeline, TimelineReader

POST_SECONDS = 10.0
FLUSH_SECONDS = 2.0
_TRACES = "/v1/traces"
_MAX_ANSWER = 2_000


def open_sender(engine: Engine, report: Callable[[str], None]) -> SpanSender | None:
    """The sender for a session whose settings name a collector; None for others. `report` shows a problem, once."""
    setting, path = engine.session.settings.tuning.otlp_endpoint, engine.session.store.path
    if not setting or path is None:
        return None
    if not _is_address(setting):
        report("Traces are not sent. The setting otlpEndpoint needs an address such as http://localhost:4318.")
        return None
    url = setting if setting.endswith(_TRACES) else f"{setting.rstrip('/')}{_TRACES}"
    headers = (engine.session.environ or {}).get("OTEL_EXPORTER_OTLP_HEADERS", "")
    return SpanSender(path, url, read_headers(headers), report)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def read_headers(text: str) -> dict[str, str]:
    """Headers written as `name=value,name=value`, with values in URL encoding."""
    pairs = (entry.partition("=") for entry in text.split(","))
    return {name.strip().lower(): unquote(value.strip()) for name, equals, value in pairs if equals and name.strip()}


class SpanSender:
    def __init__(self, path: Path, url: str, headers: Mapping[str, str], report: Callable[[str], None]) -> None:
        self._path = path
        self._url = url
        self._headers = {**headers, "content-type": "application/json", "user-agent": "agentcli"}
        self._report: Callable[[str], None] | None = report
        """None after the first problem."""
        self._begin = path.stat().st_size if path.exists() else 0
        """Offset of the last prompt in the session file; at first its end, so that earlier prompts are left out."""
        self._sent: set[str] = set()
        """Ids of the spans that were taken from the file."""
        self._is_due = False
        self._task: asyncio.Task[None] | None = None

    def take(self) -> None:
        """Send what a submission has added. Called at its end."""
        self._is_due = True
        if self._task is None or self._task.done():
            self._task = start_task(self._work(), name="send spans")

    async def aclose(self) -> None:
        """Wait a moment for what is being sent."""
        if self._task is not None and not self._task.done():
            await asyncio.wait([self._task], timeout=FLUSH_SECONDS)
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _work(self) -> None:
        while self._is_due:
            self._is_due = False
            try:
                spans = await in_thread(self._read)
                problem = await self._post(spans) if spans else ""
            except TimeoutError:
                problem = f"no answer within {POST_SECONDS:g} s"
            except network_errors() as error:
                number = getattr(error.__cause__ or error, "errno", None) or 0
                problem = os.strerror(number) if number > 0 else plain_line(str(error), 200) or type(error).__name__
            if problem and self._report is not None:
                self._report(f"Traces could not be sent to {plain_line(show_url(self._url), 200)}: {problem}.")
                self._report = None

    def _read(self) -> list[Json]:
        """The spans that were added to the file. Blocking."""
        timeline = Timeline(self._path.stem, self._path)
        reader = TimelineReader(timeline)
        for position, record in scan_places(self._path, LoadedSession(self._path, self._path.stem), self._begin, None):
            known = len(timeline.prompts)
            reader.take(record)
            if len(timeline.prompts) > known:
                self._begin = position
        ended = [prompt for prompt in timeline.prompts.values() if prompt.result is not None]
        spans = [one for one in export_prompts(timeline, ended) if one["spanId"] not in self._sent]
        self._sent.update(one["spanId"] for one in spans)
        return spans

    async def _post(self, spans: list[Json]) -> str:
        """Returns what went wrong."""
        content = json.dumps(wrap_spans(spans)).encode()
        async with asyncio.timeout(POST_SECONDS):
            status, answer = await fetch(self._url, "POST", "", self._headers, content, _MAX_ANSWER)
        return "" if status < 300 else f"status {status} {plain_line(answer.decode('utf-8', 'replace'), 200)}".strip()
