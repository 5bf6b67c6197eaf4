"""Parsing of MCP server configurations."""

from __future__ import annotations

from typing import Any

import pytest

from agentcli.mcp.configuration import (
    MAX_SERVERS,
    OAuthConfig,
    ParsedServers,
    ServerConfig,
    name_problem,
    parse_servers,
)
from tests.support.tables import each_row

ENVIRON = {"KEY": "k1", "EMPTY": "", "HOST": "h.example"}


def parsed(**servers: Any) -> ParsedServers:
    return parse_servers(servers, "user", "settings.json", ENVIRON)


def only(**entry: Any) -> ServerConfig:
    found = parsed(x=entry)
    assert not found.problems, found.problems
    return found.configs[0]


def problem(**entry: Any) -> str:
    found = parsed(x=entry)
    assert len(found.problems) == 1, found.problems
    assert not found.configs
    assert found.problems[0].server == "x"
    return found.problems[0].text


def warning(**entry: Any) -> tuple[ServerConfig, str]:
    found = parsed(x=entry)
    assert len(found.problems) == 1, found.problems
    assert not found.problems[0].server
    return found.configs[0], found.problems[0].text


def test_a_program_with_arguments_environment_and_timeout() -> None:
    config = only(command="npx", args=["-y", "pkg"], env={"A": "1"}, timeout=60000)
    assert (config.kind, config.command, config.args, config.env) == ("stdio", "npx", ("-y", "pkg"), {"A": "1"})
    assert config.timeout == 60
    assert config.source == "user"
    assert config.origin == "settings.json"


@pytest.mark.parametrize("kind", ["http", "streamable-http", "streamableHttp"])
def test_every_spelling_of_http_is_accepted(kind: str) -> None:
    config = only(type=kind, url="https://h/mcp", headers={"X": "y"}, headersHelper="cat h", alwaysLoad=True)
    assert (config.kind, config.url, config.headers, config.headers_helper) == (
        "http",
        "https://h/mcp",
        {"X": "y"},
        "cat h",
    )
    assert config.always_load


def test_a_url_without_type_is_http_with_a_warning() -> None:
    config, text = warning(url="https://h/mcp")
    assert config.kind == "http"
    assert "'type' is missing" in text


def test_sign_in_options() -> None:
    given = {
        "clientId": "a",
        "clientSecret": "${KEY}",
        "scopes": ["r", "w"],
        "callbackPort": 8123,
        "authServerMetadataUrl": "https://a/x",
        "clientMetadataUrl": "https://a/client.json",
    }
    config = only(type="http", url="https://h", oauth=given)
    assert config.oauth == OAuthConfig("a", "k1", ("r", "w"), 8123, "https://a/x", "https://a/client.json")
    assert only(type="http", url="https://h", oauth={"scopes": "r w"}).oauth.scopes == ("r", "w")


def test_variables_are_filled_in_everywhere_and_the_entry_stays_as_written() -> None:
    config = only(command="${TOOL:-run}", args=["--key=${KEY}", "${EMPTY:-none}"], env={"E": "${EMPTY}"})
    assert config.command == "run"
    assert config.args == ("--key=k1", "none")
    assert config.env == {"E": ""}
    assert config.variables == ("TOOL", "KEY", "EMPTY")
    assert config.entry["args"] == ["--key=${KEY}", "${EMPTY:-none}"]
    config = only(type="sse", url="https://${HOST}/sse", headers={"Authorization": "Bearer ${KEY}"})
    assert config.url == "https://h.example/sse"
    assert config.headers == {"Authorization": "Bearer k1"}


def test_an_unset_variable_is_reported_and_left_as_it_is() -> None:
    config, text = warning(command="run", args=["${NOPE}", "$KEY", "${NOPE}"])
    assert config.args == ("${NOPE}", "$KEY", "${NOPE}")
    assert text == "settings.json: MCP server 'x': not set and without default: ${NOPE}. The text is used as it is."


def test_a_filled_in_value_is_not_expanded_again() -> None:
    found = parse_servers({"x": {"command": "${A}"}}, "user", "f", {"A": "${B}", "B": "no"})
    assert found.configs[0].command == "${B}"


