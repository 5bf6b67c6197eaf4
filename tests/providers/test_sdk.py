"""Only in the SDK transport: platforms, and an import that is deferred until it is used."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from agentcli.core.aio import AbortController
from agentcli.providers.base import Failed, FailureKind, Request
from agentcli.providers.transports import sdk
from agentcli.providers.transports.sdk import Platform, SdkTransport
from tests.support.scripts import provider_on

pytestmark = pytest.mark.anyio
REQUEST = Request("m", ({"role": "user", "content": "hi"},))


async def refusal(platform: Platform) -> Failed:
    provider = provider_on(SdkTransport(platform))
    await provider.warm()
    events = [item async for item in provider.stream(REQUEST, AbortController().signal)]
    await provider.aclose()
    assert isinstance(events[-1], Failed)
    assert len(events) == 1
    return events[-1]


@pytest.mark.parametrize("platform", ["bedrock", "vertex"])
async def test_a_platform_without_its_package_reports_what_to_install(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdk, "_is_installed", lambda _library: False)
    told = (await refusal(platform)).failure
    assert told.kind is FailureKind.INVALID_REQUEST
    assert f"pip install 'agentcli[{platform}]'" in told.message


async def test_a_platform_without_its_settings_reports_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_FOUNDRY_API_KEY", "ANTHROPIC_FOUNDRY_RESOURCE", "ANTHROPIC_FOUNDRY_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    assert "ANTHROPIC_FOUNDRY_API_KEY" in (await refusal("foundry")).failure.message


async def test_two_first_requests_share_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_FOUNDRY_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("ANTHROPIC_FOUNDRY_API_KEY", "key")
    transport = SdkTransport("foundry")
    first, second = await asyncio.gather(transport._ready_client(), transport._ready_client())
    assert first is second
    await transport.aclose()


def test_no_transport_imports_its_packages_before_it_is_used() -> None:
    program = (
        "import sys, agentcli.providers.provider;"
        "import agentcli.providers.transports.wire, agentcli.providers.transports.sdk;"
        "print(sorted({'anthropic', 'httpx2', 'httpcore2', 'pydantic', 'importlib.metadata'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
