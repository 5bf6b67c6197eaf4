"""Which transport carries the requests of a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.assemble import Options
from agentcli.assemble.environment import Environment
from agentcli.assemble.model import ModelBuilder
from agentcli.providers.base import Transport
from agentcli.providers.transports.sdk import SdkTransport
from agentcli.providers.transports.wire import WireTransport


@pytest.mark.parametrize(("setting", "kind"), [("auto", WireTransport), ("wire", WireTransport), ("sdk", SdkTransport)])
def test_the_direct_api_is_reached_as_the_setting_says(tmp_path: Path, setting: str, kind: type[Transport]) -> None:
    environ = {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": "key", "AGENTCLI_PROVIDER": setting}
    transport, source, _credentials = ModelBuilder(Environment(Options(cwd=tmp_path, environ=environ)))._transport()
    assert (type(transport), source) == (kind, "ANTHROPIC_API_KEY")


@pytest.mark.parametrize("platform", ["bedrock", "vertex", "foundry"])
def test_other_platforms_are_reached_through_the_package(tmp_path: Path, platform: str) -> None:
    environ = {"HOME": str(tmp_path), "AGENTCLI_PLATFORM": platform}
    options = Options(cwd=tmp_path, environ=environ, interactive=True)
    transport, source, _credentials = ModelBuilder(Environment(options))._transport()
    assert (type(transport), source) == (SdkTransport, platform)
