"""The strict and the loose walk over commands."""

from __future__ import annotations

import pytest
import tree_sitter

from agentcli.core.text.plaintext import has_control_characters
from agentcli.permissions.rules import parse_rule
from agentcli.shell.parser import syntax_tree
from agentcli.shell.parser.loose_parser import loose_segments, loose_words
from agentcli.shell.parser.strict_parser import NotPlain, SimpleCommand, plain_commands
from tests.shell.shell_lines import NOT_PROVEN, READ_ONLY
from tests.support.tables import each_row


def parts_of(command: str) -> tuple[SimpleCommand, ...]:
    parts = plain_commands(command)
    assert not isinstance(parts, NotPlain), parts
    return parts


def test_parts_keep_their_words_and_their_text() -> None:
    parts = parts_of("git  commit -m 'a b' && ls|wc")
    assert [(part.words, part.text, part.joint, part.feeds) for part in parts] == [
        (("git", "commit", "-m", "a b"), "git commit -m 'a b'", "", False),
        (("ls",), "ls", "&&", True),
        (("wc",), "wc", "|", False),
    ]


@each_row(
    ("command", "words"),
    [
        ("echo 'a b'", ("echo", "a b")),
        ("echo a\"b\"'c'", ("echo", "abc")),
        ('echo "a\\"b\\$c\\.d"', ("echo", 'a"b$c\\.d')),
        ("echo a\\ b \\$x \\(", ("echo", "a b", "$x", "(")),
        ("echo --x='a b'", ("echo", "--x=a b")),
        ("git show stash@{0} @{u} HEAD~1 HEAD^", ("git", "show", "stash@{0}", "@{u}", "HEAD~1", "HEAD^")),
        ("find . ! -name x", ("find", ".", "!", "-name", "x")),
        ("echo a#b", ("echo", "a#b")),
        ("echo ''", ("echo", "")),
        ("[ ! -f 'a b' ]", ("[", "!", "-f", "a b", "]")),
        ("echo é日本", ("echo", "é日本")),
    ],
)
def test_words_are_split_like_the_shell_does(command: str, words: tuple[str, ...]) -> None:
    assert parts_of(command)[0].words == words


def test_redirections_are_separate_from_words() -> None:
    (part,) = parts_of("make -j4 >out.txt 2>&1 </dev/null")
    assert part.words == ("make", "-j4")
    assert [(r.kind, r.target) for r in part.redirections] == [
        ("write", "out.txt"),
        ("harmless", "1"),
        ("harmless", "/dev/null"),
    ]


def test_a_redirection_after_a_list_belongs_to_its_last_command() -> None:
    first, second = parts_of("cd src && echo x > out")
    assert first.redirections == ()
    assert second.redirections[0].target == "out"


def test_assignments_are_separate_from_words() -> None:
    (part,) = parts_of("A=1 B='x y' npm test")
    assert part.assignments == (("A", "1"), ("B", "x y"))
    assert part.text == "npm test"


def test_patterns_are_marked() -> None:
    (part,) = parts_of("ls '*.py' *.txt a[1] \\*")
    assert part.globs == {2, 3}


@each_row(
    "command",
    [
        'echo "$(rm x)"',
        "/bin/rm x",
        "$'\\x72m' x",
        "{rm,x}",
        "a=rm; $a x",
        "for i in 1; do rm x; done",
        "ls | xargs -0 rm x",
        "bash <<'EOF'\nrm x\nEOF",
        "echo 'rm x' | sh",
        "A=1 rm x",
        "(" * 100 + "rm x" + ")" * 100,
        "ls; " * 3_000 + "rm x",
        "true && " * 200 + "rm x",
        "echo " + "a" * 30_000 + "; rm x",
    ],
)
def test_a_deny_rule_matches_a_command_in_any_wrapper(command: str) -> None:
    assert parse_rule("Bash(rm *)").matches_somewhere(command)


@each_row(
    "command",
    [
        "npm run format",
        "git rm-something",
        "printf '%s' 'rm x' > notes.txt",
    ],
)
def test_a_deny_rule_does_not_mistake_text_for_a_command(command: str) -> None:
    assert not parse_rule("Bash(rm *)").matches_somewhere(command)


def test_a_program_that_never_runs_its_arguments_is_still_seen_itself() -> None:
    assert parse_rule("Bash(git commit *)").matches_somewhere("ls && git commit -m 'x'")
    assert parse_rule("Bash(git commit --no-verify *)").matches_somewhere("git commit --no-verify -m x")
    assert parse_rule("Bash(cat secret*)").matches_somewhere("cat 'secret.txt'")
    assert not any(segment.anywhere for segment in loose_segments("grep a b"))


def test_loose_words_see_redirected_attached_and_revision_paths() -> None:
    for command in ("cat < .env", "git show HEAD:.env", "tar --file=.env", "cat '.env'", "cat .e''nv", "cat $'.env'"):
        assert ".env" in loose_words(command), command


def test_tabs_and_line_feeds_are_no_control_characters() -> None:
    assert not has_control_characters("a\tb\nc")
    assert has_control_characters("a\x9bb")


def test_all_readings_of_a_command_share_one_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def counted(language: tree_sitter.Language) -> tree_sitter.Parser:
        made.append(language)
        return parser(language)

    parser = tree_sitter.Parser
    monkeypatch.setattr(tree_sitter, "Parser", counted)
    command = "true read by three parsers"
    assert plain_commands(command)
    assert loose_words(command)
    assert loose_segments(command)
    assert len(made) == 1


def test_a_command_that_took_too_long_to_parse_is_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    command = "true" + " parsed on a busy machine" * 40
    with monkeypatch.context() as busy:
        busy.setattr(syntax_tree, "_CPU_SECONDS", -1.0)
        assert syntax_tree.parse(command) == "it is too complex to check"
    assert not isinstance(syntax_tree.parse(command), syntax_tree.Unparsable)


def test_a_command_has_the_same_tree_whether_it_is_parsed_in_pieces_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line for line in (*READ_ONLY[::5], *NOT_PROVEN[::5]) if len(line) < 1_000]
    for command in (*lines, "echo é 'ü' \"$(ls)\"", "cat <<x\n$a\nx\n", "if", "a" * 499):
        whole = syntax_tree._tree.__wrapped__(command.encode())
        with monkeypatch.context() as pieces:
            pieces.setattr(syntax_tree, "_SHORT", 0)
            other = syntax_tree._tree.__wrapped__(command.encode())
        assert str(whole) == str(other), command
        texts = [[syntax_tree.text_of(node) for node in syntax_tree.descendants(root)] for root in (whole, other)]
        assert texts[0] == texts[1], command
