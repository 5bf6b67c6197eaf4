from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcli.config.credentials import StoredKey
from agentcli.core.aio import AbortController
from agentcli.core.errors import CredentialError, UsageError
from agentcli.providers.base import Failed, FailureKind, Finished, Request
from agentcli.providers.credentials import KeyHelper, bound_to, resolve_credentials
from agentcli.providers.transports.wire import WireTransport
from tests.support.scripts import fails, provider_on
from tests.support.server import LoopbackServer
from tests.support.tables import each_row

pytestmark = pytest.mark.anyio
PATH = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}
REQUEST = Request("m", ({"role": "user", "content": "hi"},))


async def test_each_credential_names_its_source_and_never_shows_the_key() -> None:
    found = resolve_credentials({"ANTHROPIC_API_KEY": "sk-secret"})
    assert (found.source, found.base_url, found.base_url_source) == (
        *("ANTHROPIC_API_KEY", "https://api.anthropic.com", "default"),
    )
    assert "sk-secret" not in repr(found)
    assert await found.headers() == {"authorization": "Bearer sk-secret"}
    assert resolve_credentials({"ANTHROPIC_AUTH_TOKEN": "t", "ANTHROPIC_API_KEY": "k"}).source == "ANTHROPIC_AUTH_TOKEN"


@pytest.mark.parametrize(
    "url", ["http://localhost:8080", "http://localhost:8080/", "http://localhost:8080/v1", "http://localhost:8080/v1/"]
)
async def test_a_base_url_works_with_and_without_v1_and_needs_no_key(url: str) -> None:
    found = resolve_credentials({"ANTHROPIC_BASE_URL": url})
    assert (found.base_url, found.host, found.base_url_source) == (
        "http://localhost:8080",
        "localhost:8080",
        "ANTHROPIC_BASE_URL",
    )
    assert await found.headers() == {}


async def test_without_a_key_the_public_endpoint_is_refused_with_advice() -> None:
    with pytest.raises(CredentialError, match=r"Run `agentcli login` or set ANTHROPIC_API_KEY.*`agentcli demo`"):
        resolve_credentials({})


async def test_invalid_credentials_are_refused_before_any_request() -> None:
    with pytest.raises(UsageError, match="is not a URL"):
        resolve_credentials({"ANTHROPIC_BASE_URL": "localhost:8080"})
    with pytest.raises(CredentialError, match="ANTHROPIC_API_KEY contains invalid"):
        resolve_credentials({"ANTHROPIC_API_KEY": "two\nlines"})


async def test_a_key_helper_runs_once_and_only_when_needed(tmp_path: Path) -> None:
    count = tmp_path / "count"
    found = resolve_credentials(PATH, api_key_helper=f"echo x >> {count}; echo key-1")
    assert not count.exists()
    assert await found.headers() == await found.headers() == {"authorization": "Bearer key-1"}
    assert count.read_text() == "x\n"


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("exit 3", "exit 3"),
        ("true", "printed no key"),
        ("echo two words", "printed no key"),
        ("echo schl\u00fcssel", "printed no key"),
        ("sleep 60", "within 0 s"),
    ],
)
async def test_a_failing_key_helper_is_reported_with_advice_and_without_its_output(command: str, told: str) -> None:
    with pytest.raises(CredentialError, match=told) as caught:
        await KeyHelper(command, PATH, timeout_seconds=0.2).read()
    assert "two words" not in str(caught.value)


async def test_a_key_helper_that_prints_far_too_much_is_read_to_its_end() -> None:
    with pytest.raises(CredentialError, match="It must print the key and nothing else"):
        await KeyHelper("head -c 1000000 /dev/zero | tr '\\0' x", PATH, timeout_seconds=5).read()
    with pytest.raises(CredentialError, match="within 0 s"):
        await asyncio.wait_for(KeyHelper("yes", PATH, timeout_seconds=0.2).read(), 20)


