"""Logging in: for which address a key is saved, where it is sent, and what overrides it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentcli.assemble import Options, build_engine
from agentcli.assemble.environment import Environment
from agentcli.assemble.login import Login, tidy_key
from agentcli.assemble.model import ModelBuilder, reconnect
from agentcli.core.errors import CredentialError, UsageError
from agentcli.providers.base import Connection
from tests.support.listener import Listener

pytestmark = pytest.mark.anyio
KEY = "sk-ant-login-0123456789abcdef"


class Home:
    def __init__(self, folder: Path, **environ: str) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        self.environ = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "AGENTCLI_SANDBOX": "off", **environ}

    def options(self, **more: Any) -> Options:
        return Options(cwd=self.work, environ=self.environ, **more)

    @property
    def login(self) -> Login:
        return Login(self.options())

    @property
    def settings(self) -> dict[str, Any]:
        path = self.folder / ".config/agentcli/settings.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def set(self, **values: Any) -> None:
        path = self.folder / ".config/agentcli/settings.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))


def test_a_saved_key_is_used_by_the_next_engine(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with pytest.raises(CredentialError, match="agentcli demo"):
        ModelBuilder(Environment(home.options())).credentials()
    address = home.login.address()
    assert (address.url, address.source, address.is_public) == ("https://api.anthropic.com", "default", True)
    home.login.keep(address, KEY)
    found = ModelBuilder(Environment(home.options())).credentials()
    assert (found.api_key, found.source) == (KEY, "agentcli login")
    assert home.login.explain_unused(address) == ""
    assert home.login.forget(address)
    assert not home.login.forget(address)


def test_the_address_is_a_setting_and_can_be_reset_to_the_public_one(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.set(theme="dark")
    own = home.login.address("https://Gateway.example.org:443/v1/")
    assert home.login.use(own).endswith("settings.json")
    assert home.settings == {"theme": "dark", "baseUrl": "https://gateway.example.org"}
    assert home.login.use(own) == "", "nothing to change"
    assert home.login.address().url == "https://gateway.example.org"
    home.login.use(home.login.address("https://api.anthropic.com"))
    assert home.settings == {"theme": "dark"}


def test_leaving_a_server_resets_its_model_and_keeps_a_public_one(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.login.use(home.login.address("http://127.0.0.1:11434"), "llama3.2")
    assert home.settings == {"baseUrl": "http://127.0.0.1:11434", "model": "llama3.2"}
    home.login.use(home.login.address("https://api.anthropic.com"))
    assert home.settings == {}
    home.set(baseUrl="http://127.0.0.1:11434", model="sonnet")
    home.login.use(home.login.address("https://api.anthropic.com"))
    assert home.settings == {"model": "sonnet"}


def test_a_key_is_sent_only_to_its_own_address(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.login.keep(home.login.address(), KEY)
    home.set(baseUrl="http://127.0.0.1:9")
    assert ModelBuilder(Environment(home.options())).credentials().source == "none"
    assert "requests go to 127.0.0.1:9" in home.login.explain_unused(home.login.address("https://api.anthropic.com"))


def test_a_server_chosen_for_the_session_gets_no_key_from_the_environment(tmp_path: Path) -> None:
    home = Home(tmp_path, ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL="https://gateway.example.org")
    found = ModelBuilder(Environment(home.options(base_url="http://127.0.0.1:11434"))).credentials()
    assert (found.base_url, found.source, found.api_key) == ("http://127.0.0.1:11434", "none", "")


@pytest.mark.parametrize(
    ("environ", "settings", "told"),
    [
        ({"ANTHROPIC_API_KEY": "k"}, {}, "ANTHROPIC_API_KEY takes precedence: unset it"),
        ({"ANTHROPIC_AUTH_TOKEN": "k"}, {}, "ANTHROPIC_AUTH_TOKEN takes precedence"),
        ({}, {"apiKeyHelper": "echo k"}, "remove it from the settings"),
        ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}, {}, "ANTHROPIC_BASE_URL is set"),
        ({}, {"platform": "bedrock"}, "bedrock uses its own credentials"),
    ],
)
def test_a_key_that_overrides_the_saved_one_is_reported(
    tmp_path: Path, environ: dict[str, str], settings: dict[str, str], told: str
) -> None:
    home = Home(tmp_path, **environ)
    home.set(**settings)
    address = home.login.address("https://api.anthropic.com")
    home.login.keep(address, KEY)
    assert told in home.login.explain_unused(address)


def test_a_repository_cannot_choose_where_keys_are_sent(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (home.work / ".agentcli").mkdir()
    (home.work / ".agentcli/settings.json").write_text('{"baseUrl": "http://evil.example", "apiKeyHelper": "x"}')
    home.login.keep(home.login.address(), KEY)
    for trust in (False, True):
        found = ModelBuilder(Environment(home.options(trust=trust))).credentials()
        assert (found.base_url, found.source) == ("https://api.anthropic.com", "agentcli login")


def test_settings_that_are_broken_are_not_overwritten_by_a_login(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.set()
    path = tmp_path / ".config/agentcli/settings.json"
    path.write_text("{ broken")
    with pytest.raises(Exception, match="fix the file"):
        home.login.use(home.login.address("http://127.0.0.1:9"))
    assert path.read_text() == "{ broken"


def test_an_address_with_a_password_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="user name or password"):
        Home(tmp_path).login.address("https://me:secret@example.org")


def test_an_unencrypted_address_is_recognised(tmp_path: Path) -> None:
    login = Home(tmp_path).login
    assert login.address("http://gateway.example.com").is_unencrypted
    for safe in ("https://gateway.example.com", "http://localhost:1", "http://127.0.0.1:1"):
        assert not login.address(safe).is_unencrypted


@pytest.mark.parametrize(
    ("text", "key"),
    [(" k\n", "k"), ("\x1b[200~k\x1b[201~\n", "k"), ("'k'", "k"), ('"k"', "k"), ("", ""), ("\n", "")],
)
def test_surrounding_text_is_stripped_from_a_key(text: str, key: str) -> None:
    assert tidy_key(text) == key


@pytest.mark.parametrize("text", ["two words", "a\nb", "schlüssel", "a\x07b", "x" * 10_000])
def test_an_invalid_key_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        tidy_key(text)
    assert text not in str(caught.value)


async def test_a_key_is_checked_at_its_own_address(tmp_path: Path) -> None:
    async with Listener(models=(200, b"{}")) as server:
        login = Home(tmp_path).login
        assert (await login.check(login.address(server.url), KEY)).verdict == "accepted"
        assert server.requests[0][2]["x-api-key"] == KEY


# ---------------------------------------------------------------------------------------- the way can change later


async def test_a_conversation_continues_with_another_endpoint(tmp_path: Path) -> None:
    home = Home(tmp_path)
    connection = Connection()
    options = home.options(connection=connection, interactive=True, key_needed=False)
    engine = build_engine(options)
    assert "agentcli login" in connection.problem
    told = [event async for event in engine.submit("hi")]
    assert "No API key found" in told[-1].errors[0]  # type: ignore[union-attr]

    home.login.keep(home.login.address(), KEY)
    reconnect(options, connection)
    assert (connection.problem, connection.key_source) == ("", "agentcli login")
    await engine.aclose()


async def test_a_failed_connection_keeps_the_previous_one(tmp_path: Path) -> None:
    home = Home(tmp_path, ANTHROPIC_API_KEY=KEY)
    connection = Connection()
    options = home.options(connection=connection, interactive=True)
    engine = build_engine(options)
    home.environ["ANTHROPIC_BASE_URL"] = "nonsense"
    with pytest.raises(UsageError):
        reconnect(options, connection)
    assert (connection.problem, connection.key_source) == ("", "ANTHROPIC_API_KEY")
    await engine.aclose()


async def test_a_custom_model_is_also_the_small_model(tmp_path: Path) -> None:
    parts = ModelBuilder(Environment(Home(tmp_path).options(model="llama3.2")))
    assert parts.profile("").small_model == "llama3.2"
    (tmp_path / "other").mkdir()
    assert ModelBuilder(Environment(Home(tmp_path / "other").options())).profile("").small_model == "claude-haiku-5-5"
