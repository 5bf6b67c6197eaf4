"""Rules quote what they contain: no name or command can end a rule, split a list of rules or widen it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentcli.agent.toolcalls.calls import allow_flag
from agentcli.cli.flags import parse, split_list
from agentcli.core.permission import Need
from agentcli.core.text.plaintext import terminal_line
from agentcli.permissions.policy import Policy
from agentcli.permissions.rules import parse_rule, parse_rules, rule_text, show_rule
from tests.support.tables import each_row

SPECS = st.text(st.one_of(st.characters(codec=None), st.sampled_from("()<>U+0029 ,*\\'\n\u202e")), min_size=1)


@given(SPECS)
@example("a),Bash,Edit(b")
@example("*")
@example(" ")
@example("<U+0029>")
@example("<U+<U+0029>")
@example("\ud800)")
@example("x) Bash(")
def test_any_text_survives_in_a_rule(spec: str) -> None:
    written = rule_text("Bash", spec)
    rule = parse_rule(written)
    assert (rule.tool, rule.spec) == ("Bash", spec)
    assert rule.text == written
    assert terminal_line(written) == written, "what is shown can be pasted"


@given(st.lists(SPECS, min_size=1, max_size=4))
@example(["a),Bash,Edit(b", "c"])
def test_a_list_of_rules_is_never_split_inside_of_one(specs: list[str]) -> None:
    rules = [rule_text("Bash", spec) for spec in specs]
    assert split_list(",".join(rules)) == tuple(rules)
    flag, value = shlex.split(allow_flag(rules))
    assert parse(["-p", "x", flag, value]).get("allowed_tools") == tuple(rules)


@each_row(
    ("spec", "written"),
    [
        ("npm test *", "npm test *"),
        (r"find . \( -name x \)", r"find . \( -name x \)"),
        ("echo $(date)", "echo $(date)"),
        ("//x/a),Bash,Edit(b", "//x/a<U+0029>,Bash,Edit<U+0028>b"),
        ("//x/a ", "//x/a<U+0020>"),
        ("//x/a\n\u202e", "//x/a<U+000A><U+202E>"),
    ],
)
def test_only_text_that_needs_it_is_quoted(spec: str, written: str) -> None:
    assert rule_text("Edit", spec) == f"Edit({written})"
    assert parse_rule(f"Edit({written})").spec == spec


def test_an_empty_rule_does_not_match_everything() -> None:
    with pytest.raises(ValueError, match="every use"):
        rule_text("Skill", "")


NAMES = ["a),Bash,Edit(b", "a(b", ")", "x ", "*", "[a]", "<U+0041>", "\u202eb", "a\nb", "a,b", "a'b", "{c,d}", "\\"]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_suggested_rule_covers_the_file_and_nothing_else(name: str, kind: str, tmp_path: Path) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    tool, policy, place = "Read" if kind == "read" else "Edit", Policy(), (work, (work,))
    need = Need(kind, str(outside / name))  # type: ignore[arg-type]
    rules = policy.suggest(tool, (need,), *place).exact()
    assert len(rules) == 1
    (again,) = split_list(",".join(rules))
    allowed = policy.with_allowed([again], "test")
    assert allowed.decide(tool, {}, (need,), *place).behavior == "allow"
    for other in {*NAMES, "a", "b", "x"} - {name}:
        elsewhere = Need(kind, str(outside / other))  # type: ignore[arg-type]
        assert allowed.decide(tool, {}, (elsewhere,), *place).behavior == "ask", other
    assert allowed.decide("Bash", {}, (Need("execute", "touch y"),), *place).behavior == "ask"


@each_row("command", ["npm test 'a),Bash,Edit(b'", "make 'x('", "touch 'a)'"])
def test_a_suggested_rule_for_a_command_covers_that_command(command: str, tmp_path: Path) -> None:
    policy, place = Policy(), (tmp_path, (tmp_path,))
    need = Need("execute", command)
    rules = policy.suggest("Bash", (need,), *place).exact()
    assert rules
    listed = split_list(",".join(rules))
    assert list(listed) == rules
    allowed = policy.with_allowed(listed, "test")
    assert allowed.decide("Bash", {}, (need,), *place).behavior == "allow"
    assert allowed.decide("Bash", {}, (Need("execute", "rm y"),), *place).behavior == "ask"


@each_row(
    ("written", "shown"),
    [
        ("Edit(//srv/app/a.py)", "Edit /srv/app/a.py"),
        ("Read(//srv/**)", "Read /srv/**"),
        ("Edit(//srv/a<U+0029>.py)", "Edit /srv/a<U+0029>.py"),
        ("Edit(/src/**)", "Edit(/src/**)"),
        ("Read(~/.ssh/**)", "Read(~/.ssh/**)"),
        ("Bash(//bin/x *)", "Bash(//bin/x *)"),
        ("no rule (", "no rule ("),
    ],
)
def test_an_absolute_path_is_shown_to_people_as_a_path(written: str, shown: str) -> None:
    assert show_rule(written) == shown


def test_denials_and_questions_show_the_path_of_their_rule(tmp_path: Path) -> None:
    need, place = Need("write", "/srv/app/a.py"), (tmp_path, (tmp_path,))
    rules = parse_rules(["Edit(//srv/**)"], "settings.json")
    denied = Policy(deny=rules).decide("Edit", {}, (need,), *place)
    assert (denied.denied_by, denied.rule) == ("rule Edit /srv/** from settings.json", "Edit(//srv/**)")
    asked = Policy(ask=rules).decide("Edit", {}, (need,), *place)
    assert asked.reason == "Needs approval: it matches rule Edit /srv/** from settings.json"