@each_row(
    ("entry", "said"),
    [
        ({}, "'command' or 'url' is missing"),
        ({"type": "http"}, "'url' is missing"),
        ({"type": "stdio", "url": "https://h"}, "'command' is missing"),
        ({"type": "ws", "url": "https://h"}, "'type' must be stdio, http or sse"),
        ({"type": ["http"], "url": "https://h"}, "'type' must be stdio, http or sse"),
        ({"command": 1}, "'command' must be a string"),
        ({"command": " "}, "'command' is empty"),
        ({"command": "a", "args": "b"}, "'args' must be a list of strings"),
        ({"command": "a", "args": [1]}, "'args' must be a list of strings"),
        ({"command": "a", "env": []}, "'env' must be an object whose values are strings"),
        ({"command": "a", "env": {"PORT": 1}}, "'env' must be an object whose values are strings"),
        ({"command": "a", "env": {"A=B": "1"}}, "'env' must be an object whose values are strings"),
        ({"command": "a", "disabled": "yes"}, "'disabled' must be true or false"),
        ({"type": "http", "url": "ftp://h"}, "'url' must be an http:// or https:// address"),
        ({"type": "http", "url": "https://h:x/"}, "'url' must be an http:// or https:// address"),
        ({"type": "http", "url": "https://"}, "'url' must be an http:// or https:// address"),
        ({"type": "http", "url": "https://h", "headers": {"a b": "c"}}, "'headers' has an invalid header name, 'a b'"),
        (
            {"type": "http", "url": "https://h", "headers": {"a": "b\r\nc: d"}},
            "the header 'a' contains control characters",
        ),
        ({"type": "http", "url": "https://h", "oauth": 1}, "'oauth' must be an object"),
        ({"type": "http", "url": "https://h", "oauth": {"callbackPort": 70000}}, "must be at most 65535"),
        ({"type": "http", "url": "https://h", "oauth": {"clientMetadataUrl": "http://a/b"}}, "must be an https"),
        ({"type": "http", "url": "https://h", "oauth": {"scopes": [1]}}, "must be a list of strings"),
    ],
)
def test_an_invalid_entry_is_left_out_and_named(entry: dict[str, Any], said: str) -> None:
    text = problem(**entry)
    assert text.startswith("settings.json: MCP server 'x': ")
    assert said in text
    assert text.endswith("The server is not used.")


def test_unknown_keys_and_keys_of_the_other_kind_are_reported() -> None:
    _config, text = warning(command="a", autoApprove=[])
    assert text == "settings.json: MCP server 'x': 'autoApprove' is unknown for a stdio server; ignored."
    config, text = warning(command="a", headers={"a": "b"})
    assert "'headers' is not for a stdio server" in text
    assert not config.headers
    config, text = warning(command="a", timeout="soon")
    assert config.timeout is None
    assert "'timeout' must be a number of milliseconds" in text


def test_servers_of_other_programs_are_reported_as_not_supported() -> None:
    found = parsed(calc={"type": "sdk", "name": "calc"})
    assert not found.configs
    assert found.problems[0].unsupported
    assert "'calc'" in found.problems[0].text


@each_row("name", ["", "a b", "a.b", "ä", "a" * 65, "a__b", "a_", "\x1b[31m", "agentcli", "a\n"])
def test_names_that_no_server_can_have(name: str) -> None:
    assert name_problem(name)
    found = parse_servers({name: {"command": "a"}}, "user", "f", {})
    assert not found.configs
    assert "\x1b" not in found.problems[0].text


@each_row("servers", [None, [], "x", 1])
def test_servers_that_are_no_object(servers: object) -> None:
    found = parse_servers(servers, "user", "f", {})
    assert found.problems[0].text == "f: 'mcpServers' must be an object."


def test_thousands_of_servers_are_cut_off_and_counted() -> None:
    found = parse_servers({f"s{n}": {"command": "a"} for n in range(MAX_SERVERS + 5)}, "user", "f", {})
    assert len(found.configs) == MAX_SERVERS
    assert f"5 servers beyond {MAX_SERVERS} are not used" in found.problems[0].text
    found = parse_servers({f"s{n}": {"command": 1} for n in range(100)}, "user", "f", {})
    assert found.problems[-1].text == "f: 80 more problems with MCP servers."
