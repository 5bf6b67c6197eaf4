"""Check that a sed, awk or jq program in an argument provably only computes and prints.

Conservative: each check accepts only the part of the language that it fully understands.
"""

from __future__ import annotations

import re

from agentcli.core.text.lazy_pattern import lazy_pattern

_SED_ADDRESS = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n\[]|\\[^\n]|\[\^?\]?[^\]/\n]*\])*/I?)"
_SED_RANGE = rf"(?:{_SED_ADDRESS}(?:,(?:{_SED_ADDRESS}|[+~]\d+))?)?[ ]*!?[ ]*"
_SED_COMMAND = lazy_pattern(rf"[ ]*{_SED_RANGE}(?:[pPdDnNgGhHxlz=]|[qQ]\d{{0,3}}|(?P<substitute>[sy]))")


def sed_only_prints(script: str) -> bool:
    """Whether a sed script uses only `p d q = n N g G h H x s y`, without flags that write files or run programs."""
    position = 0
    if not script.strip():
        return False
    while position < len(script):
        if script[position] in " ;\n":
            position += 1
            continue
        found = _SED_COMMAND.match(script, position)
        if found is None:
            return False
        position = found.end()
        if found["substitute"]:
            end = _substitution_end(script, position, found["substitute"])
            if end is None:
                return False
            position = end
        while position < len(script) and script[position] == " ":
            position += 1
        if position < len(script) and script[position] not in ";\n":
            return False
    return True


def _substitution_end(script: str, position: int, command: str) -> int | None:
    """Index after `/a/b/flags`; None if it is ambiguous."""
    delimiter = script[position : position + 1]
    if delimiter not in tuple("/|,#:@!%_+"):
        return None
    escaped = re.escape(delimiter)
    piece = rf"((?:[^{escaped}\\\n]|\\[^\n])*)"
    flags = r"[gpiI0-9]*" if command == "s" else ""
    found = re.compile(f"{escaped}{piece}{escaped}{piece}{escaped}{flags}").match(script, position)
    # Implementations of sed differ on a delimiter inside brackets.
    if found is None or found.group(1).count("[") != found.group(1).count("]"):
        return None
    return found.end()


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
