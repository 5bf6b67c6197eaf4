"""Prove that a simple command is read-only, by its program and each of its flags.

`objection` returns the reason why it is not proven, or None as the proof. `command_parts` checks which files are read.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from itertools import pairwise

from agentcli.core.text.patterns import lazy_pattern
from agentcli.shell.commands.read_only_table import (
    ANY_FILES,
    EFFECTS,
    GIT_COMMANDS,
    PROGRAMS,
    READS_STREAMS,
    SCRIPT_PROGRAMS,
    SUB_COMMANDS,
    TELLS_ABOUT_ITSELF,
    Flags,
)
from agentcli.shell.parser.programs import joined
from agentcli.shell.parser.words import INTEGER, MARKED, NAME, SOME, STREAM

_SED_TEXT = r"(?:[^\\\[;\n%s]|\\[1-9.swSW+?()])*"
"""Text between two delimiters without brackets, in which implementations of sed disagree about delimiters, and with
escapes that all read in the same way."""
_SED_PATTERN = f"/{_SED_TEXT % '/'}/"
_SED_ADDRESS = rf"(?:\d+|\$|{_SED_PATTERN})"
_SED_SUBSTITUTION = "|".join(rf"\{mark}{_SED_TEXT % mark}\{mark}{_SED_TEXT % mark}\{mark}" for mark in "/|,#@:")
_SED_COMMAND = rf" *(?:{_SED_ADDRESS}(?:,{_SED_ADDRESS})?)? *!? *(?:[pd=]|q|s(?:{_SED_SUBSTITUTION})[gpI\d]*) *"
_SED_SCRIPT = lazy_pattern(rf"{_SED_COMMAND}(?:[;\n]{_SED_COMMAND})*;?")


def sed_only_prints(script: str) -> bool:
    """Whether a sed script only prints, deletes and substitutes plain text, without brackets."""
    return _SED_SCRIPT.fullmatch(script) is not None


_AWK_FORBIDDEN = lazy_pattern(
    r"system|getline|ENVIRON|PROCINFO|@|\\\n|/inet|/dev|/proc|close|fflush|ARGV|SYMTAB|FUNCTAB|FILENAME\s*="
)


def awk_only_prints(program: str) -> bool:
    """Whether an awk program writes to no file or program, reads only its operands and not the environment.

    A redirection or a pipe of awk stands after the `print` it belongs to (or before a `getline`), so a `>` or `|` with
    no `print` before it can only be a comparison or part of an expression.
    """
    if not program.strip() or _AWK_FORBIDDEN.search(program):
        return False
    first = program.find("print")
    rest = program[first:].replace("||", "") if first >= 0 else ""
    return ">" not in rest and "|" not in rest


_JQ_FORBIDDEN = lazy_pattern(
    # Forbidden anywhere: jq reads `$ ENV`, even with a comment between the two, as `$ENV`.
    r"\b(?:env|ENV|import|include|input_filename|modulemeta|get_search_list|__prog_\w+|__loc__)\b"
)


def jq_only_computes(program: str) -> bool:
    """Whether a jq program uses neither the environment nor modules nor further input files."""
    return _JQ_FORBIDDEN.search(program) is None


Words = tuple[str, ...]
ASSIGNMENT = "the assignment "
"""Prefix of every objection to an assignment; no allow rule covers those."""


def objection(words: Words) -> str | None:
    program, arguments = words[0], words[1:]
    for argument in arguments:
        if _names_kernel_file(argument):
            return f"{argument} is not an ordinary file"
    if arguments in (("--version",), ("--help",)) and program in TELLS_ABOUT_ITSELF:
        return None
    special = _SPECIAL.get(program)
    if special is not None:
        return special(arguments)
    if program in _FORMS:
        is_known = _FORMS[program].fullmatch(joined(arguments))
        return None if is_known else _effect(program)
    if program in SUB_COMMANDS:
        return _by_sub_command(program, SUB_COMMANDS[program], arguments)
    flags = PROGRAMS.get(program)
    if flags is None:
        with_sub_command = " ".join(words[:2])
        return _effect(with_sub_command if with_sub_command in EFFECTS else program)
    return _refuse(program, flags, arguments)


def _effect(command: str) -> str:
    """The objection to a program, or to a program with its sub-command."""
    return f"{command} {EFFECTS.get(command, 'may change files or run code')}"


_ANY_ARGUMENTS = frozenset({"echo", "printf", "basename", "dirname", "true", "false", ":", "[["})
"""Read-only with any arguments; for `printf`, with any but the format."""
_UNARY = frozenset({"-n", "-z", "-f", "-d", "-e", "-s", "-r", "-w", "-x", "-L", "-h"})
_BINARY = frozenset({"=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"})


def find_unknown_objection(words: Words, *, contained: bool) -> str | None:
    """Reason why words of unknown value may do harm; None if they cannot. `contained`: a sandbox keeps the command from
    writing, from the network and from secrets, so that names printed by another program do none."""
    unknown = [index for index, word in enumerate(words) if MARKED.search(word)]
    if not unknown:
        return None
    program, numbers = words[0], all(INTEGER.fullmatch(words[index]) for index in unknown)
    clause = f"the arguments of {program} are unknown"
    if program in _ANY_ARGUMENTS:
        return clause if program == "printf" and unknown[0] == 1 else None
    unknown = [index for index in unknown if not _takes_any(words, index, contained=contained)]
    if not unknown:
        return None
    if any(re.search(f"[{SOME}{STREAM}]", words[index]) for index in unknown):
        return clause
    if program in ("test", "["):
        return None if _is_plain_test(words[1:-1] if program == "[" else words[1:]) else clause
    if any(NAME in words[index] for index in unknown):
        return clause
    before = {words[index - 1] for index in unknown}
    if numbers and (program in ("exit", "seq") or (program in ("head", "tail") and before == {"-n"})):
        return None
    # A search pattern may be any text where it cannot be parsed as a flag.
    pattern = before == {"-e"} or (before == {"--"} and "-e" not in words and len(unknown) == 1)
    return None if program in ("grep", "rg", "egrep", "fgrep") and pattern else clause


def _takes_any(words: Words, index: int, *, contained: bool) -> bool:
    """Whether any value of this word's known kind is harmless there, also if there are more words of that kind."""
    word, program = words[index], words[0]
    takes_files = has_script(words[:index]) if program in SCRIPT_PROGRAMS else program in ANY_FILES
    if word == STREAM:
        return program in READS_STREAMS and takes_files
    # `$(…)/etc/passwd`, `/$(…)` and `../$(…)` name other files than those that were printed.
    stays = NAME in word and ".." not in word.split("/") and not word.startswith((f"{NAME}/", "/"))
    return contained and stays and not MARKED.search(word.replace(NAME, "")) and (takes_files or program == "git")


