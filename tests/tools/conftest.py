"""Fixtures for tests of tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentcli.tools.base import ToolContext
from agentcli.tools.documents import pdf, pdf_worker
from agentcli.tools.web import html_worker, webfetch
from tests.tools.running import context_in


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return context_in(tmp_path)


@pytest.fixture
def html_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convert HTML pages without a worker process, which takes a quarter of a second to load its libraries
    (`test_web_html.py` tests it)."""

    async def work(_module: Path, data: bytes, *arguments: str, **_limits: Any) -> dict[str, Any]:
        return html_worker.work(data, *arguments)

    monkeypatch.setattr(webfetch, "run_worker", work)


@pytest.fixture
def pdf_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read PDFs without a worker process, which takes half a second to load its library."""

    async def work(_module: Path, data: bytes, *arguments: str, **_limits: Any) -> dict[str, Any]:
        return pdf_worker.work(data, *arguments)

    monkeypatch.setattr(pdf, "run_worker", work)
