"""Loose parser: everything in a command that might be run, for deny and ask rules.

Unlike the strict parser it errs towards finding too much. It combines two readings: the text split wherever a command
can begin, once with quotes as blanks and once without quotes, which needs no grammar; and the syntax tree, which also
resolves `$'…'`, braces and variables set in the same command. The tree excludes comments, quoted here-documents, and
the arguments of programs that never run them (`echo`, `grep`, `git commit -m`); the latter two only if nothing else in
the command could be a shell.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from agentcli.core.frozen import frozen
from agentcli.core.text.patterns import lazy_pattern
from agentcli.shell.parser.syntax_tree import MAX_VALUES, Unparsable, descendants, parse, shorten_source, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_SEPARATORS = lazy_pattern(r"[;|&()<>`\n\r{}]+|\$\(")
_BRACES = lazy_pattern(r"\{[^{}]*,")
_RUNS_TEXT = lazy_pattern(
    r"(?:^|[^\w-])(?:(?:ba|da|z|k|c|tc|fi|a)?sh|eval|source|xargs|parallel|ssh|su|sudo|doas|watch|env|exec|trap|alias|awk|gawk"
    r"|mawk|perl|python[\d.]*|ruby|node|php|lua|tclsh|expect|script|screen|tmux|at|batch|crontab|find|fd|make|busybox"
    r"|nsenter|chroot|unshare|bwrap|docker|podman|git\s+-c|\.)(?:[^\w-]|$)"
)
"""Programs that may run code from arguments or input; with one of them, no argument counts as inert."""

_INERT = frozenset(
    "echo printf grep egrep fgrep rg cat ls head tail wc test [ stat file basename dirname which type diff cmp sort"  # noqa: SIM905
    " uniq cut tr jq mkdir touch true false : sleep date pwd sed pytest ruff mypy tsc eslint tree"
    " du df nl tac rev od column fold paste seq realpath readlink md5sum sha256sum read export set cd".split()
)
"""Programs that never run their arguments; `sed` only with scripts that cannot run programs."""
_INERT_GIT = frozenset(
    "commit log grep add show diff status tag blame branch stash rm mv checkout switch restore reset push pull fetch"  # noqa: SIM905
    " merge cherry-pick revert clean init remote ls-files rev-parse describe shortlog cat-file apply notes"
    " worktree reflog".split()
)


@frozen
class Segment:
    """Words separated by single blanks. `anywhere`: a command may begin at any of them, else only at the first."""

    text: str
    anywhere: bool = True


@functools.lru_cache(maxsize=128)
def loose_segments(command: str) -> tuple[Segment, ...]:
    root = parse(command)
    if isinstance(root, Unparsable):
        return tuple(dict.fromkeys(Segment(text) for text in _cut(command)))
    live = _without_comments(command, root)
    rest, inert = _without_inert(live, root)
    if _RUNS_TEXT.search(re.sub(r"['\"\\]", "", rest)):
        rest, inert = live.decode("utf-8", "replace"), {}
    found = [*inert.values(), *map(Segment, _cut(rest)), *map(Segment, _decode(root, frozenset(inert)))]
    return tuple(dict.fromkeys(found))


_PLAIN_NAME = lazy_pattern(r"[\w./+:@%,~=-]+|\[{1,2}|!")
_RUNS_ARGUMENTS = frozenset(
    {"eval", "command", "builtin", "exec", "env", "sudo", "doas", "nohup", "timeout", "nice", "time", "stdbuf", "xargs"}
    | {"sh", "bash", "dash", "zsh", "ksh", "su", "watch", "setsid", "parallel", "coproc", "busybox", "toybox"}
)


@functools.lru_cache(maxsize=128)
def unclear_program(command: str) -> str | None:
    """The first program name that is only known at run time, as written; rules cannot match it."""
    root = parse(command)
    if isinstance(root, Unparsable):
        return shorten_source(command)
    for node in descendants(root):
        if node.type != "command":
            continue
        name = node.child_by_field_name("name")
        if name is None:
            continue
        program = _literal(name)
        if program is None or not _PLAIN_NAME.fullmatch(program) or re.search(r"[*?{}]", text_of(name)):
            return shorten_source(text_of(name))
        program = program.rpartition("/")[2]
        if program == "alias":
            return shorten_source(text_of(node))
        for argument in _run_arguments(program, node.children_by_field_name("argument")):
            # xargs and find replace {} with names.
            text = text_of(argument).replace("{}", "")
            if _literal(argument) is None or re.search(r"[*?{}`]|\$[^']", text):
                return shorten_source(text_of(argument))
    return None


def _run_arguments(program: str, arguments: list[Node]) -> list[Node]:
    """The arguments that may name a program to run."""
    if program in _RUNS_ARGUMENTS:
        return arguments
    if program == "find":
        return [after for flag, after in pairwise(arguments) if text_of(flag) in ("-exec", "-execdir", "-ok", "-okdir")]
    return []


@functools.lru_cache(maxsize=128)
def loose_words(command: str) -> frozenset[str]:
    """Every word of every reading, and the parts after `=` or `:` (`--file=x`, `REV:path`)."""
    found: set[str] = set()
    root = parse(command)
    decoded = () if isinstance(root, Unparsable) else _decode(root)
    for text in (*_cut(command), *decoded):
        for word in text.split(" "):
            found.add(word)
            found.update(part for part in re.split(r"[=:,]", word) if part)
    return frozenset(found)


def _cut(command: str) -> Iterator[str]:
    """Split wherever a command may begin: with quotes as blanks (`sh -c "rm x"`) and without quotes (`r'm'`)."""
    joined = re.sub(r"\$\{(\w+)[^}]*\}", r"$\1", command.replace("\\\n", ""))
    texts = [re.sub(r"['\"!]", " ", joined), re.sub(r"\$?['\"]|\\", "", joined)]
    if _BRACES.search(joined):
        # {rm,-rf,x} becomes three words.
        texts.append(re.sub(r"[{},]", " ", texts[1]))
    for text in texts:
        for segment in _SEPARATORS.split(text):
            words = " ".join(segment.replace("$IFS", " ").replace("\\", " ").split())
            if words:
                yield words


def _without_comments(command: str, root: Node) -> bytearray:
    source = bytearray(command.encode())
    for node in descendants(root):
        before = bytes(source[max(node.start_byte - 2, 0) : node.start_byte])
        # After an escaped blank, `#` would be part of a word.
        if node.type == "comment" and (not before or (before[-1:] in b" \t\n;" and before[:1] != b"\\")):
            _blank(source, node)
    return source


def _blank(source: bytearray, node: Node) -> None:
    source[node.start_byte : node.end_byte] = b" " * (node.end_byte - node.start_byte)


def _without_inert(live: bytearray, root: Node) -> tuple[str, dict[int, Segment]]:
    """The command without quoted here-documents and inert programs, and those programs with their arguments."""
    source = bytearray(live)
    segments: dict[int, Segment] = {}
    for node in descendants(root):
        if node.type == "heredoc_redirect" and re.match(rb"<<-?\s*['\"]", node.text or b""):
            for child in node.children:
                if child.type == "heredoc_body":
                    _blank(source, child)
        if node.type != "command":
            continue
        name = node.child_by_field_name("name")
        arguments = node.children_by_field_name("argument")
        program = _literal(name) if name is not None else None
        if program is None:
            continue
        words = [_literal(argument) or _without_commands(argument) for argument in arguments]
        if _is_inert(program, words):
            segments[node.id] = Segment(" ".join(" ".join([program, *words]).split()), anywhere=False)
            kept = [(each, bytes(source[each.start_byte : each.end_byte])) for each in _substitutions(node)]
            _blank(source, node)
            for each, text in kept:
                source[each.start_byte : each.end_byte] = text
    return source.decode("utf-8", "replace"), segments


def _is_inert(program: str, words: list[str]) -> bool:
    if program == "git":
        while words[:1] in (["-C"], ["--no-pager"], ["-P"]):
            words = words[2 if words[0] == "-C" else 1 :]
        return bool(words) and words[0] in _INERT_GIT
    if program == "gh":
        return words[:1] in (["pr"], ["issue"], ["release"], ["run"])
    # `e` and the `e` flag of `s` run a command, possibly without a separating blank.
    return program in _INERT and not (program == "sed" and any(re.search(r"e", word) for word in words))


def _substitutions(node: Node) -> list[Node]:
    """The outermost command and process substitutions; their contents always run."""
    found: list[Node] = []
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if current.type in ("command_substitution", "process_substitution"):
            found.append(current)
        else:
            waiting += current.children
    return found


def _without_commands(node: Node) -> str:
    text = bytearray(node.text or b"")
    for each in _substitutions(node):
        text[each.start_byte - node.start_byte : each.end_byte - node.start_byte] = b" " * (
            each.end_byte - each.start_byte
        )
    return text.decode("utf-8", "replace")


def _decode(root: Node, left_out: frozenset[int] = frozenset()) -> tuple[str, ...]:
    """Each command of the tree with its words expanded as far as possible."""
    values = _list_assigned(root)
    rounds = range(min(max(map(len, values.values()), default=1), MAX_VALUES))
    found: dict[str, None] = {}
    for node in descendants(root):
        if node.type not in ("command", "declaration_command") or node.id in left_out:
            continue
        children = [
            child
            for child in node.children
            if child.is_named and child.type not in ("variable_assignment", "file_redirect", "heredoc_redirect")
        ]
        for number in rounds:
            variables = {name: known[min(number, len(known) - 1)] for name, known in values.items()}
            text = " ".join(" ".join(_substitute(child, variables) for child in children).split())
            if text:
                found[text] = None
    return tuple(found)


def _list_assigned(root: Node) -> dict[str, list[str]]:
    """Every value that the command assigns to a variable, including loop words; the last one first."""
    values: dict[str, list[str]] = {}
    for node in descendants(root):
        if node.type == "variable_assignment":
            name, _equals, _value = text_of(node).partition("=")
            value = node.child_by_field_name("value")
            values.setdefault(name, []).insert(0, (_literal(value) or "") if value is not None else "")
        elif node.type == "for_statement" and len(node.children) > 3:
            words = [_literal(child) for child in node.children[3:-1] if child.is_named]
            values.setdefault(text_of(node.children[1]), [])[:0] = [word for word in words if word is not None] or [""]
    return values


def _substitute(node: Node, variables: dict[str, str]) -> str:
    text = _literal(node)
    if text is not None:
        return text

    def value(found: re.Match[str]) -> str:
        return variables.get(found[1], " ") if found[1] else ""

    return re.sub(r"\$\{?(\w+)[^}\s]*\}?|[\"']", value, text_of(node))


def _literal(node: Node) -> str | None:
    """The text of a word without quotes; None if part of it is only known at run time."""
    match node.type:
        case "word" | "number" | "variable_name" | "string_content" | "extglob_pattern":
            return re.sub(r"\\(.)", r"\1", text_of(node), flags=re.DOTALL)
        case "raw_string":
            return text_of(node)[1:-1]
        case "ansi_c_string":
            return _ansi_c(text_of(node)[2:-1])
        case "string" | "concatenation" | "command_name" | "translated_string":
            parts = [_literal(child) for child in node.children if child.is_named]
            return None if None in parts else "".join(part or "" for part in parts)
        case _:
            return None


_ESCAPE = lazy_pattern(r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|(.))", re.DOTALL)


def _ansi_c(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        by_hex = found[1] or found[2] or found[3]
        number = int(by_hex, 16) if by_hex else int(found[4], 8) if found[4] else None
        if number is not None:
            return chr(number) if number < 0x110000 else ""
        return {"n": "\n", "t": "\t"}.get(found[5], found[5])

    return _ESCAPE.sub(character, text)
