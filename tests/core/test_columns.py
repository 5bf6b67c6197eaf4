"""Where wrapped rows of text in columns begin."""

from __future__ import annotations

from agentcli.core.text.columns import find_hanging_indent
from tests.support.tables import each_row


@each_row(
    ("line", "width", "indent"),
    [
        ("a sentence of words. Another one.", 80, 0),
        ("  indented words", 80, 2),
        ("ok    Python        3.11 in a long sentence", 80, 20),
        ("warn  a longer name  and text", 80, 21),
        ("                    → a fix that is long", 80, 22),
        ("- an entry of a list", 80, 2),
        ("ok    Python        3.11 in a long sentence", 30, 6),
        ("                    → a fix", 20, 0),
        ("", 80, 0),
    ],
)
def test_rows_continue_below_the_last_column_unless_it_begins_too_far_right(line: str, width: int, indent: int) -> None:
    assert find_hanging_indent(line, width) == indent
