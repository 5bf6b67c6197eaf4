"""What an allowed command may do beyond its sandbox: never more than was approved."""

from __future__ import annotations

from pathlib import Path

from agentcli.core.permission import Approval, Grant, Need
from agentcli.permissions.policy import Policy
from tests.permissions.deciding import policy


def grant(policy: Policy, command: str, project: Path, approved: Approval) -> Grant:
    return policy.grant([Need("execute", command)], project, [project], approved=approved)


def test_an_answer_opens_the_paths_that_the_command_names_and_a_mode_none(tree: Path) -> None:
    outside = tree.parent / "elsewhere" / "x"
    answered = grant(policy(), f"cp a.py {outside}; touch .envrc; mkdir ../new", tree, "answer")
    assert answered.write == (outside, tree / ".envrc", tree.parent)
    assert answered.opened_names == (tree / ".envrc",)
    assert not answered.guards_obeyed_names
    by_mode = grant(policy("auto"), f"cp a.py {outside}", tree, "mode")
    assert (by_mode.write, by_mode.network, by_mode.guards_obeyed_names) == ((), "hosts", True)


def test_a_rule_for_one_exact_command_opens_its_paths_and_one_with_a_star_none(tree: Path) -> None:
    outside = tree.parent / "elsewhere" / "x"
    command = f"cp a.py {outside}"
    assert grant(policy(allow=f"Bash({command})"), command, tree, "rule").write == (outside,)
    assert grant(policy(allow="Bash(cp *)"), command, tree, "rule").write == ()
    assert grant(policy(allow=f"Bash(cp *)\nEdit(/{outside})"), command, tree, "rule").write == (outside,)
    for rule, changes in (("Bash(git config *)", True), ("Bash(git *)", False), ("Bash(git config a b)", True)):
        assert grant(policy(allow=rule), "git config a b", tree, "rule").git_settings is changes


def test_a_read_only_command_has_no_network_unless_it_shows_it(tree: Path) -> None:
    assert (grant(policy(), "ls", tree, "mode").network, grant(policy(), "ss -tln", tree, "mode").network) == (
        "none",
        "default",
    )
    assert grant(policy(), "ls", tree, "mode").reads_only
    assert policy().grant([Need("read", "a.txt")], tree, [tree], approved="mode") == Grant()


def test_hosts_and_variables_come_from_rules_for_the_program(tree: Path) -> None:
    rules = policy(allow="Network(a.org)\nEnv(gh:GH_TOKEN)", deny="Network(b.org)", credentials=frozenset({"GH_TOKEN"}))
    found = grant(rules, "gh pr list", tree, "answer")
    assert (found.hosts, found.variables) == (("a.org", "!b.org"), ("GH_TOKEN",))
    assert grant(rules, "gh pr list; ls", tree, "answer").variables == ()
    needs = [Need("execute", "gh pr list")]
    assert rules.credential_rules(needs, tree, [tree]) == ("Env(gh:GH_TOKEN)",)
