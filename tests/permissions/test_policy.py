from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.core.permission import Need, PermissionMode
from agentcli.permissions.policy import Policy
from tests.permissions.deciding import bash, policy, read, write
from tests.support.tables import each_row

MODES = list(PermissionMode)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("a")
    (tmp_path / "outside.txt").write_text("o")
    return folder


# ------------------------------------------------------------------------------------------------------- modes


@each_row(
    ("mode", "behavior"),
    [
        ("default", "ask"),
        ("acceptEdits", "allow"),
        ("plan", "deny"),
        ("dontAsk", "deny"),
        ("bypassPermissions", "allow"),
    ],
)
def test_writing_in_the_project_by_mode(mode: str, behavior: str, project: Path) -> None:
    assert write(policy(PermissionMode(mode)), project / "a.py", project).behavior == behavior


@each_row(
    ("mode", "behavior"),
    [("default", "ask"), ("acceptEdits", "ask"), ("plan", "deny"), ("dontAsk", "deny"), ("bypassPermissions", "allow")],
)
def test_writing_outside_by_mode(mode: str, behavior: str, project: Path) -> None:
    assert write(policy(PermissionMode(mode)), project.parent / "outside.txt", project).behavior == behavior


@each_row(
    ("mode", "behavior"),
    [("default", "ask"), ("acceptEdits", "ask"), ("plan", "deny"), ("dontAsk", "deny"), ("bypassPermissions", "allow")],
)
@each_row("command", ["npm test", "ls > ../x", "echo $(touch x)", "cd / && ls"])
def test_commands_that_are_not_read_only_by_mode(mode: str, behavior: str, command: str, project: Path) -> None:
    assert bash(policy(PermissionMode(mode)), command, project).behavior == behavior


@each_row("mode", MODES)
def test_reading_in_the_project_is_allowed_in_every_mode(mode: PermissionMode, project: Path) -> None:
    assert read(policy(mode), project / "a.py", project).behavior == "allow"
    assert bash(policy(mode), "cat a.py | head -5", project).behavior == "allow"


@each_row("mode", MODES)
def test_a_call_without_needs_is_allowed_in_every_mode(mode: PermissionMode, project: Path) -> None:
    assert policy(mode).decide("StructuredOutput", {}, [], project, [project]).behavior == "allow"


@each_row(("mode", "behavior"), [("default", "ask"), ("acceptEdits", "ask"), ("plan", "deny"), ("dontAsk", "deny")])
def test_a_third_party_tool_needs_approval(mode: str, behavior: str, project: Path) -> None:
    decision = policy(PermissionMode(mode)).decide("custom", {}, [Need("other", "custom")], project, [project])
    assert decision.behavior == behavior


def test_plan_mode_overrides_allow_rules(project: Path) -> None:
    assert bash(policy(PermissionMode.PLAN, allow="Bash"), "npm test", project).behavior == "deny"


# --------------------------------------------------------------------------------------------------- precedence


def test_deny_beats_ask_beats_allow_and_the_reason_names_the_rule(project: Path) -> None:
    everything = policy(allow="Bash", ask="Bash(npm *)", deny="Bash(npm publish *)")
    denied = bash(everything, "npm publish", project)
    assert (denied.behavior, denied.reason) == ("deny", "denied by rule Bash(npm publish *) from settings.json")
    assert (denied.rule, denied.source) == ("Bash(npm publish *)", "settings.json")
    assert bash(everything, "npm test", project).behavior == "ask"
    allowed = bash(everything, "make", project)
    assert (allowed.behavior, allowed.reason) == ("allow", "allowed by rule Bash from flags")


@each_row("mode", MODES)
def test_deny_rules_apply_in_every_mode(mode: PermissionMode, project: Path) -> None:
    assert bash(policy(mode, deny="Bash(rm *)"), "ls && rm a.py", project).behavior == "deny"
    assert read(policy(mode, deny="Read(.env)"), project / ".env", project).behavior == "deny"
    assert write(policy(mode, deny="Edit(.env)"), project / ".env", project).behavior == "deny"


def test_ask_rules_apply_in_bypass_mode(project: Path) -> None:
    assert bash(policy(PermissionMode.BYPASS, ask="Bash(git push *)"), "git push", project).behavior == "ask"


def test_dont_ask_mode_runs_only_allowed_calls(project: Path) -> None:
    careful = policy(PermissionMode.DONT_ASK, allow="Bash(npm test *)")
    assert bash(careful, "npm test unit", project).behavior == "allow"
    assert bash(careful, "npm publish", project).behavior == "deny"


# ------------------------------------------------------------------------------------------------------ commands