def _is_plain_test(arguments: Words) -> bool:
    """Whether `test` evaluates no unknown operator, by the number of words, as the shell decides."""
    if arguments[:1] == ("!",) and len(arguments) > 1:
        arguments = arguments[1:]
    match len(arguments):
        case 1:
            return True
        case 2:
            return arguments[0] in _UNARY
        case 3:
            return arguments[1] in _BINARY
        case _:
            return False


def _names_kernel_file(argument: str) -> bool:
    # /proc shows our own environment, with the API keys in it; reading a device may never end.
    path = posixpath.normpath(argument.rpartition("=")[2]) if argument else ""
    if path == "/dev/null":
        return False
    top = re.match(r"/+(proc|dev|sys|inet\d?)(?:/|$)", path)
    return top is not None or (path.startswith("..") and re.search(r"/(proc|dev|sys)(?:/|$)", path) is not None)


# ------------------------------------------------------------------------------------------------------- by flags


def _refuse(name: str, flags: Flags, arguments: Words) -> str | None:
    if not arguments and not flags.bare:
        return f"{name} may change files or run code"
    positional: list[str] = []
    options, is_value = True, False
    for argument in arguments:
        if options and argument == "--" and flags.words is None:
            options = is_value = False
        elif argument.startswith("-") and argument != "-" and not (positional and flags.most_positional is not None):
            # Not every program ends its flags at `--` (find does not), so no flag may follow it.
            if not options or not _flag_allowed(flags, argument):
                return _flag_objection(name, argument)
            is_value = _wants_value(flags, argument)
        elif is_value:
            is_value = False
        else:
            positional.append(argument)
    if flags.most_positional is not None and len(positional) > flags.most_positional:
        return f"{name} {positional[-1]} may change files or run code"
    for word in positional:
        if flags.positional is not None and not re.fullmatch(flags.positional, word):
            return f"{name} {word} may change files or run code"
    return None


