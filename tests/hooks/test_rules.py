from __future__ import annotations

from typing import Any

from agentcli.hooks.rules import HookRule, matching, parse_hooks, problem_of
from tests.support.tables import each_row

MATCHES = [
    ("", "Bash", True),
    ("*", "Bash", True),
    ("Bash", "Bash", True),
    ("Bash", "BashOutput", False),
    ("Edit|Write", "Write", True),
    ("Edit|Write", "MultiEdit", False),
    ("mcp__.*", "mcp__files__read", True),
    ("mcp__files", "mcp__files__read", True),
    ("mcp__files", "mcp__files2__read", False),
    ("mcp__files__*", "mcp__files__read", True),
    ("mcp__files__get_*", "mcp__files__get_one", True),
    ("mcp__files__get_*", "mcp__files__getting", False),
    ("Bash|mcp__my-files__read", "mcp__my-files__read", True),
    ("Bash|mcp__my-files", "mcp__my-files__read", True),
    ("Bash|mcp__my-files", "BashOutput", False),
    ("^Notebook", "NotebookEdit", True),
    (".*Edit", "MultiEdit", True),
]


@each_row(("matcher", "subject", "expected"), MATCHES)
def test_a_matcher_is_a_name_names_or_a_regular_expression(matcher: str, subject: str, expected: bool) -> None:
    assert HookRule("PreToolUse", matcher, "true").matches(subject) is expected


def test_a_command_that_is_configured_twice_runs_once() -> None:
    rules = [HookRule("Stop", "", "a"), HookRule("Stop", "", "b"), HookRule("Stop", "*", "a"), HookRule("X", "", "a")]
    assert [rule.action for rule in matching(rules, "Stop", "")] == ["a", "b"]


def test_rules_are_read_with_their_source_and_timeout() -> None:
    hooks = [{"type": "command", "command": "check", "timeout": 5}, {"command": "log"}]
    rules, problems = parse_hooks({"PreToolUse": [{"matcher": "Bash", "hooks": hooks}]}, "file", in_repository=True)
    assert problems == []
    assert rules == [
        HookRule("PreToolUse", "Bash", "check", 5.0, "file", True),
        HookRule("PreToolUse", "Bash", "log", 60.0, "file", True),
    ]


@each_row(
    ("value", "problem"),
    [
        ({"PreTool": [{"hooks": [{"command": "x"}]}]}, "unknown hook event 'PreTool'"),
        ({"Stop": {}}, "hooks.Stop must be a list"),
        ({"Stop": [3]}, "each entry of hooks.Stop must be an object"),
        ({"Stop": [{"hooks": [3]}]}, "must be an object"),
        ({"Stop": [{"hooks": [{"type": "prompt"}]}]}, "only 'command' is supported"),
        ({"Stop": [{"hooks": [{"type": "command"}]}]}, "has no command"),
        ({"Stop": [{"hooks": [{"command": " "}]}]}, "is empty"),
        ({"Stop": [{"hooks": [{"command": "x", "timeout": "1"}]}]}, "must be a number"),
        ({"Stop": [{"hooks": [{"command": "x", "timeout": 0}]}]}, "1 to 3600 seconds"),
        ({"Stop": [{"matcher": "(", "hooks": [{"command": "x"}]}]}, "not a valid regular expression"),
        ({"Stop": [{"matcher": 1, "hooks": []}]}, "must be a string"),
    ],
)
def test_what_cannot_be_used_is_named_and_the_rest_works(value: dict[str, Any], problem: str) -> None:
    good = {"SessionEnd": [{"hooks": [{"type": "command", "command": "ok"}]}]}
    rules, problems = parse_hooks({**value, **good}, ".agentcli/settings.json")
    assert [rule.action for rule in rules] == ["ok"]
    assert len(problems) == 1
    assert problems[0].startswith(".agentcli/settings.json: ")
    assert problem in problems[0]


def test_too_many_hooks_are_cut() -> None:
    many = [{"hooks": [{"command": f"c{number}"} for number in range(500)]}]
    rules, problems = parse_hooks({"Stop": many}, "file")
    assert len(rules) == 200
    assert problems == ["file: only the first 200 of 500 hooks are used."]


def test_a_function_is_shown_by_its_name() -> None:
    def guard(_data: object) -> None: ...

    rule = HookRule("PreToolUse", "Bash", guard)
    assert problem_of(rule) == ""
    assert rule.title.endswith("guard")
