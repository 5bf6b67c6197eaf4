"""Check that a sed, awk or jq program in an argument provably only computes and prints.

Conservative: each check accepts only the part of the language that it fully understands.
"""

from __future__ import annotations

from agentcli.core.text.lazy_pattern import lazy_pattern

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
