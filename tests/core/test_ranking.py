"""The search for tools: what the query names comes first, and all words of a tool count."""

from __future__ import annotations

import re
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from agentcli.core.text.ranking import RankedDocument, rank, words_of

TOOLS = [
    RankedDocument("mcp__github__create_issue", "Create a new issue in a repository"),
    RankedDocument("mcp__github__list_issues", "List the issues of a repository"),
    RankedDocument("mcp__github__merge_pull_request", "Merge a pull request"),
    RankedDocument("mcp__slack__post_message", "Send a text to a channel"),
    RankedDocument(
        "mcp__maps__route",
        "Find a way",
        {
            "type": "object",
            "properties": {
                "start": {"description": "Where to begin", "type": "string"},
                "stops": {"type": "array", "items": {"properties": {"latitude": {"type": "number"}}}},
            },
        },
    ),
]


def test_names_descriptions_and_parameters_are_searched() -> None:
    assert rank("create issue", TOOLS)[0] == "mcp__github__create_issue"
    assert rank("send text channel", TOOLS)[0] == "mcp__slack__post_message"
    assert rank("latitude", TOOLS) == ["mcp__maps__route"]
    assert rank("where begin", TOOLS)[0] == "mcp__maps__route"
    assert {name.split("__")[1] for name in rank("github", TOOLS)} == {"github"}


def test_plural_camel_case_and_underscores_do_not_matter() -> None:
    assert words_of("createIssues HTTPServer get_2fa-code") == [
        "create",
        "issue",
        "http",
        "server",
        "get",
        "2",
        "fa",
        "code",
    ]
    assert "mcp__github__list_issues" in rank("Issue", TOOLS)


def test_what_matches_nothing_finds_nothing() -> None:
    assert rank("zebra", TOOLS) == []
    assert rank("", TOOLS) == []
    assert rank("anything", []) == []


_names = st.from_regex(re.compile(r"mcp__[a-z]{1,6}__[a-z_]{1,20}"), fullmatch=True)


@given(st.dictionaries(_names, st.text(max_size=80), min_size=1, max_size=15), st.data())
def test_the_tool_that_the_query_names_is_first(tools: dict[str, str], data: st.DataObject) -> None:
    documents = [RankedDocument(name, description) for name, description in tools.items()]
    chosen = data.draw(st.sampled_from(sorted(tools)))
    assert rank(chosen, documents)[0] == chosen
    short = chosen.split("__", 2)[2]
    if sum(name.split("__", 2)[2] == short or name.rpartition("__")[2] == short for name in tools) == 1:
        assert rank(short, documents)[0] == chosen


@given(st.text(max_size=40), st.dictionaries(_names, st.text(max_size=80), max_size=10), st.randoms())
def test_the_order_of_the_tools_does_not_matter(query: str, tools: dict[str, str], random: Random) -> None:
    documents = [RankedDocument(name, description) for name, description in tools.items()]
    found = rank(query, documents)
    assert set(found) <= set(tools)
    random.shuffle(documents)
    assert rank(query, documents) == found
