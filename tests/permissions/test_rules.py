from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.core.errors import UsageError
from agentcli.permissions.rules import parse_rule
from agentcli.shell.parser.syntax_tree import MAX_VALUES
from agentcli.shell.paths import PathPattern, is_protected
from tests.support.tables import each_row, grouped


@each_row("text", ["", "Bash(", "Bash(x", "two words(x)", "Bash)x("])
def test_an_invalid_rule_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="Not a permission rule"):
        parse_rule(text, "--allowedTools")


def test_a_rule_knows_where_it_came_from() -> None:
    rule = parse_rule(" Bash(npm test) ", "settings.json")
    assert (rule.tool, rule.spec, rule.source, rule.text) == ("Bash", "npm test", "settings.json", "Bash(npm test)")


@pytest.mark.parametrize("text", ["Bash", "Bash()", "Bash(*)"])
def test_an_empty_or_starred_spec_is_the_whole_tool(text: str) -> None:
    assert parse_rule(text).spec is None


@each_row(
    ("rule", "tool", "matches"),
    [
        ("Bash", "Bash", True),
        ("Bash", "BashOutput", False),
        ("mcp__files", "mcp__files__read", True),
        ("mcp__files", "mcp__files2__read", False),
        ("mcp__files__*", "mcp__files__read", True),
        ("mcp__files__read", "mcp__files__write", False),
        ("mcp__files__get_*", "mcp__files__get_one", True),
        ("mcp__files__get_*", "mcp__files__set_one", False),
        ("mcp__files__*_one", "mcp__files__get_one", True),
        ("mcp__files__*_one", "mcp__files__get_two", False),
        ("mcp__files__*_one", "mcp__other__get_one", False),
        ("mcp__*", "mcp__files__read", True),
        ("*", "Anything", True),
    ],
)
def test_tool_names(rule: str, tool: str, matches: bool) -> None:
    assert parse_rule(rule).names(tool) is matches


def test_a_rule_for_an_mcp_tool_takes_no_argument() -> None:
    """It would match no call, so that a deny rule of that form would protect nothing."""
    with pytest.raises(UsageError, match="Write mcp__files__read without parentheses"):
        parse_rule("mcp__files__read(*.txt)")
    assert parse_rule("mcp__files__read(*)").spec is None


@each_row(
    ("spec", "command", "matches"),
    [
        ("npm run test *", "npm run test", True),
        ("npm run test *", "npm run test unit", True),
        ("npm run test *", "npm run tests", False),
        ("npm run test:*", "npm run test unit", True),
        ("npm run test:*", "npm run test:unit", False),
        ("npm test", "npm test", True),
        ("npm test", "npm  test", True),
        ("npm test", "npm test --watch", False),
        ("npm*", "npmx", True),
        ("git * main", "git push origin main", True),
        ("git * main", "git push origin other", False),
        ("* --version", "node --version", True),
    ],
)
def test_command_prefixes_end_at_a_word(spec: str, command: str, matches: bool) -> None:
    assert parse_rule(f"Bash({spec})").matches_command(" ".join(command.split())) is matches


@each_row(
    "command",
    [
        *("/bin/rm -rf x", "bash -c 'rm -rf x'", "echo $(rm -rf x)", "find . -exec rm {} ;", "a=1 rm x"),
    ],
)
def test_a_deny_rule_sees_a_command_anywhere(command: str) -> None:
    assert parse_rule("Bash(rm *)").matches_somewhere(command)


def test_a_deny_rule_sees_every_value_of_a_loop_that_may_be_allowed() -> None:
    names = [f"f{number}" for number in range(MAX_VALUES)]
    command = f"for f in {' '.join(names)}; do mv $f x; done"
    assert [name for name in names if not parse_rule(f"Bash(mv {name} *)").matches_somewhere(command)] == []


def test_a_deny_rule_does_not_match_other_words() -> None:
    assert not parse_rule("Bash(rm *)").matches_somewhere("npm run format; ls rmdir.txt")


def test_a_hostile_command_does_not_take_long_to_match() -> None:
    command = "a " * 20_000
    assert not parse_rule("Bash(* x * y * z)").matches_somewhere(command)
    assert not parse_rule("Bash(rm *)").matches_somewhere(command)