def _flag_allowed(flags: Flags, argument: str) -> bool:
    if flags.words is not None:
        return argument in flags.words
    if argument.startswith("--"):
        name, equals, _value = argument.partition("=")
        # A value in the next word counts as positional here, so it can never be another flag.
        return name + "=" in flags.long or (not equals and name in flags.long)
    if flags.digits and re.fullmatch(r"-\d+", argument):
        return True
    for letter in argument[1:]:
        if letter in flags.with_value:
            return True
        if letter not in flags.short:
            return False
    return True


def _wants_value(flags: Flags, argument: str) -> bool:
    """Whether a flag takes the next word as its value, so that it is not positional."""
    if argument.startswith("--") or flags.words is not None:
        return False
    for index, letter in enumerate(argument[1:], 2):
        if letter in flags.with_value:
            return letter in flags.next_value and index == len(argument)
    return False


def _flag_objection(name: str, argument: str) -> str:
    return f"`{argument.partition('=')[0]}` of {name} may change files or run code"


def _by_sub_command(program: str, table: Mapping[str, Flags], arguments: Words) -> str | None:
    if not arguments or arguments[0] not in table:
        return _effect(" ".join((program, *arguments[:1])))
    return _refuse(f"{program} {arguments[0]}", table[arguments[0]], arguments[1:])


# ------------------------------------------------------------------------------------------------- program by program


def _git(arguments: Words) -> str | None:
    while arguments and arguments[0] in ("--no-pager", "-P", "--no-optional-locks"):
        arguments = arguments[1:]
    if not arguments:
        return "git without a command may change files or run code"
    if arguments == ("--version",):
        return None
    if arguments[0] in ("-c", "--config-env", "--exec-path", "--git-dir", "--work-tree") or arguments[0].startswith(
        "--"
    ):
        return f"`{arguments[0].partition('=')[0]}` of git can make it run other programs"
    # %G in a format verifies signatures, which runs a program named in the repository's settings.
    if any("%G" in argument or "%(signature" in argument for argument in arguments):
        return "the format runs another program to check signatures"
    for name in (" ".join(arguments[:2]), arguments[0]):
        flags = GIT_COMMANDS.get(name)
        if flags is not None:
            rest = arguments[len(name.split(" ")) :]
            if flags.unless_listing:
                rest = _with_values_attached(rest)
                for position, word in enumerate(rest, 1):
                    # The flag would consume the next word. If that is --list, the command creates a branch or tag
                    # instead of listing.
                    if (
                        word + "=" in flags.long
                        and (word not in flags.long or position < len(rest))
                        and (word not in ("--color", "--column"))
                    ):
                        return f"`{word}` of git {name} needs its value after ="
            needed, otherwise = _NEEDED_BY_GIT.get(name, (None, ""))
            certain = (word for before, word in pairwise(("", *rest)) if not _may_take_next(flags, before))
            if needed is not None and not any(map(needed.fullmatch, certain)):
                return f"git {name} {otherwise}"
            listing = flags.unless_listing and ("--list" in rest or "-l" in rest)
            return _refuse(f"git {name}", flags.for_listing() if listing else flags, rest)
    return _effect(f"git {arguments[0]}")


