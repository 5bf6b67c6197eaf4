"""Decisions beyond single rules: questions, hosts, redirections, accepted edits, wrappers, reasons."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.core.permission import Need
from tests.permissions.deciding import bash, need, policy
from tests.support.tables import each_row, grouped

# ------------------------------------------------------------------------------------------------------- questions


@each_row(
    ("mode", "behavior"),
    [("default", "ask"), ("acceptEdits", "ask"), ("plan", "ask"), ("bypassPermissions", "ask"), ("dontAsk", "deny")],
)
def test_a_question_is_asked_in_every_mode_that_asks(mode: str, behavior: str, tree: Path) -> None:
    for rules in (policy(mode), policy(mode, allow="AskUserQuestion")):
        assert need(rules, "AskUserQuestion", "question", "Which?", tree).behavior == behavior


def test_a_question_can_be_denied_by_a_rule(tree: Path) -> None:
    assert need(policy(deny="AskUserQuestion"), "AskUserQuestion", "question", "x", tree).behavior == "deny"


# ----------------------------------------------------------------------------------------------------------- hosts


@each_row(
    ("rule", "url", "behavior"),
    [
        ("WebFetch(domain:example.com)", "https://example.com/a", "allow"),
        ("WebFetch(domain:example.com)", "https://docs.example.com:8443/a?b", "allow"),
        ("WebFetch(domain:example.com)", "https://EXAMPLE.com./", "allow"),
        ("WebFetch(domain:*.example.com)", "https://docs.example.com/", "allow"),
        ("WebFetch(domain:example.com)", "https://example.com.evil.org/", "ask"),
        ("WebFetch(domain:example.com)", "https://notexample.com/", "ask"),
        ("WebFetch(domain:example.com)", "https://evil.org/example.com", "ask"),
        ("WebFetch(domain:com)", "https://example.com/", "allow"),
        ("WebFetch", "https://example.com/", "allow"),
        ("WebFetch", "http://127.0.0.1:8000/", "ask"),
        ("WebFetch", "http://localhost/", "ask"),
        ("WebFetch(private:127.0.0.1)", "http://127.0.0.1:8000/", "allow"),
        ("WebFetch(domain:localhost)", "http://localhost:3000/", "allow"),
        ("WebSearch", "search:x", "allow"),
    ],
)
def test_fetching_is_allowed_by_domain(rule: str, url: str, behavior: str, tree: Path) -> None:
    assert need(policy(allow=rule), rule.partition("(")[0], "fetch", url, tree).behavior == behavior


def test_a_denied_domain_is_denied_with_all_below_it(tree: Path) -> None:
    rules = policy("bypassPermissions", deny="WebFetch(domain:example.com)")
    assert need(rules, "WebFetch", "fetch", "https://a.b.example.com/", tree).behavior == "deny"
    assert need(rules, "WebFetch", "fetch", "https://example.org/", tree).behavior == "allow"


@each_row(
    ("rule", "tool", "target", "behavior"),
    [
        ("mcp__files", "mcp__files__read", "x", "allow"),
        ("mcp__files__*", "mcp__files__read", "x", "allow"),
        ("mcp__files__write", "mcp__files__read", "x", "ask"),
        ("Task(review)", "Task", "review", "allow"),
        ("Task(review)", "Task", "deploy", "ask"),
        ("Agent(review)", "Task", "review", "allow"),
        ("Skill(pdf)", "Skill", "pdf", "allow"),
        ("Skill(pdf*)", "Skill", "pdf-forms", "allow"),
        ("Skill(pdf)", "Skill", "pdf-forms", "ask"),
    ],
)
def test_rules_match_names_of_servers_agents_and_skills(
    rule: str, tool: str, target: str, behavior: str, tree: Path
) -> None:
    assert need(policy(allow=rule), tool, "other", target, tree).behavior == behavior


# ---------------------------------------------------------------------------------------------------- redirections


@each_row(
    ("command", "mode", "behavior"),
    [
        ("echo x > out.txt", "default", "ask"),
        ("ls | sort >> out.txt", "acceptEdits", "allow"),
        ("cd src && echo x > ../out.txt", "acceptEdits", "allow"),
        ("cd src; echo x > ../out.txt", "acceptEdits", "ask"),
        ("echo x > .git/hooks/pre-commit", "acceptEdits", "ask"),
        ("npm test > out.txt", "acceptEdits", "ask"),
        ("echo $(id -u; touch x) > out.txt", "acceptEdits", "ask"),
        ("echo x > out.txt", "plan", "deny"),
        ("echo x > out.txt", "dontAsk", "deny"),
        ("ls > /dev/null", "plan", "allow"),
    ],
)
def test_the_target_of_a_redirection_is_a_write(command: str, mode: str, behavior: str, tree: Path) -> None:
    assert bash(policy(mode), command, tree).behavior == behavior


def test_an_edit_rule_lets_a_redirection_pass(tree: Path) -> None:
    rules = policy(allow="Edit(logs/**)\nBash(npm test *)")
    assert bash(rules, "npm test > logs/out.txt 2>&1", tree).behavior == "allow"
    assert bash(rules, "npm test > a.txt", tree).reason == "Needs approval: it redirects output to a.txt"
    assert bash(policy(allow="Bash(npm test *)", deny="Edit(logs/**)"), "ls > logs/x", tree).behavior == "deny"


# --------------------------------------------------------------------------------------------------- accepted edits


@pytest.fixture
def full_tree(tree: Path) -> Path:
    """With a folder that has many files."""
    (tree / "many").mkdir()
    for number in range(11):
        (tree / "many" / f"{number}.txt").touch()
    return tree


@each_row(
    ("command", "behavior"),
    grouped(
        {
            "allow": [
                *("mkdir build", "cd src && cp app.py copy.py", "rm -fv a.py && echo done", "rm src/*.py", "rm folder"),
                *("rm dash/*", "rm a.py && git status", "touch x && rm x", "sed -i.bak -e s/a/b/g -e '/x/d' a.py b.py"),
                *("sed -E -i 's/(a)/b/' src/*.py", "echo x | tee out.txt", "ls | tee -a out.txt src/out.txt"),
            ],
            "ask": [
                *("cp a.py c.py && cat c.py", "rm -r src", "cd dash && sed -i s/a/b/ *", "mv a.py x && rm x"),
                *("sed -i 's/a/b/w out' a.py", "sed -i s/a/b/ .git/config", "sed -i'*.x' s/a/b/ a.py"),
                *("sed --follow-symlinks -i s/a/b/ a.py", "echo x | tee ../out.txt", "npm test | tee out.txt"),
                *("cp src other", "cp link x", "mv *.nothing src", "A=1 mkdir x", "mkdir", "xargs mkdir"),
            ],
        }
    ),
)
def test_plain_file_commands_are_edits_when_edits_are_accepted(command: str, behavior: str, full_tree: Path) -> None:
    assert bash(policy("acceptEdits"), command, full_tree).behavior == behavior
    assert bash(policy(), command, full_tree).behavior == "ask"
    assert bash(policy("plan"), command, full_tree).behavior == "deny"


def test_a_copy_over_a_restricted_file_is_no_accepted_edit(tree: Path) -> None:
    (tree / "src" / "a.py").write_text("")
    rules = policy("acceptEdits", ask="Edit(src/a.py)")
    assert bash(rules, "cp a.py src", tree).behavior == "ask"
    assert bash(rules, "cp b.py src", tree).behavior == "allow"


# --------------------------------------------------------------------------------------------- wrappers and patterns


@each_row(
    ("command", "behavior"),
    grouped(
        {
            "allow": [
                *("npm test", "timeout 60 npm test unit", "time npm test", "nice -n 5 npm test", "nohup npm test"),
                *("env CI=1 npm test", "CI=1 NODE_ENV=test npm test", "stdbuf -oL npm test | tail -3"),
                *("cd src && npm test", "npm test src/*.js", "ls | xargs npm test", 'npm test "$(id)"'),
            ],
            "ask": [
                *("PATH=. npm test", "env NODE_OPTIONS=x npm test", "env -i npm test", "sudo npm test"),
                *("npm test; npm publish", "npm test $(touch x)", "npm test $X", "cd .. && npm test"),
            ],
        }
    ),
)
def test_rules_see_through_wrappers(command: str, behavior: str, tree: Path) -> None:
    assert bash(policy(allow="Bash(npm test *)"), command, tree).behavior == behavior


def test_an_exact_rule_does_not_cover_arguments_from_a_pipe(tree: Path) -> None:
    assert bash(policy(allow="Bash(npm test)"), "ls | xargs npm test", tree).behavior == "ask"


def test_after_a_part_that_may_change_the_directory_nothing_is_proven(tree: Path) -> None:
    rules = policy(allow="Bash(pushd *)\nBash(source *)")
    assert bash(rules, "pushd /etc && cat passwd", tree).behavior == "ask"
    assert bash(rules, "source env.sh && ls", tree).behavior == "ask"
    assert bash(rules, "source env.sh", tree).behavior == "allow"


@pytest.mark.parametrize("command", ["cat .en*", "cat ./.e?v", "head sub/.[e]nv", "cp .en* x"])
def test_a_pattern_that_matches_a_denied_file_is_denied(command: str, tree: Path) -> None:
    (tree / ".env").write_text("secret")
    (tree / "sub").mkdir()
    (tree / "sub" / ".env").write_text("secret")
    assert bash(policy(allow="Bash", deny="Read(.env)"), command, tree).behavior == "deny"


def test_a_path_through_a_link_is_where_the_link_leads(tree: Path) -> None:
    """`linked/..` is not the project: the kernel follows the link first."""
    assert bash(policy(), "cat linked/../outside.txt", tree).behavior == "ask"


def test_the_resolved_target_of_a_path_is_checked_too(tree: Path) -> None:
    outside = str(tree.parent / "outside.txt")
    call = [Need("read", str(tree / "a.txt"), outside)]
    assert policy().decide("Read", {}, call, tree, [tree]).behavior == "ask"
    assert policy(deny=f"Read(/{outside})").decide("Read", {}, call, tree, [tree]).behavior == "deny"


# ---------------------------------------------------------------------------------------------------------- reasons


def test_every_part_has_its_line_in_the_details(tree: Path) -> None:
    decision = bash(policy(allow="Bash(npm test *)"), "ls && npm test && sort -o x a.txt", tree)
    assert decision.reason == "Needs approval: `-o` of sort may change files or run code (in `sort -o x a.txt`)"
    assert decision.details == (
        "ls: allowed because it is read-only",
        "npm test: allowed because it matches rule Bash(npm test *) from flags",
        "sort -o x a.txt: needs approval because `-o` of sort may change files or run code",
    )


def test_an_allowed_command_names_its_rule_and_file(tree: Path) -> None:
    decision = bash(policy(allow="Bash(npm test *)"), "cd src && npm test", tree)
    assert (decision.reason, decision.rule, decision.source) == (
        "allowed by rule Bash(npm test *) from flags",
        "Bash(npm test *)",
        "flags",
    )


def test_an_unparsable_command_has_a_reason(tree: Path) -> None:
    assert bash(policy(), "echo $SECRET", tree).reason == "Needs approval: the value of $SECRET is unknown"
    assert bash(policy(), "ls 'x", tree).reason == "Needs approval: it cannot be parsed"


def test_deny_is_found_in_a_command_that_is_too_complex_to_parse(tree: Path) -> None:
    rules = policy("bypassPermissions", deny="Bash(rm *)")
    assert bash(rules, "ls; " * 8_000 + "rm x", tree).behavior == "deny"
    assert bash(rules, "(" * 300 + "rm x", tree).behavior == "deny"
    assert bash(policy(), "ls; " * 8_000 + "ls", tree).behavior == "ask"


# ------------------------------------------------------------------------------------------------- paths in commands


@pytest.mark.parametrize(
    "command",
    ["cat src/keys/x", "cd src && cat keys/x", "cd src; cat keys/x", "git -C src show keys/x", "cd src && cat key*/x"],
)
def test_a_deny_rule_follows_a_cd(command: str, tree: Path) -> None:
    (tree / "src" / "keys").mkdir()
    (tree / "src" / "keys" / "x").write_text("secret")
    assert bash(policy(allow="Bash", deny="Read(src/keys/**)"), command, tree).behavior == "deny"


def test_a_protected_path_is_seen_through_links_and_from_inside(tree: Path) -> None:
    (tree / ".git" / "hooks").mkdir()
    (tree / "innocent").symlink_to(tree / ".git")
    rules = policy(allow="Bash(cp *)")
    assert bash(rules, "cp a.py c.py", tree).behavior == "allow"
    assert bash(rules, "cp a.py innocent/config", tree).behavior == "ask"
    assert bash(rules, "cd .git/hooks && cp ../../a.py pre-commit", tree).behavior == "ask"
    inside = rules.decide("Bash", {}, [Need("execute", "cp x pre-commit")], tree / ".git" / "hooks", [tree])
    assert inside.behavior == "ask"


def test_a_worktree_below_a_protected_name_may_be_named_in_full(tmp_path: Path) -> None:
    project = tmp_path / ".claude" / "worktrees" / "one"
    project.mkdir(parents=True)
    rules = policy(allow="Bash(cp *)")
    assert bash(rules, f"cp a.py {project}/b.py", project).behavior == "allow"
    assert bash(rules, f"cp a.py {tmp_path}/.claude/settings.json", project).behavior == "ask"


@each_row("command", ["cat " + "a/" * 8_000 + "b", "cat " + "../" * 3_000 + "x", "ls " + "x" * 9_000])
def test_a_very_long_path_gets_a_decision(command: str, tree: Path) -> None:
    for rules in (policy(), policy(allow="Bash(cat *)", deny="Read(.env)")):
        assert bash(rules, command, tree).behavior in ("allow", "ask")


def test_a_mandatory_question_names_a_rule_so_that_no_hook_can_answer_it(tree: Path) -> None:
    """A hook's decision counts only where no rule has decided."""
    assert bash(policy("bypassPermissions"), "rm -rf /", tree).rule == "always asks"
    # A hook may bring the answer to a question along.
    assert need(policy(), "AskUserQuestion", "question", "x", tree).rule == ""


def test_a_file_that_looks_like_a_flag_with_a_pattern_makes_it_ask(tree: Path) -> None:
    assert bash(policy(), "grep -n foo --include=*.py a.txt", tree).behavior == "allow"
    (tree / "--include=x.py").write_text("")
    assert bash(policy(), "grep -n foo --include=*.py a.txt", tree).behavior == "ask"
