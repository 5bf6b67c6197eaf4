"""Shared by tests of compaction: a conversation worth shortening, and the requests that the model got."""

from __future__ import annotations

import json

from agentcli.tools.base import Output
from tests.support.fakes import Bench, FakeTool

LONG = "Part of a long story. " * 400
USED = {"input_tokens": 5_000, "output_tokens": 2_500}


def tool() -> FakeTool:
    return FakeTool(output=lambda given: Output(f"{given.get('what')} was seen. " * 20))


def told(b: Bench) -> str:
    """What the last request says."""
    return json.dumps(b.requests[-1]["messages"])
