from __future__ import annotations

import json
import subprocess
import sys

import pytest

from agentcli.core.errors import UsageError
from agentcli.tools.function import tool
from agentcli.tools.registry import BUILTIN_NAMES, Registry, builtin_tools
from tests.support.tables import each_row


def named(name: str) -> object:
    return tool(name=name)(lambda: "")


def test_the_order_does_not_depend_on_how_tools_are_given() -> None:
    tools = [*builtin_tools(), named("zeta"), named("alpha")]
    expected = (*BUILTIN_NAMES, "alpha", "zeta")
    assert Registry(tools).names == expected
    assert Registry(reversed(tools)).names == expected


def test_schemas_are_the_same_bytes_in_every_process_and_take_no_third_party_package() -> None:
    program = (
        "import json, sys; from agentcli.tools.registry import *;"
        "print(json.dumps(Registry(builtin_tools()).schemas()));"
        "print({'aiofiles', 'jsonschema', 'pydantic', 'rich'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    other, third_party = done.stdout.splitlines()
    registry = Registry(builtin_tools())
    assert json.dumps(registry.schemas()) == other
    assert third_party == "set()"
    assert registry.schemas() is registry.schemas()


def test_every_tool_has_a_short_description() -> None:
    descriptions = [tool.description for tool in builtin_tools()]
    assert all(descriptions)
    # About four characters a token.
    assert sum(map(len, descriptions)) < 1_400 * 4


def test_aliases_and_near_names() -> None:
    registry = Registry(builtin_tools())
    assert registry.get("Read") is not None
    assert registry.get("bash") is registry.get("Bash")
    assert registry.get("Nonsense") is None
    assert registry.near("Raed") == ["Read"]
    assert registry.near("grepp")[0] == "Grep"
    assert registry.near("qqqqqq") == []


def test_tools_can_be_selected_and_excluded() -> None:
    registry = Registry(builtin_tools())
    assert registry.select(["Bash", "Read", "Read"]).names == ("Read", "Bash")
    assert registry.select([]).names == ()
    assert registry.without(["Bash"]).get("Bash") is None
    with pytest.raises(UsageError, match="no tool called Raed"):
        registry.select(["Raed"])


@each_row("name", ["", "a b", "x" * 129, "päd", "a.b"])
def test_names_that_the_api_refuses_are_refused_here(name: str) -> None:
    function = tool(lambda: "")
    function.name = name
    with pytest.raises(UsageError, match="Not a tool name"):
        Registry([function])


def test_two_tools_with_one_name_are_refused() -> None:
    with pytest.raises(UsageError, match="Two tools"):
        Registry([*builtin_tools(), named("Read")])


def test_an_unknown_tool_is_answered_with_a_suggestion() -> None:
    registry = Registry(builtin_tools())
    assert registry.hint("Raed") == "Did you mean Read?"
    assert registry.hint("Zzz").startswith("The tools are: Read, ")
    assert Registry([]).hint("Raed") == ""


def test_an_unknown_tool_of_a_server_is_not_mistaken_for_one_of_another() -> None:
    registry = Registry([named(name) for name in ("ToolSearch", "mcp__bid__ask", "mcp__small__add")])
    assert registry.hint("mcp__smal__add") == "Did you mean mcp__small__add?"
    assert registry.hint("mcp__small__adds") == "Did you mean mcp__small__add?"
    assert registry.hint("mcp__bad__ark").startswith("Use ToolSearch to find tools of MCP servers")
