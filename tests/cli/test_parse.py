from __future__ import annotations

import pytest

from agentcli.cli.flags import FLAGS, parse, split_list
from agentcli.core.errors import UsageError


def test_a_prompt_and_flags_in_any_order() -> None:
    for argv in (["-p", "hi", "--model", "m"], ["--model=m", "-p", "hi"], ["hi", "--print", "--model", "m"]):
        parsed = parse(argv)
        assert (parsed.prompt, dict(parsed.values)) == ("hi", {"print": True, "model": "m"})


def test_a_value_may_be_empty_or_begin_with_a_dash() -> None:
    parsed = parse(["--system-prompt", "", "--append-system-prompt", "- be brief", "--setting-sources="])
    assert dict(parsed.values) == {
        "system_prompt": "",
        "append_system_prompt": "- be brief",
        "setting_sources": (),
    }


def test_after_two_dashes_everything_is_the_prompt() -> None:
    assert parse(["-p", "--", "--model"]).prompt == "--model"


def test_joined_short_switches_are_several_flags() -> None:
    assert dict(parse(["-pc"]).values) == {"print": True, "continue": True}


@pytest.mark.parametrize(
    ("argv", "value"),
    [
        (["-r"], ""),
        (["-r", "-p"], ""),
        (["-r", "abc"], "abc"),
        (["--resume=abc"], "abc"),
    ],
)
def test_resume_takes_a_value_or_none(argv: list[str], value: str) -> None:
    assert parse(argv).get("resume") == value


def test_debug_takes_its_filter_with_an_equals_sign_only() -> None:
    parsed = parse(["-p", "--debug", "hi"])
    assert (parsed.get("debug"), parsed.prompt) == ("", "hi")
    assert parse(["--debug=api,!raw"]).get("debug") == "api,!raw"


def test_a_list_flag_given_again_adds() -> None:
    parsed = parse(
        ["--allowedTools", "Read,Bash(git log, x:*)", "--allowed-tools=Edit", "--add-dir", "a", "--add-dir=b"]
    )
    assert parsed.get("allowed_tools") == ("Read", "Bash(git log, x:*)", "Edit")
    assert parsed.get("add_dir") == ("a", "b")


def test_rules_may_follow_as_arguments_of_their_own_after_the_prompt() -> None:
    parsed = parse(["-p", "do it", "--allowedTools", "Read", "Bash(ls *)", "mcp__a__b", "mcp__c__*", "--verbose"])
    assert parsed.get("allowed_tools") == ("Read", "Bash(ls *)", "mcp__a__b", "mcp__c__*")
    assert parsed.prompt == "do it"


def test_a_word_that_may_be_a_rule_or_the_prompt_is_refused() -> None:
    with pytest.raises(UsageError, match="could be a rule or the prompt"):
        parse(["-p", "--allowedTools", "Read", "Hello"])
    assert parse(["-p", "--allowedTools", "Read", "say hello"]).prompt == "say hello"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--modle", "x"], r"There is no flag --modle. Did you mean --model\?"),
        (["--allowedtool", "x"], "Did you mean --allowedTools|Did you mean --allowed-tools"),
        (["--qqqqqq"], "agentcli --help lists all flags"),
        (["-x"], "There is no flag -x"),
        (["--max-turns", "-1"], "--max-turns must be 1 or more, not -1"),
        (["--max-turns", "many"], "--max-turns must be a whole number, not 'many'"),
        (["--max-budget-usd", "nan"], "--max-budget-usd must be a number, not 'nan'"),
        (["--permission-mode", "acceptedits"], r"must be one of .* Did you mean acceptEdits\?"),
        (["--output-format=xml"], "--output-format must be one of text, json, stream-json, not 'xml'"),
        (["--setting-sources", "user,home"], "--setting-sources must be one of user, project, local, not 'home'"),
        (["--model"], "--model needs a value: --model MODEL"),
        (["--model", "--verbose"], "--model needs a value"),
        (["--verbose=yes"], "--verbose takes no value"),
        (["-p", "fix", "the", "bug"], "Put quotes around the whole prompt"),
        (["confg"], r"There is no command 'confg'. Did you mean config\?"),
        (["session"], r"Did you mean sessions\?"),
        (["--verbose", "config"], "A command comes first: agentcli config"),
    ],
)
def test_wrong_usage_is_explained_in_one_sentence(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(argv)


def test_with_print_any_word_is_a_prompt() -> None:
    assert parse(["-p", "confg"]).prompt == "confg"


def test_a_sub_command_keeps_its_own_arguments() -> None:
    assert parse(["sessions", "list", "--all"]).command == ("sessions", "list", "--all")


def test_commas_in_parentheses_do_not_split() -> None:
    assert split_list(" A, B(x,(y,z)) ,,C") == ("A", "B(x,(y,z))", "C")
    assert split_list("Read Bash(npm run test *), Edit(src/(a)/**)") == (
        "Read", "Bash(npm run test *)", "Edit(src/(a)/**)",
    )  # fmt: skip
    assert split_list("") == ()
    assert split_list("Bash(a), b)") == ("Bash(a)", "b)")


def test_the_table_is_consistent() -> None:
    names = [name for flag in FLAGS for name in flag.names]
    assert len(names) == len(set(names))
    assert len({flag.key for flag in FLAGS}) == len(FLAGS)
    assert all(flag.help.endswith(".") for flag in FLAGS)