def test_each_part_of_a_command_must_be_allowed_on_its_own(project: Path) -> None:
    rules = policy(allow="Bash(npm test *)")
    assert bash(rules, "npm test && ls", project).behavior == "allow"
    assert bash(rules, "npm test 2>&1 | tail -5", project).behavior == "allow"
    assert bash(rules, "npm test && npm publish", project).behavior == "ask"
    assert bash(rules, "npm test | sh", project).behavior == "ask"


@each_row(
    "command",
    [
        *("npm test $(rm x)", "npm test `rm x`", "npm test > out", "npm test & rm x", "npm test\nrm x"),
        *("A=1 npm test", "npm test <(rm x)", "npm test; (rm x)", 'npm test "$(rm x)"', "npm test || { rm x; }"),
    ],
)
def test_an_unparsable_command_never_matches_an_allow_rule(command: str, project: Path) -> None:
    assert bash(policy(allow="Bash(npm test *)"), command, project).behavior == "ask"


@each_row("mode", MODES)
def test_control_characters_in_a_command_are_refused(mode: PermissionMode, project: Path) -> None:
    assert bash(policy(mode, allow="Bash"), "ls \x1b[2K", project).behavior == "deny"


@each_row("mode", [PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS, PermissionMode.BYPASS])
@each_row(
    "command",
    [
        *("rm -rf /", "rm -rf /*", "rm -rf ~", "rm -rf ~/", "rm -rf $HOME", "rm -rf ${HOME}", 'rm -rf "$HOME"/*'),
        *("rm -rf .", "rm -rf *", "rm -rf ./*", "rm -rf ..", "rm -rf ../..", "sudo rm -rf /", "ls && /bin/rm -rf /"),
        *("cd / && rm -rf *", "find / -delete", "find . -delete", "find . -type f -exec rm {} +"),
        *("bash -c 'rm -rf /'", "rm -rf /home", "rm -rf $PWD", "rmdir /", "rm -rf //", "rm -rf //home"),
        *("rm -rf ///*", "rm -rf $(pwd)", 'rm -rf "$(pwd)"', "rm -rf `pwd`", "rm -rf ?*", "rm -rf [a-z]*"),
        *("rm -rf ./[!.]*", "rm -rf */", "rm -rf /hom*", "rm -rf {*,.*}", 'find . -name "*" -delete'),
        *("find . -path './*' -delete", "find . ! -name x -delete", "find . -execdir rm {} +", "rm -rf ~root"),
        *("rm -rf ~+", "rm -rf $OLDPWD", "rm -rf ${OLDPWD}/x", "rm -rf ${x:-/}", "rm -rf ${PWD%/*}/project"),
        *("d=$(pwd); rm -rf $d", "d=/; rm -rf $d", "echo / | xargs rm -rf", "find . | xargs rm -rf"),
        "cat list | xargs -n1 rm",
    ],
)
def test_removing_everything_asks_even_in_bypass_mode(mode: PermissionMode, command: str, project: Path) -> None:
    assert bash(policy(mode, allow="Bash"), command, project).behavior == "ask"


@each_row(
    "command",
    [
        *("rm a.py", "rm -rf ./dist/*", "find . -name '*.pyc' -delete", "rm *.log", "d=build; rm -rf $d/x"),
        *("rm $HOME/x/y", "find . -name '*.pyc' | xargs rm", "git commit -m 'rm $x'", "rm -rf build && echo $(date)"),
    ],
)
def test_ordinary_removal_is_not_asked_about_in_bypass(command: str, project: Path) -> None:
    assert bash(policy(PermissionMode.BYPASS), command, project).behavior == "allow"


def test_two_slashes_at_the_front_hide_nothing(project: Path) -> None:
    assert bash(policy(PermissionMode.BYPASS), f"rm -rf /{project}", project).behavior == "ask"


def test_removing_the_project_from_a_folder_in_it_asks(project: Path) -> None:
    (project / "sub").mkdir()
    assert bash(policy(PermissionMode.BYPASS), f"rm -rf {project}", project, cwd=project / "sub").behavior == "ask"


@each_row(
    "command",
    [
        *("{r,}m x", "z=; r${z}m x", "a=r b=m; $a$b x", "alias x=rm", "command r? x", 'bash -c "$a x"'),
        *("busybox r? x", "find . -name a -exec /bin/r? {} +", "ls | xargs r?"),
    ],
)
def test_with_deny_rules_an_unknown_program_name_needs_approval(command: str, project: Path) -> None:
    assert bash(policy(PermissionMode.BYPASS), command, project).behavior == "allow"
    assert bash(policy(PermissionMode.BYPASS, deny="Bash(rm *)"), command, project).behavior in ("ask", "deny")
    assert bash(policy(allow="Bash", deny="Bash(rm *)"), command, project).behavior in ("ask", "deny")
    assert bash(policy(PermissionMode.PLAN, deny="Bash(rm *)"), command, project).behavior == "deny"


