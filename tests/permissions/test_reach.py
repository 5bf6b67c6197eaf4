"""Searches and git: they ask when they could show a restricted file, and only then."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.core.permission import Decision, Need, PermissionMode
from agentcli.permissions.policy import Policy
from agentcli.permissions.rules import parse_rules
from agentcli.shell import restricted_files
from tests.support.tables import each_row


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=n", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loaded machine must not decide what a test finds."""
    monkeypatch.setattr(restricted_files, "_SECONDS", 60.0)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with an ignored .env at its top, as most have."""
    folder = tmp_path_factory.mktemp("template")
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "app.py").write_text("def add(): ...\n")
    (folder / "README.md").write_text("# project\n")
    (folder / ".gitignore").write_text(".env\n")
    (folder / ".env").write_text("SECRET=1\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


@pytest.fixture
def project(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "project"))


def policy(deny: str = "", ask: str = "", *, hidden: bool = False) -> Policy:
    made = Policy(deny=parse_rules([deny] if deny else []), ask=parse_rules([ask] if ask else []))
    return replace(made, hidden_from_commands=lambda _command: hidden)


def decide(policy: Policy, command: str, project: Path, folder: str = ".") -> Decision:
    return policy.decide("Bash", {}, [Need("execute", command)], project / folder, [project])


NEVER_SHOW_ENV = [
    *("git status", "git status --short --branch", "git log --oneline -5", "git log -3 --stat"),
    *("git log -n 5 --format=%s --since=yesterday", "git branch -a", "git remote -v", "git ls-files"),
    *("git stash list", "git blame src/app.py", "rg x src", "rg --files", "grep -rn 'def ' src"),
    *("find . -name '*.py'", "ls -R"),
]


@each_row("command", [*NEVER_SHOW_ENV, "rg x", "rg -n x .", "git diff", "git show HEAD", "git log -p"])
def test_a_command_that_cannot_show_the_denied_file_runs(command: str, project: Path) -> None:
    assert decide(policy("Read(./.env)"), command, project).behavior == "allow"


SHOW_ENV = [
    *("grep -r SECRET", "grep -rn SECRET src .", "grep -r SECRET . --include='.env*'"),
    *("grep -r SECRET . --exclude=x --include='*.py'", "cd src && grep -r SECRET .."),
    *("rg -g '*' SECRET", "rg -ng '*v' SECRET", "rg -it all SECRET", "rg --hidden x", "rg -uu x .", "rg x .env"),
    *("cat .en[[:lower:]]", "cat .en[[=v=]]", "cat .en[x[:a]:]", "git grep --untracked SECRET"),
    "find . -type f -print0 | xargs -0 cat",
]


@each_row("command", SHOW_ENV)
def test_a_search_that_would_reach_the_denied_file_asks(command: str, project: Path) -> None:
    assert decide(policy("Read(./.env)"), command, project).behavior in ("ask", "deny")


def test_the_question_names_the_file_and_the_rule(project: Path) -> None:
    assert "could read .env, matched by Read(./.env)" in decide(policy("Read(./.env)"), "grep -r x .", project).reason


@each_row("command", ["grep -r SECRET .", "rg x", "git diff", "git log -p"])
def test_nothing_asks_where_the_sandbox_hides_the_file(command: str, project: Path) -> None:
    assert decide(policy("Read(./.env)", hidden=True), command, project).behavior == "allow"


def test_the_sandbox_does_not_hide_what_an_ask_rule_matches(project: Path) -> None:
    assert decide(policy(ask="Read(./.env)", hidden=True), "grep -r SECRET .", project).behavior == "ask"
    assert decide(policy(ask="Read(./.env)", hidden=True), "grep -r x src", project).behavior == "allow"


def test_a_deny_rule_that_comes_later_is_not_hidden_by_the_sandbox(project: Path) -> None:
    later = policy(hidden=True).with_rules(deny=parse_rules(["Read(./.env)"]))
    assert decide(later, "grep -r SECRET .", project).behavior == "ask"


def test_a_search_through_a_link_counts_where_the_link_leads(project: Path) -> None:
    (project / "conf").mkdir()
    (project / "conf" / "key.pem").touch()
    (project / "src" / "link").symlink_to(project / "conf")
    rules = policy("Read(*.pem)")
    assert decide(rules, "grep -r x src", project).behavior == "allow"
    assert decide(rules, "grep -r x src/link/", project).behavior == "ask"


def test_a_denied_folder_is_denied_to_a_search_from_inside_it(project: Path) -> None:
    (project / "secrets" / "deep").mkdir(parents=True)
    assert decide(policy("Read(secrets/**)"), "grep -r x .", project, "secrets/deep").behavior == "deny"
    assert decide(policy("Read(secrets/**)"), "grep -r x src", project).behavior == "allow"


def test_ripgrep_asks_about_hidden_files_where_it_may_search_them(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / ".config").mkdir()
    (project / ".config" / "key.pem").touch()
    rules = policy("Read(*.pem)")
    assert decide(rules, "rg x", project).behavior == "allow"
    assert decide(rules, "rg x .config", project).behavior == "ask"
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", "/etc/ripgreprc")
    assert decide(rules, "rg x", project).behavior == "ask"
    monkeypatch.delenv("RIPGREP_CONFIG_PATH")
    (project / "key.pem").touch()
    assert decide(policy("Read(*.pem)"), "rg x", project).behavior == "ask"


def test_an_ignore_file_that_brings_hidden_files_back_makes_ripgrep_ask(project: Path) -> None:
    (project / ".ignore").write_text("*.log\n!.env\n")
    assert decide(policy("Read(./.env)"), "rg SECRET", project).behavior == "ask"


def test_a_folder_with_too_many_files_asks(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restricted_files, "MAX_ENTRIES", 2)
    assert "too many files" in decide(policy("Read(other.txt)"), "grep -r x .", project).reason


def test_a_rule_for_another_folder_needs_no_directory_walk(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restricted_files, "find_denied", lambda *_: pytest.fail("walked"))
    assert decide(policy("Read(//etc/ssl/**)"), "grep -r x .", project).behavior == "allow"


# --------------------------------------------------------------------------------------------------------------- git

SHOW_CONTENTS = [
    *("git diff", "git diff HEAD", "git diff --stat -p", "git show", "git show HEAD", "git log -p", "git log -1 -u"),
    *("git log -SSECRET", "git log -G SECRET", "git grep SECRET", "git stash show -p", "git cat-file -p 1234567"),
    *("git status -v", "git show 'HEAD^{/fix:it}'", "git show --stat 8d0e41234f424f1fd5e0a1a4e1b6d0e0b7b6a3b2"),
    *("git log -p -S -- HEAD", "git log -p -n -- HEAD", "git grep -e -- src", "git diff -- :/", "git diff -- '*'"),
]


@pytest.mark.parametrize("hidden", [False, True])
def test_git_asks_before_it_shows_contents_of_a_tracked_denied_file(hidden: bool, project: Path) -> None:
    git(project, "add", "-f", ".env")
    rules = policy("Read(./.env)", hidden=hidden)
    for command in SHOW_CONTENTS:
        decision = decide(rules, command, project)
        assert decision.behavior == "ask", command
        assert ".env" in decision.reason
    for other in (*NEVER_SHOW_ENV[:10], "git diff --stat", "git show --stat HEAD"):
        assert decide(rules, other, project).behavior == "allow", other


def test_git_asks_when_the_denied_file_is_only_in_history(project: Path) -> None:
    git(project, "checkout", "-qb", "side")
    git(project, "add", "-f", ".env")
    git(project, "commit", "-qm", "oops")
    git(project, "rm", "-q", "--cached", ".env")
    git(project, "commit", "-qm", "gone")
    git(project, "checkout", "-q", "main")
    git(project, "merge", "-q", "--no-ff", "-m", "merged", "side")
    rules = policy("Read(./.env)", hidden=True)
    assert decide(rules, "git log -p", project).behavior == "ask"
    assert decide(rules, "git show HEAD~1:.env", project).behavior == "deny"


def test_differences_of_submodules_ask(project: Path) -> None:
    assert decide(policy(), "git diff --submodule=diff", project).behavior == "ask"
    assert decide(policy("Read(./.env)"), "git diff --submodule=diff", project).behavior == "ask"


def test_a_changed_repository_is_checked_again(project: Path) -> None:
    rules = policy("Read(./.env)")
    assert decide(rules, "git diff", project).behavior == "allow"
    git(project, "add", "-f", ".env")
    assert decide(rules, "git diff", project).behavior == "ask"


def test_a_git_timeout_makes_the_command_ask(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restricted_files, "_SECONDS", 0.0)
    assert "git took too long" in decide(policy("Read(./.env)"), "git diff", project).reason


def test_looking_for_tracked_files_runs_nothing_that_the_repository_names(project: Path) -> None:
    witness = project.parent / "witness"
    program = project / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {witness}\n")
    program.chmod(0o755)
    for key in ("core.fsmonitor", "core.pager", "diff.external", "gpg.program", "core.sshCommand", "core.editor"):
        git(project, "config", key, str(program))
    git(project, "config", "log.showSignature", "true")
    git(project, "config", "extensions.partialClone", "origin")
    git(project, "config", "remote.origin.url", str(project))
    git(project, "config", "remote.origin.promisor", "true")
    git(project, "config", "remote.origin.uploadpack", str(program))
    decide(policy("Read(./.env)"), "git log -p", project)
    assert not witness.exists()


# ----------------------------------------------------------------------------------------------------- private files


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "plan", "bypassPermissions"])
def test_no_tool_touches_the_file_with_the_keys_in_any_mode(mode: str, project: Path) -> None:
    keys = project / "state" / "keys.json"
    keys.parent.mkdir()
    keys.touch()
    (project / "link").symlink_to(keys)
    rules = replace(Policy(allow=parse_rules(["Read", "Edit", "Bash"])), private=(str(keys),))
    rules = rules.with_mode(type(rules.mode)(mode))
    for path in (keys, project / "link"):
        for kind, tool in (("read", "Read"), ("write", "Edit")):
            decision = rules.decide(tool, {}, [Need(kind, str(path))], project, [project])  # type: ignore[arg-type]
            assert (decision.behavior, decision.reason) == ("deny", "denied: agentcli keeps API keys there")
        assert decide(rules, f"cat {path.relative_to(project)}", project).behavior == "deny"
    assert rules.hides(str(keys), project, [project])


def test_the_programs_own_settings_are_protected_from_accepted_edits(project: Path) -> None:
    own = project / ".config" / "agentcli"
    (own / "results").mkdir(parents=True)
    rules = Policy(PermissionMode.ACCEPT_EDITS, own_folders=(str(own),), readable=(own / "results",))
    target = own / "settings.json"
    assert rules.decide("Write", {}, [Need("write", str(target))], project, [project]).behavior == "ask"
    for command in (
        "echo x > .config/agentcli/settings.json",
        "cp README.md .config/agentcli/x",
        "touch .config/agentcli/x",
    ):
        assert decide(rules, command, project).behavior == "ask"
    assert decide(rules, "cat .config/agentcli/results/x", project).behavior == "allow"
    assert decide(rules, "touch .config/other", project).behavior == "allow"


def test_a_private_file_elsewhere_makes_no_search_ask(project: Path) -> None:
    rules = replace(Policy(), private=(str(project.parent / "keys.json"),))
    for command in (*NEVER_SHOW_ENV, "grep -r x .", "git diff", "git log -p", "rg -uu x"):
        assert decide(rules, command, project).behavior == decide(Policy(), command, project).behavior


def test_a_private_file_inside_asks_before_a_search_unless_the_sandbox_hides_it(project: Path) -> None:
    (project / "keys.json").touch()
    rules = replace(Policy(), private=(str(project / "keys.json"),))
    assert decide(rules, "grep -r x .", project).behavior == "ask"
    assert decide(replace(rules, hidden_from_commands=lambda _: True), "grep -r x .", project).behavior == "allow"
