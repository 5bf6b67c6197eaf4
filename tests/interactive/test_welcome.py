"""Connecting a model: every answer leads to a next step, over real HTTP and real files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.assemble import Options, build_engine
from agentcli.assemble.login import EndpointAddress
from agentcli.assemble.model import reconnect
from agentcli.interactive.login.welcome import Welcome
from agentcli.interactive.login.welcome_actions import WelcomeActions
from agentcli.providers import credentials
from agentcli.providers.base import Connection
from agentcli.providers.listing import KeyCheck
from agentcli.providers.local_servers import LocalServer, Program
from tests.support.listener import Listener

pytestmark = pytest.mark.anyio
KEY = "sk-ant-welcome-0123456789"
PUBLIC = EndpointAddress("https://api.anthropic.com", "default")
OLLAMA = LocalServer("Ollama", "http://127.0.0.1:11434", ("llama", "qwen"))
SINGLE = LocalServer("vLLM", "http://127.0.0.1:8000", ("phi",))
FRESH = Welcome(address=PUBLIC, public=PUBLIC)


def names(welcome: Welcome) -> list[str]:
    return [offer.name for offer in welcome.offers()]


def test_the_first_screen_shows_the_server_search_and_the_choices() -> None:
    assert names(FRESH) == ["key", "demo", "later"]
    assert "searching … No other machine is contacted" in FRESH.lines[1]
    found = FRESH.found((OLLAMA, SINGLE))
    assert names(found) == ["key", "server 0", "server 1", "demo", "later"]
    assert "Ollama, vLLM. No other machine was contacted" in found.lines[1]
    assert "none. No other machine" in FRESH.found(()).lines[1]
    assert names(replace(FRESH, demo=False)) == ["key", "later"]


def test_a_key_is_checked_and_then_saved() -> None:
    asked = FRESH.choose("key")
    assert (asked.asks, asked.work) == ("API key for api.anthropic.com", "")
    checking = asked.entered(f" {KEY}\n")
    assert (checking.work, checking.key_address, checking.key) == ("check key", PUBLIC, KEY)
    keeping = checking.checked(KeyCheck("accepted"))
    assert (keeping.work, keeping.key_address, keeping.key) == ("keep key", PUBLIC, KEY)
    assert KEY not in repr(checking) + repr(keeping)
    done = keeping.ended("key", "kept")
    assert (done.step, done.outcome, done.key, done.work) == ("done", "key", "", "")


def test_a_wrong_key_keeps_the_question_open_with_the_reason() -> None:
    again = FRESH.ask_key().entered(KEY).checked(KeyCheck("refused", "It does not accept this key (401)."))
    assert (again.step, again.work, again.key) == ("key", "", "")
    assert "401" in again.problem
    for text in ("", "two words"):
        same = again.entered(text)
        assert (same.step, same.work) == ("key", "")
        assert same.problem


def test_without_a_network_the_user_decides() -> None:
    unsure = FRESH.ask_key().entered(KEY).checked(KeyCheck("unreachable", "No connection."))
    assert (names(unsure), unsure.work, unsure.problem) == (["keep", "again", "other"], "", "No connection.")
    assert (unsure.choose("keep").work, unsure.choose("keep").key) == ("keep key", KEY)
    assert unsure.choose("again").work == "check key"
    assert unsure.choose("other").step == "key"


def test_a_server_is_tested_first_and_used_for_the_session_or_permanently() -> None:
    found = FRESH.found((OLLAMA, SINGLE))
    models = found.choose("server 0")
    assert (names(models), models.work) == (["llama", "qwen"], "")
    trying = models.choose("qwen")
    assert (trying.work, trying.server) == ("try server", OLLAMA)
    keep = trying.tried(True)
    assert names(keep) == ["session", "always"]
    for name, always in (("session", False), ("always", True)):
        using = keep.choose(name)
        assert (using.always, using.work, using.server, using.model) == (always, "use server", OLLAMA, "qwen")
    assert found.choose("server 1").work == "try server", "one model needs no question"


@pytest.mark.parametrize(("speaks", "told"), [(False, "no Messages API"), (None, "no longer responds")])
def test_a_server_that_cannot_be_used_leads_back_to_the_choice(speaks: bool | None, told: str) -> None:
    back = FRESH.found((SINGLE,)).choose("server 0").tried(speaks)
    assert back.step == "choose"
    assert told in back.problem


def test_a_custom_server_can_be_replaced_by_the_public_address() -> None:
    own = replace(FRESH, address=EndpointAddress("http://127.0.0.1:11434", "settings"), connected="127.0.0.1:11434")
    assert "public" in names(own)
    asked = own.choose("public")
    assert (asked.asks, asked.work) == ("API key for api.anthropic.com", "")
    assert (asked.entered(KEY).work, asked.entered(KEY).key_address) == ("check key", PUBLIC)
    assert replace(own, public_ready=True).choose("public").work == "use public"
    environment = replace(own, address=EndpointAddress("http://127.0.0.1:11434", "ANTHROPIC_BASE_URL"))
    assert "public" not in names(environment), "the variable would win anyway"


def test_a_long_list_of_models_is_cut_with_a_count_of_the_rest() -> None:
    many = LocalServer("LM Studio", "http://127.0.0.1:1234", tuple(f"model-{n}" for n in range(50)))
    models = FRESH.found((many,)).choose("server 0")
    assert len(models.offers()) == 12
    assert "50" in models.lines[0]
    assert "/model" in models.lines[0]


@given(st.data())
def test_every_answer_allows_to_continue_or_quit(data: st.DataObject) -> None:
    welcome = FRESH
    for _turn in range(20):
        if welcome.step == "done":
            assert welcome.outcome
            return
        assert welcome.question
        assert bool(welcome.offers()) != bool(welcome.asks)
        answer = data.draw(st.sampled_from(["back", "found", "choose", "enter"]))
        if answer == "back":
            welcome = welcome.back()
        elif answer == "found":
            welcome = welcome.found(data.draw(st.sampled_from([(), (OLLAMA,), (OLLAMA, SINGLE)])))
        elif welcome.asks:
            welcome = welcome.entered(data.draw(st.sampled_from([KEY, "", "no key"])))
        else:
            welcome = welcome.choose(data.draw(st.sampled_from(names(welcome))))
        while welcome.work:
            match welcome.work:
                case "check key":
                    verdict = data.draw(st.sampled_from(["accepted", "refused", "unclear", "unreachable"]))
                    welcome = welcome.checked(KeyCheck(verdict, "said"))
                case "try server":
                    welcome = welcome.tried(data.draw(st.sampled_from([True, False, None])))
                case _:
                    fine = data.draw(st.booleans())
                    welcome = welcome.ended("key", "told") if fine else welcome.failed("told")
    for _press in range(3):
        if welcome.step != "done":
            welcome = welcome.back()
    assert welcome.step == "done"


# ------------------------------------------------------------------------------------------------- with real work


class Place:
    def __init__(self, folder: Path, **environ: str) -> None:
        self.folder = folder
        work = folder / "work"
        work.mkdir()
        self.environ = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "AGENTCLI_SANDBOX": "off", **environ}
        self.options = Options(cwd=work, environ=self.environ, interactive=True, key_needed=False)

    @property
    def settings(self) -> dict[str, Any]:
        path = self.folder / ".config/agentcli/settings.json"
        return json.loads(path.read_text()) if path.exists() else {}


async def test_a_pasted_key_is_confirmed_saved_and_used_by_the_running_conversation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, connection = Place(tmp_path), Connection()
    async with Listener(models=(401, b"{}")) as server:
        public = EndpointAddress(server.url, "default")
        engine = build_engine(replace(place.options, connection=connection))
        connecting = WelcomeActions(place.options)
        welcome = replace(connecting.begin(demo=True), address=public, public=public)
        assert welcome.connected == ""
        refused = await connecting.do(welcome.ask_key().entered(KEY))
        assert refused.step == "key"
        assert "401" in refused.problem
        server.answers["/v1/models"] = (200, b"{}")
        done = await connecting.do(refused.entered(KEY))
        assert done.outcome == "key"
        assert "credentials.json" in done.report
        assert KEY not in done.report
        monkeypatch.setattr(credentials, "PUBLIC_BASE_URL", server.url)
        assert connection.problem
        await connecting.connect(done, engine, connection)
        assert (connection.problem, connection.key_source) == ("", "agentcli login")
        assert engine.model == "claude-opus-5-5"
        assert connecting.forget()
        await engine.aclose()


async def test_a_key_that_is_pasted_while_a_bad_one_is_set_is_used_in_this_session(tmp_path: Path) -> None:
    place, connection = Place(tmp_path, ANTHROPIC_API_KEY="sk-bad"), Connection()
    engine = build_engine(replace(place.options, connection=connection))
    connecting = WelcomeActions(place.options)
    welcome = connecting.begin(demo=False)
    assert "key from ANTHROPIC_API_KEY" in welcome.connected
    checking = welcome.ask_key().entered(KEY)
    done = await connecting.do(replace(checking, work="keep key"))
    assert "It is used in this session, but not in the next, because ANTHROPIC_API_KEY takes precedence" in done.report
    await connecting.connect(done, engine, connection)
    assert connection.key_source == "agentcli login"
    assert connecting.forget()
    reconnect(connecting.options, connection)
    assert connection.key_source == "ANTHROPIC_API_KEY"
    await engine.aclose()


async def test_a_server_is_found_tested_and_used_for_the_session_without_saving(tmp_path: Path) -> None:
    place, connection = Place(tmp_path), Connection()
    body = json.dumps({"data": [{"id": "llama"}]}).encode()
    async with Listener(models=(200, body), messages=(400, b"{}")) as server:
        engine = build_engine(replace(place.options, connection=connection))
        connecting = WelcomeActions(place.options, [Program("Ollama", server.port)])
        # On a machine that is busy one look may be over before the answer is there.
        looks = [await connecting.servers()]
        while not looks[-1] and len(looks) < 100:
            looks.append(await connecting.servers())
        servers = looks[-1]
        welcome = connecting.begin(demo=False).found(servers)
        keep = await connecting.do(welcome.choose("server 0"))
        done = await connecting.do(keep.choose("session"))
        assert done.outcome == "server"
        await connecting.connect(done, engine, connection)
        assert (engine.model, engine.profile.small_model, connection.problem) == ("llama", "llama", "")
        assert connecting.options.base_url == server.url
        assert "as you chose" in connecting.begin(demo=False).connected
        assert place.settings == {}
        await engine.aclose()


async def test_a_permanent_server_is_saved_in_the_user_settings_and_can_be_removed(tmp_path: Path) -> None:
    place, connection = Place(tmp_path, ANTHROPIC_API_KEY=KEY), Connection()
    async with Listener(models=(200, b"{}"), messages=(400, b"{}")) as server:
        engine = build_engine(replace(place.options, connection=connection))
        connecting = WelcomeActions(place.options)
        found = connecting.begin(demo=False).found((LocalServer("Ollama", server.url, ("llama",)),))
        keep = await connecting.do(found.choose("server 0"))
        done = await connecting.do(keep.choose("always"))
        await connecting.connect(done, engine, connection)
        assert place.settings == {"baseUrl": server.url, "model": "llama"}
        assert connection.key_source == "none", "the key of the environment is not for this server"
        assert "ANTHROPIC_API_KEY is set and will be sent there from the next session on" in done.report

        back = connecting.begin(demo=False)
        assert back.public_ready, "by the key of the environment"
        assert "public" in names(back)
        done = await connecting.do(back.choose("public"))
        await connecting.connect(done, engine, connection)
        assert place.settings == {}
        assert (engine.model, engine.profile.small_model) == ("claude-opus-5-5", "claude-haiku-5-5")
        assert connection.key_source == "ANTHROPIC_API_KEY"
        await engine.aclose()


async def test_a_disk_error_is_reported_and_returns_to_the_choice(tmp_path: Path) -> None:
    place = Place(tmp_path)
    connecting = WelcomeActions(place.options)
    state = tmp_path / ".local/state/agentcli"
    state.mkdir(parents=True)
    (state / "credentials.json").symlink_to(tmp_path / "elsewhere")
    welcome = connecting.begin(demo=False)
    assert "is a symbolic link" in welcome.problem, "why there is no key is told at once"
    checking = welcome.ask_key().entered(KEY)
    failed = await connecting.do(replace(checking, work="keep key"))
    assert failed.step == "choose"
    assert "is a symbolic link" in failed.problem
    assert not (tmp_path / "elsewhere").exists()
