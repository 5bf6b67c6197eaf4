"""Names of MCP tools: legal for the API, distinct, and the same whatever the order."""

from __future__ import annotations

import re
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from agentcli.mcp.protocol import MAX_NAME, server_part, server_parts, split_name, tool_name, tool_names

_LEGAL = re.compile(r"[A-Za-z0-9_-]{1,128}")


def test_a_name_is_legal_and_shows_its_server_and_its_tool() -> None:
    assert tool_name("my server", "files/read.all") == "mcp__my_server__files_read_all"
    assert tool_name("git-hub", "get_issue") == "mcp__git-hub__get_issue"
    assert split_name(tool_name("a__b", "c__d")) == ("a_b", "c__d")
    assert split_name(tool_name("a_", "_t")) == ("a", "_t")
    assert split_name("mcp__a") == ("a", "")
    assert split_name("Read") is split_name("mcp____x") is None


def test_of_several_with_one_name_the_unchanged_one_keeps_it() -> None:
    for order in (["a.b", "a_b", "a/b"], ["a/b", "a_b", "a.b"]):
        assert tool_names("s", order) == {"a_b": "mcp__s__a_b", "a.b": "mcp__s__a_b_2", "a/b": "mcp__s__a_b_3"}
    assert tool_names("s", ["a.b", "a_b", "a_b_2"])["a.b"] == "mcp__s__a_b_3"
    assert server_parts(["x.y", "x_y"]) == {"x.y": "x_y_2", "x_y": "x_y"}
    known = server_parts(["_x"])
    assert server_parts(["_x", "x", "y"], known) == {"_x": "x", "x": "x_2", "y": "y"}
    assert server_parts(["y"], known) == {"_x": "x", "y": "y"}


@given(st.text(max_size=200), st.lists(st.text(max_size=200), unique=True, max_size=20), st.randoms())
def test_names_are_legal_distinct_and_independent_of_the_order(server: str, tools: list[str], random: Random) -> None:
    names = tool_names(server_part(server), tools)
    assert list(names) == tools
    assert len(set(names.values())) == len(tools)
    for name in names.values():
        assert _LEGAL.fullmatch(name)
        assert len(name) <= MAX_NAME
        assert split_name(name) is not None
        assert name.startswith(f"mcp__{server_part(server)}__")
    random.shuffle(tools)
    assert tool_names(server_part(server), tools) == names