def _may_take_next(flags: Flags, word: str) -> bool:
    """Whether git would read the next word as the value of this flag: `git apply --exclude --check` applies."""
    return f"{word}=" in flags.long or (word.startswith("-") and word[-1] in flags.with_value)


def _with_values_attached(words: Words) -> Words:
    """Rewrite `--merged main` as `--merged=main`."""
    found: list[str] = []
    for word in words:
        if found and found[-1] in ("--merged", "--no-merged") and not word.startswith("-"):
            found[-1] += f"={word}"
        else:
            found.append(word)
    return tuple(found)


_NEEDED_BY_GIT = {
    "clean": (lazy_pattern(r"-[dxXqn]*n[dxXqn]*|--dry-run"), "removes files without -n"),
    "apply": (lazy_pattern(r"--(?:check|stat|numstat|summary)"), "changes files without --check or --stat"),
}
"""Flags without which a git command is not read-only, and what it does without them."""


def has_script(words: Words) -> bool:
    """Whether the words of sed, awk or jq already contain the script, so that all further words are files."""
    arguments = words[1:]
    match words[0]:
        case "sed":
            return bool(_script_arguments(arguments, "nErsuz", "e", _SED_FLAGS)[0])
        case "jq":
            return bool(_script_arguments(arguments, "rcsneSRjCMa", "", _JQ_FLAGS)[0])
        case _:
            return bool(_script_arguments(arguments, "", "", (), "Fv")[0])


_SED_FLAGS = ("--quiet", "--silent", "--regexp-extended", "--posix")


def _sed(arguments: Words) -> str | None:
    scripts, rest = _script_arguments(arguments, "nErsuz", "e", _SED_FLAGS)
    if scripts is None:
        return _flag_objection("sed", rest)
    return None if scripts and all(map(sed_only_prints, scripts)) else "the sed script may do more than print"


def _awk(arguments: Words) -> str | None:
    programs, rest = _script_arguments(arguments, "", "", (), "Fv")
    if programs is None:
        return _flag_objection("awk", rest)
    after = arguments[arguments.index(programs[0]) :] if programs else ()
    only_prints = programs and awk_only_prints(programs[0]) and not any(word.startswith("-") for word in after)
    return None if only_prints else "the awk program may do more than print"


_JQ_FLAGS = (
    *("--raw-output", "--compact-output", "--slurp", "--null-input", "--exit-status", "--sort-keys", "--raw-input"),
    *("--join-output", "--color-output", "--monochrome-output", "--tab", "--ascii-output", "--arg", "--argjson"),
)


def _jq(arguments: Words) -> str | None:
    programs, rest = _script_arguments(arguments, "rcsneSRjCMa", "", _JQ_FLAGS)
    if programs is None:
        return _flag_objection("jq", rest)
    if not programs or not all(map(jq_only_computes, programs)):
        return "the jq program may do more than compute"
    return None


def _script_arguments(
    arguments: Words, short: str, script: str, long: tuple[str, ...], valued: str = ""
) -> tuple[list[str] | None, str]:
    """The scripts among the arguments of `program [flags] script file…`; for an unknown flag, None and the flag.

    Letters of flags: `short` without a value, `script` with a script and `valued` with any other value.
    """
    scripts: list[str] = []
    positional: list[str] = []
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        position += 1
        if script and argument == f"-{script}":
            scripts += arguments[position : position + 1]
            position += 1
        elif argument in ("--arg", "--argjson") and argument in long:
            position += 2
        elif argument.startswith("--"):
            if argument not in long:
                return None, argument
        elif argument[:1] == "-" and argument[1:2] and argument[1] in valued:
            position += len(argument) == 2
        elif argument.startswith("-") and argument != "-":
            letters = argument[1:]
            if script and letters.endswith(script):
                letters = letters[:-1]
                scripts += arguments[position : position + 1]
                position += 1
            if any(letter not in short for letter in letters):
                return None, argument
        else:
            positional.append(argument)
    return scripts or positional[:1], ""


