"""The parser of diffs: files, renames, modes, text around them, and that no line is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentcli.core.text.unified_diff import FileDiff, contains_diff, is_diff, line_kinds, parse_files, split_files
from tests.support.tables import each_row

SHOW = """\
commit 1234
Author: A

    A message
    - with a list

diff --git a/old.py b/new.py
similarity index 90%
rename from old.py
rename to new.py
index 1..2 100644
--- a/old.py
+++ b/new.py
@@ -1,2 +1,2 @@ def f():
-one
+two
 same
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git a/data.bin b/data.bin
index 1..2 100644
Binary files a/data.bin and b/data.bin differ

commit 5678
diff --git a/gone.sql b/gone.sql
deleted file mode 100644
index 1..0
--- a/gone.sql
+++ /dev/null
@@ -1 +0,0 @@
--- a comment
\\ No newline at end of file
the end"""


def test_files_have_names_states_remarks_and_counts() -> None:
    files = parse_files(SHOW)
    assert [(file.path, file.state, file.remarks(), file.added, file.removed) for file in files] == [
        ("new.py", "renamed", ["renamed from old.py"], 1, 1),
        ("run.sh", "modified", ["mode 100644 → 100755"], 0, 0),
        ("data.bin", "modified", ["binary"], 0, 0),
        ("gone.sql", "deleted", ["deleted"], 0, 1),
        ("", "modified", [], 0, 0),
    ]
    assert files[0].hunks[0].heading == "def f():"
    assert files[3].hunks[0].lines[0].text == "-- a comment", "a line of code is no header"
    assert files[0].before[-2:] == ("    - with a list", "")
    assert files[3].before == ("", "commit 5678")
    assert files[4].before == ("the end",)


def test_output_of_diff_u_is_read_too() -> None:
    plain = "--- a.txt\t2026-01-01 10:00\n+++ b.txt\t2026-01-02\n@@ -1 +1 @@\n-a\n+b\n--- c\n+++ d\n@@ -1 +1 @@\n-c\n+d"
    assert [(file.path, file.added) for file in parse_files(plain)] == [("b.txt", 1), ("d", 1)]


@each_row(
    ("header", "path"),
    [
        ('diff --git "a/t\\tb" "b/t\\tb"\nnew file mode 100644', "t\tb"),
        ('diff --git "a/\\303\\244.txt" "b/\\303\\244.txt"\nold mode 1\nnew mode 2', "ä.txt"),
        ("diff --git a/with a blank b/with a blank\nold mode 1\nnew mode 2", "with a blank"),
        ("diff --git a/x y b/x y\n--- a/x y\t\n+++ b/x y\t\n@@ -1 +1 @@\n-a\n+b", "x y"),
        ("diff --git a/ b/ b/ b/\nold mode 1\nnew mode 2", " b/"),
    ],
)
def test_names_are_read_as_git_quotes_them(header: str, path: str) -> None:
    assert [file.path for file in parse_files(header)] == [path]


@each_row(
    ("text", "expected"),
    [
        (SHOW, True),
        ("diff --git a/x b/x\nold mode 1\nnew mode 2\n", True),
        ("--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b", True),
        ("- a list\n+ of things\n", False),
        ("--- a heading\nand text\n", False),
        ("@@ -1 +1 @@\n-a\n+b", False),
        ("see diff --git a/x b/x", False),
    ],
)
def test_a_diff_is_recognised_by_its_headers(text: str, expected: bool) -> None:
    assert contains_diff(text) is expected


DIFF = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
COMMIT = "commit 0123abcd (HEAD -> main)\nAuthor: A <a@b.c>\nDate:   Mon\n\n    A title\n\n"


@each_row(
    ("text", "expected"),
    [
        (DIFF, True),
        (f"{COMMIT}{DIFF}\n{COMMIT}{DIFF}", True),
        (f"{COMMIT}---\n x | 2 +-\n 1 file changed, 1 insertion(+), 1 deletion(-)\n\n{DIFF}", True),
        (f"Only in a: y\ndiff -r -u a/x b/x\n{DIFF.partition(chr(10))[2]}", True),
        (f"{DIFF}=== 3 passed in 0.1s ===\n", False),
        (f"running the tests\n{DIFF}", False),
        (f"{DIFF}On branch main\n{DIFF}", False),
        ("no diff at all", False),
    ],
)
def test_output_is_a_diff_only_without_any_other_text(text: str, expected: bool) -> None:
    assert is_diff(text) is expected


def test_carriage_returns_are_left_out_only_where_every_line_has_one() -> None:
    header = "--- a\n+++ b\n@@ -1 +1 @@\n"
    [file] = parse_files(f"{header}-a\r\n+b\r\n")
    assert [line.text for line in file.hunks[0].lines] == ["a", "b"]
    [file] = parse_files(f"{header}-a\r\n+a\n")
    assert [line.text for line in file.hunks[0].lines] == ["a\r", "a"]


def test_the_text_of_each_file_is_extracted_verbatim() -> None:
    text = SHOW[SHOW.index("diff --git") :].replace("\n\ncommit 5678", "")
    assert "".join(split_files(text)) == text
    assert [part.splitlines()[0] for part in split_files(text)] == [
        line for line in text.splitlines() if line.startswith("diff --git")
    ]


def shown(file: FileDiff) -> list[str]:
    code = [line.sign + line.text for hunk in file.hunks for line in hunk.lines]
    return [*file.before, *file.header, *(hunk.title for hunk in file.hunks), *code]


LINES = st.sampled_from(
    ["diff --git a/x b/x", "--- a/x", "+++ b/x", "@@ -1,2 +1,2 @@", "+a", "-b", " c", "text", "", "index 1", "\\ No"]
)


@given(st.lists(LINES, max_size=14))
def test_no_line_is_lost_whatever_the_order(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert [line for line, _kind in line_kinds(text)] == text.split("\n")
    found = sorted(line.removeprefix("\\ ").strip() for file in parse_files(text) for line in shown(file))
    expected = text.rstrip("\n").split("\n") if text.strip("\n") else []
    assert found == sorted(line.removeprefix("\\ ").strip() for line in expected)