@each_row(
    "command",
    [
        *("ls $HOME", "echo {a,b}", "[ -f x ] && make", "for i in *; do echo $i; done", "bash run.sh", "./x.sh"),
        *("find . -name '*.py' -exec grep x {} +", "ls | xargs -I{} cp {} x"),
    ],
)
def test_while_rules_deny_commands_plain_names_need_no_question(command: str, project: Path) -> None:
    assert bash(policy(PermissionMode.BYPASS, deny="Bash(rm *)"), command, project).behavior == "allow"


@each_row("command", ["find . " + "a " * 50_000, "rm " * 8_000, "find " * 8_000, "/x " * 8_000])
def test_a_very_long_command_asks_without_being_analysed(command: str, project: Path) -> None:
    assert bash(policy(), command, project).behavior == "ask"
    assert bash(policy(allow="Bash"), command, project).behavior == "ask"
    assert bash(policy(PermissionMode.PLAN), command, project).behavior == "deny"
    assert bash(policy(PermissionMode.BYPASS, deny="Bash(mv *)"), command, project).behavior == "ask"
    assert bash(policy(PermissionMode.BYPASS, deny="Bash"), command, project).behavior == "deny"
    assert bash(policy(PermissionMode.BYPASS), command, project).behavior == "allow"


def test_a_long_command_does_not_hide_what_it_removes(project: Path) -> None:
    assert bash(policy(PermissionMode.BYPASS), "echo " + "a " * 20_000 + "; rm -rf /", project).behavior == "ask"


# --------------------------------------------------------------------------------------------------------- paths


def test_the_question_names_the_target_of_a_link(project: Path) -> None:
    outside = project.parent / "outside.txt"
    (project / "lo").symlink_to(outside)
    wanted = f"Needs approval: {project}/lo leads to {outside}, which is outside the working directories"
    assert read(policy(), project / "lo", project).reason == wanted
    stated = [Need("read", str(project / "lo"), str(outside))]
    assert policy().decide("Read", {}, stated, project, [project]).reason == wanted
    assert read(policy(), outside, project).reason == f"Needs approval: {outside} is outside the working directories"
    assert write(policy(), project / "lo", project).reason == wanted


def test_a_read_only_command_may_not_name_files_outside(project: Path) -> None:
    assert bash(policy(), f"cat {project.parent}/outside.txt", project).behavior == "ask"
    assert bash(policy(), "cat ../outside.txt", project).behavior == "ask"
    (project / "link").symlink_to(project.parent / "outside.txt")
    assert bash(policy(), "cat link", project).behavior == "ask"
    assert bash(policy(), "rg '/api/v1' a.py", project).behavior == "allow"


def test_reading_through_a_link_that_leads_out_asks(project: Path) -> None:
    (project / "link").symlink_to(project.parent / "outside.txt")
    assert read(policy(), project / "link", project).behavior == "ask"
    assert write(policy(PermissionMode.ACCEPT_EDITS), project / "link", project).behavior == "ask"


def test_a_missing_file_is_resolved_through_its_folder(project: Path) -> None:
    (project / "out").symlink_to(project.parent)
    assert write(policy(PermissionMode.ACCEPT_EDITS), project / "out" / "new.py", project).behavior == "ask"
    assert write(policy(PermissionMode.ACCEPT_EDITS), project / "new" / "deep.py", project).behavior == "allow"


def test_a_folder_with_a_longer_name_is_not_inside(project: Path) -> None:
    assert read(policy(), f"{project}-other/a", project).behavior == "ask"


def test_stored_results_are_readable_without_asking(project: Path) -> None:
    results = project.parent / "results"
    results.mkdir()
    allowed = Policy(readable=(results,))
    assert read(allowed, results / "bash-1.txt", project).behavior == "allow"
    assert write(allowed, results / "bash-1.txt", project).behavior == "ask"


@each_row("mode", [PermissionMode.DEFAULT, PermissionMode.ACCEPT_EDITS])
@each_row("name", [".git/config", ".agentcli/settings.json", ".mcp.json", ".vscode/tasks.json", ".envrc"])
def test_protected_paths_ask_also_when_a_rule_allows(mode: PermissionMode, name: str, project: Path) -> None:
    assert write(policy(mode, allow="Edit"), project / name, project).behavior == "ask"
    assert bash(policy(mode, allow="Bash"), f"cp a.py {name}", project).behavior == "ask"
    assert write(policy(PermissionMode.BYPASS), project / name, project).behavior == "allow"