def _test(arguments: Words) -> str | None:
    for argument in arguments:
        # These operators evaluate subscripts, which may contain commands.
        if argument in ("-v", "-R"):
            return f"`{argument}` of test evaluates its operands"
    return None


def _double_test(arguments: Words) -> str | None:
    for index, argument in enumerate(arguments):
        if argument in ("-v", "-R", "-o", "-a"):
            return f"`{argument}` of [[ evaluates its operands"
        # Both sides are evaluated as arithmetic, where a subscript may contain commands.
        if argument in ("-eq", "-ne", "-lt", "-le", "-gt", "-ge"):
            sides = arguments[max(index - 1, 0) : index] + arguments[index + 1 : index + 2]
            if len(sides) != 2 or not all(map(INTEGER.fullmatch, sides)):
                return f"`{argument}` of [[ evaluates its operands"
    return None


def _printf(arguments: Words) -> str | None:
    if arguments and arguments[0].startswith("-"):
        return _flag_objection("printf", arguments[0])
    # %n assigns a variable.
    unsafe = arguments and re.search(r"%[-+ #0'*.\d]*[hlqjztL]*n", arguments[0].replace("%%", ""))
    return "%n of printf sets a variable" if unsafe else None


_PS_COLUMNS = r"(?:pid|ppid|user|cmd|comm|args|stat|etime|time|rss|vsz|%cpu|%mem|tty|start|nice|,)+"
_FILE = r"[\w./][\w./@+-]*\0"
_FORMS: Mapping[str, re.Pattern[str]] = {
    "set": lazy_pattern(r"(?:[-+][eux]+\0|[-+][eux]*o\0(?:pipefail|errexit|nounset|xtrace)\0)+"),
    "read": lazy_pattern(r"(?:-r\0|-d\0[^\0]*\0|[A-Za-z_]\w*\0)*"),
    # Letters without a dash and unknown columns may show the environment of processes.
    "ps": lazy_pattern(
        r"(?:(?:aux|ax|axu|auxw{1,2}|[\d,]+|--no-headers|--forest|--sort=[-+%\w,]+|--p?pid=[\d,]+|-[eAfFlwjHT]+)\0"
        rf"|-[eAfFlwjHT]*(?:o\0?{_PS_COLUMNS}|p\0?[\d,]+|C\0?[\w.-]+|[uU]\0?\w+)\0)*"
    ),
    # Only the first letters of a flag count; no flags follow a name; a second name is written to.
    "xxd": lazy_pattern(r"(?:-[abeiup]\0|-[clsg]\0?\d+\0)*(?:[^-\0][^\0]*\0)?"),
    # A colon in a name makes tar connect to another host.
    "tar": lazy_pattern(r"-?[vzjJa]*t[vzjJa]*f?[vzjJa]*\0(?:[^-:\0][^:\0]*\0)*"),
    # A name after @ is looked up in the network.
    "lsof": lazy_pattern(r"(?:-[nPtl]*(?:[ipu][^@\0]*)?\0|[^-+@\0][^@\0]*\0)*"),
    "unzip": lazy_pattern(r"-(?:l|v|lv|Z1)\0(?:[^-\0][^\0]*\0)*"),
    "command": lazy_pattern(r"-[vV]\0(?:[^-\0][^\0]*\0)*"),
    "bash": lazy_pattern(rf"--version\0|-n\0{_FILE}"),
    "sh": lazy_pattern(rf"-n\0{_FILE}"),
    "node": lazy_pattern(rf"--version\0|-v\0|(?:--check|-c)\0{_FILE}"),
}
"""All arguments, each ended by NUL, with which these programs are read-only."""
_SPECIAL: Mapping[str, Callable[[Words], str | None]] = {
    "git": _git,
    "sed": _sed,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "jq": _jq,
    # echo only prints its arguments.
    "echo": lambda _arguments: None,
    "printf": _printf,
    "test": _test,
    "[": _test,
    "[[": _double_test,
}