@each_row(
    ("spec", "path", "matches"),
    [
        (".env", "/p/.env", True),
        (".env", "/p/sub/.env", True),
        (".env", "/p/.envx", False),
        (".env", "/other/.env", False),
        ("*.key", "/p/a/b.key", True),
        ("src/**", "/p/src/a/b.py", True),
        ("src/**", "/p/src", True),
        ("src", "/p/src/a.py", True),
        ("src/*.py", "/p/src/a.py", True),
        ("src/*.py", "/p/src/d/a.py", False),
        ("src/*.py", "/p/x/src/a.py", False),
        ("//etc/**", "/etc/passwd", True),
        ("//etc/**", "/p/etc/passwd", False),
        ("~/.ssh/**", "/home/u/.ssh/id", True),
        ("~/.ssh/**", "/p/.ssh/id", False),
        ("/docs/**", "/root-of-settings/docs/a", True),
        ("/docs/**", "/p/docs/a", False),
        ("./a.txt", "/p/a.txt", True),
        ("../x/*", "/x/y", True),
        ("**", "/p/any/thing", True),
        ("**", "/p", True),
    ],
)
def test_path_patterns(spec: str, path: str, matches: bool) -> None:
    pattern = PathPattern(spec, Path("/p"), Path("/root-of-settings"), Path("/home/u"))
    assert pattern.matches(path, strict=True) is matches
    assert pattern.matches(path, strict=False) is matches


def test_a_link_is_denied_by_either_side_and_allowed_by_both_only(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "link").symlink_to(tmp_path / "secret" / "key")
    link = str(tmp_path / "open" / "link")
    for spec in ("open/**", "secret/**"):
        pattern = PathPattern(spec, tmp_path, tmp_path)
        assert pattern.matches(link, strict=False)
        assert not pattern.matches(link, strict=True)


def test_a_missing_file_is_resolved_through_its_parents(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    assert PathPattern("real/**", tmp_path, tmp_path).matches(str(tmp_path / "alias" / "new"), strict=False)


def test_deny_patterns_ignore_case_and_allow_patterns_do_not() -> None:
    pattern = PathPattern(".env", Path("/p"), Path("/p"))
    assert pattern.matches("/p/.ENV", strict=False)
    assert not pattern.matches("/p/.ENV", strict=True)


@each_row(
    ("path", "protected"),
    grouped(
        {
            True: [
                *("/p/.git/config", "/p/.git", "/p/sub/.git/hooks/x", "/p/.GIT/config", "/p/.agentcli/settings.json"),
                *("/p/.claude/x", "/p/.mcp.json", "/home/u/.bashrc", "/p/.vscode/tasks.json", "/p/.idea/x"),
                *("/p/.husky/pre-commit", "/p/.envrc", "/p/.venv/bin/activate", "/p/venv/bin/activate.fish"),
                *("/p/.cursor/mcp.json", "/p/.devcontainer/devcontainer.json", "/p/.zed/tasks.json", "/p/sub/.npmrc"),
                *("/p/.yarnrc.yml", "/p/.pre-commit-config.yaml", "/p/lefthook.yml", "/p/.lefthook-local.toml"),
                *("/p/.cargo/config.toml", "/p/.Cargo/Config", "/p/.gemini/settings.json", "/p/.codex/config.toml"),
                *("/p/lib/x.pth", "/p/sitecustomize.py", "/p/node_modules/.bin/tsc", "/p/.venv/bin/python"),
                *("/p/env/Scripts/x.exe", "/p/.venv/lib/python3.11/site-packages/x.py", "/p/.github/workflows/ci.yml"),
                *("/p/.githooks/pre-commit", "/p/.gitlab-ci.yml", "/p/Jenkinsfile", "/p/.aider.conf.yml"),
            ],
            False: [
                *("/p/.gitignore", "/p/.env", "/p/activate.py", "/p/.cargo/other", "/p/node_modules/x/index.js"),
                *("/p/.github/CODEOWNERS", "/p/package.json", "/p/Makefile", "/p/bin/tool", "/p/src/a.py"),
            ],
        }
    ),
)
def test_protected_paths(path: str, protected: bool) -> None:
    assert is_protected(path) is protected