def test_a_protected_path_behind_a_link_asks(project: Path) -> None:
    (project / ".git").mkdir()
    (project / "innocent").symlink_to(project / ".git")
    assert write(policy(PermissionMode.ACCEPT_EDITS), project / "innocent" / "config", project).behavior == "ask"


@each_row(
    "command", ["cat .env", "cat < .env", "cat ./.env", "cp .env x", "git show HEAD:.env", "cat '.env'", "cat sub/.env"]
)
def test_file_rules_bind_the_shell_where_its_text_names_the_file(command: str, project: Path) -> None:
    assert bash(policy(allow="Bash", deny="Read(.env)"), command, project).behavior == "deny"


def test_recursive_searches_ask_while_there_are_hidden_files(project: Path) -> None:
    assert bash(policy(), "grep -rn x .", project).behavior == "allow"
    assert bash(policy(deny="Read(.env)"), "grep -rn x .", project).behavior == "allow"
    (project / ".env").touch()
    assert bash(policy(), "grep -rn x .", project).behavior == "allow"
    assert bash(policy(deny="Read(.env)"), "grep -rn x .", project).behavior == "ask"
    assert bash(policy(deny="Read(.env)"), "cat a.py", project).behavior == "allow"


def test_deny_patterns_apply_after_a_changed_working_directory(project: Path) -> None:
    (project / "sub").mkdir()
    rules = policy(deny="Read(.env)")
    decision = rules.decide("Read", {}, [Need("read", str(project / ".env"))], project / "sub", [project])
    assert decision.behavior == "deny"


def test_path_rules_allow_beyond_the_project(project: Path) -> None:
    outside = project.parent / "outside.txt"
    assert read(policy(allow=f"Read(/{outside})"), outside, project).behavior == "allow"
    assert write(policy(allow=f"Read(/{outside})"), outside, project).behavior == "ask"
    assert write(policy(allow=f"Edit(/{outside})"), outside, project).behavior == "allow"
    assert read(policy(allow=f"Edit(/{outside})"), outside, project).behavior == "allow"


def test_a_rule_for_the_whole_tool_matches_that_tool_only(project: Path) -> None:
    decision = policy(allow="Edit").decide("Write", {}, [Need("write", str(project / "x"))], project, [project])
    assert decision.behavior == "ask"


# --------------------------------------------------------------------------------------------------- suggestions


def suggested(policy: Policy, command: str, project: Path) -> list[str]:
    return policy.suggest("Bash", [Need("execute", command)], project, [project]).exact()


@each_row(
    ("command", "expected"),
    [
        ("npm run build", ["Bash(npm run build)"]),
        ("npm test -- --watch=false", ["Bash(npm test -- --watch=false)"]),
        ("timeout 60 pytest -q", ["Bash(pytest -q)"]),
        ("git push origin main", ["Bash(git push origin main)"]),
        ("git add a.py && git commit -m 'x y'", ["Bash(git add a.py)", "Bash(git commit -m 'x y')"]),
        ("ls && make test", ["Bash(make test)"]),
        ("python x.py", ["Bash(python x.py)"]),
        ("bash run.sh", ["Bash(bash run.sh)"]),
        ("rm -rf build", ["Bash(rm -rf build)"]),
        ("sudo ls", ["Bash(sudo ls)"]),
        ("curl https://example.com", ["Bash(curl https://example.com)"]),
        ("cd /somewhere && npm test", ["Bash(cd /somewhere)", "Bash(npm test)"]),
        ("echo $(touch x)", []),
        ("FOO=1 npm test", []),
        ("rm -rf /", []),
        ("cp a.py .git/x", []),
    ],
)
def test_one_narrow_rule_is_suggested_for_each_part(command: str, expected: list[str], project: Path) -> None:
    assert suggested(policy(), command, project) == expected


