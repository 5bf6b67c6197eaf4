"""Shell commands as text: what can be proven about them without running anything.

Two walks that fail in opposite directions (S6). `plain_commands` is strict: it returns words only if the command
is nothing but plain words joined by `&& || ; |`, and None for everything else; proofs of harmlessness and allow
rules stand on it. `loose_segments` sees too much rather than too little; deny rules stand on it. Nothing here may
ever guess in favour of running a command: what is not understood is not safe.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from agentcli.core.frozen import frozen
from agentcli.core.shelltable import GIT_COMMANDS, PROGRAMS, Flags

_LONGEST = 20_000
_BARE = re.compile(r"[A-Za-z0-9_\-./:,+@%=^~]")
_OPERATOR = re.compile(r"&&|\|\||;|\|(?!&)")
_HARMLESS_REDIRECTION = re.compile(r"(?:[012]?>&[12]|(?:[012]|&)?>>?[ \t]*/dev/null|<[ \t]*/dev/null)(?=[\s;|&]|\Z)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@frozen
class SimpleCommand:
    """One part of a compound command: its words with quotes taken off, and its text with single spaces."""

    words: tuple[str, ...]
    text: str
    piped: bool = False
    """Its input is the output of the part before it."""


def has_control_characters(command: str) -> bool:
    """Control characters other than tab and line feed have no place in a command (S8)."""
    return _CONTROL.search(command) is not None


def plain_commands(command: str, *, redirections: bool = False) -> tuple[SimpleCommand, ...] | None:
    """The parts of a command that is plain words joined by `&& || ; |`; None if it is anything else.

    With `redirections`, those that can change nothing (`2>&1`, `>/dev/null`) are skipped instead of refused.
    """
    if len(command) > _LONGEST or has_control_characters(command):
        return None
    parts: list[SimpleCommand] = []
    words: list[str] = []
    sources: list[str] = []
    piped = False
    position, text = 0, command.strip(" \t\n")
    while position < len(text):
        if text[position] in " \t":
            position += 1
        elif redirections and words and (found := _HARMLESS_REDIRECTION.match(text, position)):
            position = found.end()
        elif found := _OPERATOR.match(text, position):
            if not words:
                return None
            parts.append(SimpleCommand(tuple(words), " ".join(sources), piped))
            words, sources, piped = [], [], found.group() == "|"
            position = found.end()
        else:
            word = _read_word(text, position)
            if word is None:
                return None
            words.append(word[0])
            sources.append(text[position : word[1]])
            position = word[1]
    if words:
        parts.append(SimpleCommand(tuple(words), " ".join(sources), piped))
    elif not text.endswith(";"):
        return None
    if any(not _is_program(part.text.split(" ", 1)[0]) for part in parts):
        return None
    return tuple(parts) or None


def _is_program(first: str) -> bool:
    # A quoted program name is a trick, and a `=` makes an assignment of it.
    return re.fullmatch(r"[A-Za-z0-9_\-./+]+", first) is not None


def _read_word(text: str, start: int) -> tuple[str, int] | None:
    """A word and where it ends: bare characters, a quoted literal, or `name=` before a quoted literal."""
    position = start
    while position < len(text) and (
        _BARE.match(text, position) or (text[position] > "\x7f" and text[position].isalnum())
    ):
        position += 1
    bare = text[start:position]
    # The shell expands a tilde at these places only; elsewhere it is a letter (HEAD~1).
    if bare.startswith("~") or re.search(r"[:=]~", bare):
        return None
    if position < len(text) and text[position] in "'\"":
        if bare and not bare.endswith("="):
            return None
        quote = text[position]
        end = text.find(quote, position + 1)
        literal = text[position + 1 : end]
        if end < 0 or (quote == '"' and re.search(r"[$`\\!]", literal)):
            return None
        bare, position = bare + literal, end + 1
    elif not bare:
        return None
    if position < len(text) and not (text[position] in " \t;" or _OPERATOR.match(text, position)):
        return None
    return bare, position


# ------------------------------------------------------------------------------------------------ read-only proof


def is_read_only(command: str) -> bool:
    """Whether the command provably only reads and ends by itself. False means "not proven", not "it writes"."""
    parts = plain_commands(command)
    return parts is not None and all(is_read_only_part(part.words) for part in parts)


def is_read_only_part(words: tuple[str, ...]) -> bool:
    program, arguments = words[0], words[1:]
    if any(_names_kernel_file(argument) for argument in arguments):
        return False
    if program == "git":
        return _git_only_reads(arguments)
    if program == "sed":
        return _sed_only_prints(arguments)
    flags = PROGRAMS.get(program)
    return flags is not None and _allowed(flags, arguments)


def _names_kernel_file(argument: str) -> bool:
    # Our own environment, with the keys in it, is readable under /proc; devices may never end.
    path = posixpath.normpath(argument.rpartition("=")[2]) if argument else ""
    top = re.match(r"/+(proc|dev|sys)(?:/|$)", path)
    return top is not None or (path.startswith("..") and re.search(r"/(proc|dev|sys)(?:/|$)", path) is not None)


def reads_unnamed_files(words: tuple[str, ...]) -> bool:
    """Whether the contents of files that the command does not name may come out of it (recursive search, history)."""
    if words[0] == "git":
        return True
    return words[0] == "rg" or (words[0] == "grep" and any(re.match(r"-[A-Za-z]*r|--recursive", w) for w in words[1:]))


def _allowed(flags: Flags, arguments: tuple[str, ...]) -> bool:
    positional: list[str] = []
    options = True
    for argument in arguments:
        if options and argument == "--" and flags.words is None:
            options = False
        elif argument.startswith("-") and argument != "-":
            # Not every program means by `--` that no flag follows (find does not), so none may.
            if not options or not _flag_allowed(flags, argument):
                return False
        else:
            positional.append(argument)
    if flags.most_positional is not None and len(positional) > flags.most_positional:
        return False
    return flags.positional is None or all(re.fullmatch(flags.positional, word) for word in positional)


def _flag_allowed(flags: Flags, argument: str) -> bool:
    if flags.words is not None:
        return argument in flags.words
    if argument.startswith("--"):
        name, equals, _value = argument.partition("=")
        # A value in the next word is a positional word here, so it can never be another flag.
        return name + "=" in flags.long or (not equals and name in flags.long)
    if flags.digits and re.fullmatch(r"-\d+", argument):
        return True
    for letter in argument[1:]:
        if letter in flags.with_value:
            return True
        if letter not in flags.short:
            return False
    return True


def _git_only_reads(arguments: tuple[str, ...]) -> bool:
    while arguments and arguments[0] in ("--no-pager", "-P"):
        arguments = arguments[1:]
    if not arguments:
        return False
    if arguments == ("--version",):
        return True
    # %G in a format has signatures checked, which runs a program that the repository's settings name.
    if any("%G" in argument for argument in arguments):
        return False
    for name in (" ".join(arguments[:2]), arguments[0]):
        flags = GIT_COMMANDS.get(name)
        if flags is not None:
            rest = arguments[len(name.split(" ")) :]
            listing = flags.unless_listing and "--list" in rest
            return _allowed(flags.for_listing() if listing else flags, rest)
    return False


def _sed_only_prints(arguments: tuple[str, ...]) -> bool:
    if len(arguments) < 2 or arguments[0] != "-n" or not re.fullmatch(r"(?:\d+|\$)(?:,(?:\d+|\$))?p", arguments[1]):
        return False
    return not any(argument.startswith("-") for argument in arguments[2:])


# ---------------------------------------------------------------------------------------------------- loose walk

_SEPARATORS = re.compile(r"[;|&()<>`\n\r{}]+|\$\(")


def loose_segments(command: str) -> Iterator[str]:
    """Every stretch of words that the shell might take for a command, however quoted, nested or escaped.

    Seen twice: with quotes as blanks (`bash -c "rm x"`) and with quotes and backslashes deleted (`r\\m`, `r'm'`).
    """
    joined = re.sub(r"\$\{(\w+)[^}]*\}", r"$\1", command.replace("\\\n", ""))
    seen: set[str] = set()
    for text in (re.sub(r"['\"]", " ", joined), re.sub(r"\$?['\"]|\\", "", joined)):
        for segment in _SEPARATORS.split(text):
            words = " ".join(segment.replace("$IFS", " ").replace("\\", " ").split())
            if words and words not in seen:
                seen.add(words)
                yield words


def loose_words(command: str) -> set[str]:
    """Every word of every loose segment, and what stands after a `=` or a `:` in one (`--file=x`, `REV:path`)."""
    found: set[str] = set()
    for segment in loose_segments(command):
        for word in segment.split(" "):
            found.add(word)
            found.update(part for part in re.split(r"[=:,]", word) if part)
    return found
