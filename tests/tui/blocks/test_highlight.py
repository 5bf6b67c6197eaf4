"""Code as styled runs: no text is lost, tokens have styles, growing code is lexed once, imports are deferred."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from agentcli.history.export import code_tokens
from agentcli.history.export.code_tokens import is_ready, language_name, language_of
from agentcli.tui.blocks.base import Run
from agentcli.tui.blocks.highlight import COMMON, Highlighter, highlight, warm
from agentcli.tui.theme.palette import Palette

PALETTE = Palette()
PYTHON = '''@cache
def area(width: int) -> str:
    """Of a
    square."""
    return f"{width ** 2} m²"  # metres


class Thing(Exception): pass
'''
SCRIPT = "/* a comment\n   over lines */\nconst x = `a ${1}\n b`; // end\nlet y = 'z'\n"


def texts(lines: list[list[Run]]) -> list[str]:
    return ["".join(text for text, _style in line) for line in lines]


def style(lines: list[list[Run]], text: str) -> Style:
    return next(style for line in lines for part, style in line if text in part)


def grown(code: str, language: str, step: int) -> list[list[Run]]:
    """As an open fence sees it: lines as they end, the open one looked at each time."""
    highlighter = Highlighter(language, PALETTE, PALETTE.code_block)
    settled: list[list[Run]] = []
    shown: list[list[Run]] = []
    fed = 0
    for end in [*range(step, len(code), step), len(code)]:
        whole = code.rfind("\n", 0, end) + 1
        settled += highlighter.feed(code[fed:whole])
        fed = max(fed, whole)
        shown = [*settled, *highlighter.open_rows(code[fed:end])]
        assert texts(shown) == code[:end].split("\n")
    return shown


@pytest.mark.parametrize(
    "language", [*COMMON, "c", "cpp", "ruby", "make", "css", "java", "console", "nonsense", "", "html+jinja"]
)
def test_no_character_of_the_code_is_lost(language: str) -> None:
    for code in (PYTHON, SCRIPT, "", "\n", "\n\n  a\n", "\ttab\n"):
        assert texts(highlight(code, language, PALETTE)) == code.split("\n")


@given(
    st.text(max_size=60), st.sampled_from(["python", "javascript", "json", "html", "yaml", "bash"]), st.integers(1, 9)
)
def test_no_character_of_growing_code_is_lost(code: str, language: str, step: int) -> None:
    grown(code, language, step)


def test_kinds_of_tokens_have_the_styles_of_the_palette() -> None:
    lines = highlight(PYTHON, "python", PALETTE)
    expected = {
        "def": "keyword",
        "area": "function",
        "square": "string",
        "# metres": "comment",
        "2": "number",
        "@cache": "decorator",
    }
    assert {text: style(lines, text) for text in expected} == {
        text: PALETTE.syntax[kind] for text, kind in expected.items()
    }
    assert style(lines, "Thing") == PALETTE.syntax["type"]


def test_the_background_is_applied_under_every_style() -> None:
    ground = Style.parse("on #123456")
    assert {run[1].bgcolor for line in highlight(PYTHON, "python", PALETTE, ground) for run in line} == {ground.bgcolor}
    assert highlight("a", "", PALETTE, ground) == [[("a", ground)]]


@pytest.mark.parametrize("step", [1, 5, 40])
@pytest.mark.parametrize(
    ("code", "language"), [(PYTHON, "python"), (SCRIPT, "javascript"), ('{"a": [1,\n2]}\n', "json")]
)
def test_growing_code_ends_with_the_same_colours(code: str, language: str, step: int) -> None:
    assert grown(code, language, step) == highlight(code, language, PALETTE, PALETTE.code_block)


def test_long_growing_code_settles_where_a_statement_begins() -> None:
    code = "".join(f'def f{number}():\n    """Of a\n\n    function."""\n\n\n' for number in range(200))
    assert grown(code, "python", 900) == highlight(code, "python", PALETTE, PALETTE.code_block)


def test_an_unfinished_comment_is_styled_as_a_comment() -> None:
    lines = grown("x = 1\n/* not yet\n ended", "javascript", 100)
    assert style(lines, "ended") == PALETTE.code_block + PALETTE.syntax["comment"]
    assert texts(grown("ls /*", "bash", 1)) == ["ls /*"]


def test_a_diff_is_coloured_by_line_without_a_lexer() -> None:
    lines = highlight("--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same", "diff", PALETTE)
    assert [line[0][1] for line in lines] == [
        PALETTE.syntax[kind] for kind in ("heading", "heading", "heading", "removed", "added", "name")
    ]


def test_too_much_code_is_plain() -> None:
    for code in ("x = 1\n" * 2_100, "x = " + "1" * 3_000, "x = 1 # words and words\n" * 1_500):
        lines = highlight(code, "python", PALETTE)
        assert texts(lines) == code.split("\n")
        assert all(len(line) <= 1 for line in lines)


@pytest.mark.parametrize(
    ("info", "name"),
    [
        ("python", "python"),
        (" Python title=x", "python"),
        ("{.rust}", "rust"),
        ("c++", "c++"),
        ("py:a.py", "py"),
        ("", ""),
        ("\x1b]0;x", ""),
        ("日本", ""),
        ("js,ignore", "js"),
    ],
)
def test_the_info_string_of_a_fence_names_a_language(info: str, name: str) -> None:
    assert language_name(info) == name


@pytest.mark.parametrize(
    ("path", "language"),
    [
        ("a/b.py", "python"),
        ("Makefile", "make"),
        ("C:\\x\\a.TS", "typescript"),
        ("Dockerfile.dev", "docker"),
        ("x.unknown", ""),
        (".bashrc", "bash"),
        ("CMakeLists.txt", "cmake"),
        ("notes.txt", ""),
        ("", ""),
    ],
)
def test_a_file_name_gives_the_language(path: str, language: str) -> None:
    assert language_of(path) == language


def test_every_language_of_the_table_has_a_lexer() -> None:

    missing = {
        name for name in code_tokens.SUFFIXES.values() if name != "diff" and code_tokens.find_lexer(name) is None
    }
    assert missing == set()


def test_warming_up_loads_the_lexer() -> None:
    warm(("lua",))
    assert is_ready("lua")
    assert is_ready("")
    assert is_ready("no such language")


def test_importing_the_blocks_loads_neither_lexers_nor_the_parser() -> None:
    program = (
        "import sys; import agentcli.tui.blocks.answer as a; from agentcli.tui.model import AnswerItem;"
        "from agentcli.history.export.code_tokens import is_ready;"
        "assert not is_ready('python'); assert is_ready('diff');"
        "print([name for name in sys.modules if name.startswith(('pygments', 'markdown_it', 'linkify_it'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_removed_line_that_begins_with_dashes_is_no_header() -> None:
    lines = code_tokens.token_lines("--- a.sql\n+++ a.sql\n@@ -1,2 +1,1 @@\n--- note\n x", "diff")
    assert lines is not None
    assert [line[0][1] for line in lines] == ["heading", "heading", "heading", "removed", "name"]