@each_row(
    ("asked", "wider"),
    [
        ("git fetch", "git fetch --upload-pack=./evil origin"),
        ("git pull", "git pull --upload-pack=./evil origin"),
        ("git push", "git push --receive-pack=./evil origin"),
        ("git clone https://example.com/x", "git clone https://example.com/x -c core.hooksPath=evil"),
        ("git commit -m x", "git commit -m x --no-verify"),
        ("git add .", "git add . -f .env"),
        ("make test", "make test -f evil.mk"),
        ("go vet", "go vet -vettool=./evil"),
        ("go test", "go test -exec ./evil"),
        ("cargo build", "cargo build --config evil.toml"),
        ("npm test", "npm test --script-shell=./evil"),
        ("npm run build", "npm run build --prefix evil"),
        ("pytest", "pytest -p evil"),
        ("mypy", "mypy --python-executable ./evil"),
        ("eslint", "eslint --config evil.js"),
        ("gradle test", "gradle test -I evil.gradle"),
        ("uv sync", "uv sync --index-url https://evil.example"),
    ],
)
def test_an_answer_allows_no_further_arguments(asked: str, wider: str, project: Path) -> None:
    start = policy()
    allowed = start.with_allowed(suggested(start, asked, project), "this session")
    assert bash(allowed, asked, project).behavior == "allow"
    assert bash(allowed, wider, project).behavior == "ask"


def test_a_redirection_is_suggested_as_an_edit_of_its_target(project: Path) -> None:
    assert suggested(policy(), "make > out.txt", project) == ["Bash(make)", f"Edit(/{project}/out.txt)"]


def test_nothing_is_suggested_for_parts_that_are_allowed_already(project: Path) -> None:
    assert suggested(policy(allow="Bash(npm test *)"), "npm test && npm publish", project) == ["Bash(npm publish)"]


@each_row(
    "command",
    [
        *("npm run build", "git push origin main 2>&1", "ls && make test", "echo 'a(b)c' > /dev/null; tsc -p x"),
        *("cd sub && npm test | tail -5", "cat ../outside.txt", "find . -name x | xargs rm", "make > log/out.txt"),
    ],
)
def test_suggested_rules_allow_the_call(command: str, project: Path) -> None:
    start = policy()
    assert bash(start, command, project).behavior == "ask"
    rules = suggested(start, command, project)
    assert rules
    assert bash(start.with_allowed(rules, "this session"), command, project).behavior == "allow"


def test_a_suggested_path_rule_allows_the_call(project: Path) -> None:
    for name in ("new.py", "we[i]rd*.py", "(x).py"):
        needs = [Need("write", str(project / name))]
        rules = policy().suggest("Edit", needs, project, [project]).exact()
        assert rules
        allowed = policy().with_allowed(rules, "this session")
        assert allowed.decide("Edit", {}, needs, project, [project]).behavior == "allow"


def test_a_tool_denied_altogether_is_known_beforehand() -> None:
    assert policy(deny="Bash").refuses_always("Bash")
    assert not policy(deny="Bash(rm *)").refuses_always("Bash")


def test_searches_skip_files_hidden_by_deny_rules(project: Path) -> None:
    rules = policy(deny="Read(.env)")
    assert rules.hides_anything
    assert rules.hides(str(project / "sub" / ".env"), project, [project])
    assert not rules.hides(str(project / "a.py"), project, [project])
    assert not policy(deny="Bash(rm *)").hides_anything


def test_a_project_below_a_protected_name_is_a_project_like_any_other(tmp_path: Path) -> None:
    project = tmp_path / ".claude" / "worktrees" / "one"
    project.mkdir(parents=True)
    assert write(policy(PermissionMode.ACCEPT_EDITS), project / "a.py", project).behavior == "allow"
    assert write(policy(PermissionMode.ACCEPT_EDITS), project / ".git" / "config", project).behavior == "ask"


@pytest.mark.parametrize(
    "name",
    [
        *(".npmrc", ".githooks/pre-commit", "node_modules/.bin/tsc", ".venv/bin/python", "x.pth"),
        *(".github/workflows/ci.yml", ".Rprofile", "opencode.json", ".lintstagedrc.json", ".kilocode/mcp.json"),
    ],
)
def test_accept_edits_mode_asks_for_files_that_package_managers_hooks_and_builds_obey(project: Path, name: str) -> None:
    editing = policy(PermissionMode.ACCEPT_EDITS)
    assert write(editing, project / name, project).behavior == "ask"
    assert bash(editing, f"touch {name}", project).behavior == "ask"
    assert bash(editing, f"echo x > {name}", project).behavior == "ask"


def test_a_rule_for_a_program_of_the_project_still_allows_it(project: Path) -> None:
    running = policy(PermissionMode.DEFAULT, allow="Bash(.venv/bin/pytest *)")
    assert bash(running, ".venv/bin/pytest -q", project).behavior == "allow"


@each_row("command", ["cat \x00", "cat \ud800", "cat " + "x" * 5000, "", "   ", ";;;", "'"])
def test_no_command_makes_the_decision_fail(command: str, project: Path) -> None:
    for rules in (policy(), policy(deny="Read(.env)"), policy(allow="Bash(x *)")):
        assert bash(rules, command, project).behavior in ("ask", "deny", "allow")