async def test_the_key_helper_does_not_see_other_keys(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    await KeyHelper(f"env > {seen}; echo k", {**PATH, "ANTHROPIC_AUTH_TOKEN": "hidden"}).read()
    assert "hidden" not in seen.read_text()


async def test_a_refused_key_is_read_again_once(tmp_path: Path) -> None:
    helper = f"echo x >> {tmp_path}/n; echo key-$(wc -l < {tmp_path}/n | tr -d ' ')"
    async with LoopbackServer(fails(401), "hi", fails(401), fails(401)) as server:
        environ = {**PATH, "ANTHROPIC_BASE_URL": server.url}
        provider = provider_on(WireTransport(resolve_credentials(environ, api_key_helper=helper)))
        events = [item async for item in provider.stream(REQUEST, AbortController().signal)]
        assert isinstance(events[-1], Finished)
        assert [request.headers["x-api-key"] for request in server.requests] == ["key-1", "key-2"]
        events = [item async for item in provider.stream(REQUEST, AbortController().signal)]
        assert isinstance(events[-1], Failed)
        assert events[-1].failure.kind is FailureKind.AUTHENTICATION
        assert "apiKeyHelper" in events[-1].failure.message
        assert len(server.requests) == 4
        await provider.aclose()


async def test_a_failing_key_helper_is_a_failure_and_no_exception() -> None:
    provider = provider_on(WireTransport(resolve_credentials(PATH, api_key_helper="exit 1")))
    events = [item async for item in provider.stream(REQUEST, AbortController().signal)]
    assert isinstance(events[-1], Failed)
    assert "apiKeyHelper" in events[-1].failure.message
    await provider.aclose()


# ------------------------------------------------------------------------------------------------------- kept keys


def kept_for(address: str, key: str = "sk-kept") -> Callable[[str], StoredKey | None]:
    return lambda asked: StoredKey(key, "a file") if asked == address else None


async def test_a_configured_key_overrides_the_saved_one() -> None:
    kept = kept_for("https://api.anthropic.com")
    order = [
        ({"ANTHROPIC_AUTH_TOKEN": "t", "ANTHROPIC_API_KEY": "k"}, "helper", "ANTHROPIC_AUTH_TOKEN"),
        ({"ANTHROPIC_API_KEY": "k"}, "helper", "ANTHROPIC_API_KEY"),
        ({"ANTHROPIC_API_KEY": " "}, "helper", "apiKeyHelper"),
        ({}, None, "agentcli login"),
    ]
    for environ, helper, source in order:
        assert resolve_credentials(environ, helper, None, kept).source == source
    found = resolve_credentials({}, kept=kept)
    assert found.kept_in == "a file"
    assert await found.headers() == {"authorization": "Bearer sk-kept"}
    assert "sk-kept" not in repr(found)


@pytest.mark.parametrize(
    "other",
    [
        "http://api.anthropic.com",
        "https://api.anthropic.com:8443",
        "https://api.anthropic.com.example.org",
        "https://example.org/api.anthropic.com",
        "https://api.anthropic.com@example.org",
        "https://api.anthropic.com/gateway",
    ],
)
async def test_a_saved_key_is_never_sent_to_another_address(other: str) -> None:
    for environ, base_url in (({"ANTHROPIC_BASE_URL": other}, None), ({}, other)):
        found = resolve_credentials(environ, None, base_url, kept_for("https://api.anthropic.com"))
        assert found.source == "none"
        assert await found.headers() == {}


@each_row(
    ("url", "address"),
    [
        ("https://API.Anthropic.com/", "https://api.anthropic.com"),
        ("https://api.anthropic.com:443/v1/", "https://api.anthropic.com"),
        ("http://localhost:80", "http://localhost"),
        ("http://[::1]:8080/v1", "http://[::1]:8080"),
        ("https://user:password@host/Team/", "https://host/Team"),
    ],
)
def test_an_address_is_the_same_however_it_is_spelled(url: str, address: str) -> None:
    assert bound_to(url) == address


def test_a_saved_value_that_is_no_key_is_not_sent() -> None:
    with pytest.raises(CredentialError, match="Run `agentcli login` again") as caught:
        resolve_credentials({}, kept=kept_for("https://api.anthropic.com", "one\r\ntwo: three"))
    assert "three" not in str(caught.value)


def test_only_the_end_of_a_long_key_is_ever_shown() -> None:
    assert resolve_credentials({"ANTHROPIC_API_KEY": "sk-ant-0123456789-the-end9876"}).hint == "…9876"
    assert resolve_credentials({"ANTHROPIC_API_KEY": "short"}).hint == ""
