"""What "always" offers: the prefix of a known program, then the exact command; never an interpreter on its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.core.permission import Need
from agentcli.permissions.policy import Policy
from agentcli.permissions.rules import parse_rules
from agentcli.shell.parser.programs import runs_input
from tests.support.tables import each_row


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".venv" / "bin").mkdir(parents=True)
    return folder


def choices(command: str, project: Path, policy: Policy | None = None) -> list[tuple[str, ...]]:
    found = (policy or Policy()).suggest("Bash", [Need("execute", command)], project, [project]).choices()
    return [choice.rules for choice in found]


def behavior(policy: Policy, command: str, project: Path) -> str:
    return policy.decide("Bash", {}, [Need("execute", command)], project, [project]).behavior


@each_row(
    ("command", "exact", "prefix"),
    [
        ("npm test", "npm test", "npm test *"),
        ("npm run lint -- src", "npm run lint -- src", "npm run lint *"),
        ("cargo test --all", "cargo test --all", "cargo test *"),
        ("cargo build", "cargo build", "cargo build *"),
        ("make -j4 test", "make -j4 test", "make *"),
        ("go test ./...", "go test ./...", "go test *"),
        ("git add src", "git add src", "git add *"),
        ("git commit -m 'x y'", "git commit -m 'x y'", "git commit *"),
        ("uv run pytest -q", "uv run pytest -q", "uv run pytest *"),
        ("./gradlew test", "./gradlew test", "./gradlew test *"),
        ("mvn test", "mvn test", "mvn test *"),
        ("dotnet test", "dotnet test", "dotnet test *"),
        ("npx tsc --noEmit", "npx tsc --noEmit", "npx tsc *"),
        ("timeout 60 ruff check .", "ruff check .", "ruff *"),
    ],
)
def test_a_known_program_is_offered_with_any_arguments_first_and_exactly_second(
    command: str, exact: str, prefix: str, project: Path
) -> None:
    offered = choices(command, project)
    assert offered[:2] == [(f"Bash({prefix})",), (f"Bash({exact})",)]
    for rules in offered:
        assert behavior(Policy().with_allowed(rules, "answer"), command, project) == "allow"


@each_row(
    "command",
    [
        *("python x.py", "python3 -m http.server", "bash run.sh", "env FOO=1 x", "rm build", "ssh host ls"),
        *("find . -delete -name x", "sed -i s/a/b/ x", "awk -f x.awk", "git -c core.pager=sh log"),
        *("git push origin main", "git fetch", "npm run -s evil", "bun run ./x.ts", "xargs -a list rm"),
        *("uv run python x.py", "npx cowsay hi", "./make", "elsewhere/pytest"),
    ],
)
def test_everything_else_is_offered_exactly_or_not_at_all(command: str, project: Path) -> None:
    offered = choices(command, project)
    assert len(offered) <= 1
    assert all("*" not in rule for rules in offered for rule in rules)


@pytest.mark.parametrize(
    "command",
    [
        *("echo 'print(1)' | python3", "cat x | python3 -", "cat x | bash", "cat x | bash -s -- -y", "cat x | sh -x"),
        *("echo x | node", "cat x | sudo sh", "cat x | env python3", "cat x | ssh host"),
        *("cat x | docker exec -i box sh", "cat x | uv run python", "cat x | /usr/bin/perl -w", "cat x | make -f -"),
        *("cat x | sqlite3 x.db", "cat x | sqlite3 -header -separator , x.db", "cat x | psql -U me db"),
        *("cat x | mysql db", "cat x | ed x", "cat x | gdb ./a.out", "cat x | busybox sh", "cat x | flock x sh"),
        *("cat x | strace -f bash", "python3", "bash -i"),
    ],
)
def test_an_interpreter_that_runs_its_input_has_no_exact_rule(command: str, project: Path) -> None:
    (project / "x").touch()
    assert choices(command, project) == []
    last = command.rpartition("| ")[2]
    assert behavior(Policy(allow=parse_rules([f"Bash({last})"])), command, project) == "ask"
    if last.startswith(("python3", "bash", "sh", "node")):
        wild = f"Bash({last.split()[0]} *)"
        assert behavior(Policy(allow=parse_rules([wild])), command, project) == "allow"


@each_row(
    "command",
    [
        *("python3 x.py", "bash run.sh", "sh -c ls", "python3 -m pytest", "node -e 1", "ssh host ls", "make test"),
        *("sqlite3 x.db .tables", "psql -c x db", "mysql -e x", "gdb -batch -ex run a", "busybox ls", "strace ls"),
    ],
)
def test_a_program_with_its_arguments_does_not_run_its_input(command: str) -> None:
    assert not runs_input(tuple(command.split()))


def test_a_pattern_among_the_arguments_leaves_only_the_prefix(project: Path) -> None:
    assert choices("pytest tests/*.py", project)[0] == ("Bash(pytest *)",)


def test_each_part_of_a_command_gets_its_own_rule(project: Path) -> None:
    offered = choices("npm test && python x.py", project)
    assert offered == [
        ("Bash(npm test *)", "Bash(python x.py)"),
        ("Bash(npm test)", "Bash(python x.py)"),
    ]


@each_row(
    ("command", "covers"),
    [
        ("pytest -q", "pytest with any arguments"),
        ("npm test && pytest -q", "npm test with any arguments; pytest with any arguments"),
        ("npm test && python x.py", "npm test with any arguments; exactly python x.py"),
    ],
)
def test_the_coverage_names_every_rule_of_the_choice(command: str, covers: str, project: Path) -> None:
    assert Policy().suggest("Bash", [Need("execute", command)], project, [project]).choices()[0].covers == covers


def test_other_tools_describe_the_coverage_of_their_rule(project: Path) -> None:
    fetch = Policy().suggest("WebFetch", [Need("fetch", "https://docs.example.com/a")], project, [project]).choices()
    assert [(choice.rules, choice.covers) for choice in fetch] == [
        (("WebFetch(domain:docs.example.com)",), "pages of docs.example.com")
    ]
    edit = Policy().suggest("Edit", [Need("write", str(project / "a.py"))], project, [project]).choices()
    assert edit[0].covers == f"edits of {project}/a.py"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("npm test -- -x", ["Bash(npm test *)"]),
        ("mytool --fast a b", ["Bash(mytool *)"]),
        ("python x.py", ["Bash(python x.py)"]),
        ("git push origin main", ["Bash(git push origin main)"]),
        ("curl https://example.com", ["Bash(curl https://example.com)"]),
        ("rm build.log", ["Bash(rm build.log)"]),
        ("cat x | python3", []),
        ("npm test > out.txt", ["Bash(npm test *)", "Edit(/{project}/out.txt)"]),
    ],
)
def test_a_refusal_names_the_narrowest_rule_for_such_calls(command: str, expected: list[str], project: Path) -> None:
    (project / "x").touch()
    found = Policy().suggest("Bash", [Need("execute", command)], project, [project]).prefix()
    assert found == [rule.format(project=project) for rule in expected]
