"""`@path` in instruction files: what is an import, and what only looks like one."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from agentcli.memory.instruction_text import MAX_IMPORTS, find_imports, is_meant
from tests.support.tables import each_row


@each_row(
    ("text", "paths"),
    [
        ("@AGENTS.md", [("AGENTS.md",)]),
        ("see @docs/style.md for more", [("docs/style.md",)]),
        ("- @./a.md\n- @../b.md\n- @~/c.md\n- @/d.md", [("./a.md",), ("../b.md",), ("~/c.md",), ("/d.md",)]),
        ("Look at @docs/style.md.", [("docs/style.md.", "docs/style.md")]),
        ("(see @a.md), @b.md!", [("a.md),", "a.md"), ("b.md!", "b.md")]),
        (r"@my\ notes.md", [("my notes.md",)]),
        ("@a.md @a.md", [("a.md",)]),
        ("mail me@example.org", []),
        ("@ @@ @# @.. @./ @~/ @(x)", []),
        ("run `npm i @types/node` now", []),
        ("``a ` @b.md`` @c.md", [("c.md",)]),
        ("`open @a.md", [("a.md",)]),
        ("`open\n\n@a.md `", [("a.md",)]),
        ("```sh\n@a.md\n```\n@b.md", [("b.md",)]),
        ("~~~\n```\n@a.md\n~~~\n@b.md", [("b.md",)]),
        ("````\n```\n@a.md\n````\n@b.md", [("b.md",)]),
        ("```\n@never-closed.md", []),
        ("- ```\n  @a.md\n  ```", []),
        ("<!-- @a.md -->@b.md\n@c.md", [("b.md",), ("c.md",)]),
        ("<!-- @a.md", [("a.md",)]),
        ("`a`@b.md", []),
    ],
)
def test_imports_are_recognised(text: str, paths: list[tuple[str, ...]]) -> None:
    assert find_imports(text) == paths


def test_a_file_imports_only_so_many() -> None:
    assert len(find_imports("\n".join(f"@{n}.md" for n in range(1_000)))) == MAX_IMPORTS


@each_row(("path", "meant"), [("alice", False), ("types/node", False), ("x.md", True), ("./x", True)])
def test_mentions_of_people_and_packages_are_not_reported_as_missing(path: str, meant: bool) -> None:
    assert is_meant(path) is meant


@given(st.text(alphabet="`~@ab.\n <!->/\\", max_size=300))
def test_any_text_can_be_searched_for_imports(text: str) -> None:
    for path, *_shorter in find_imports(text):
        # A code span within the path is left out, so the results are in the text in this order, with gaps.
        rest = iter(text[text.index("@") :])
        assert path
        assert all(character in rest for character in path)


@each_row("piece", ["`", "``` ", "<!--", "` `` ", "@a ", "- - ", "> > ", "\n\n`", "\\ @"])
def test_hostile_texts_take_no_longer_than_long_ones(piece: str) -> None:
    began = time.process_time()
    find_imports(piece * (40_000 // len(piece)))
    assert time.process_time() - began < 1


@each_row("step", [1, -1])
def test_runs_of_many_lengths_take_no_longer_in_one_text_than_in_many(step: int) -> None:
    def write_runs(count: int) -> str:
        return "a " + " ".join("`" * length for length in range(1, count + 1)[::step])

    def measure(text: str, repeats: int) -> float:
        began = time.process_time()
        for _ in range(repeats):
            find_imports(text)
        return time.process_time() - began

    one, short = write_runs(1_200), write_runs(120)
    repeats = len(one) // len(short)
    # The fastest of three. A search of the rest of the text for each run would take ten times as long.
    assert min(measure(one, 1) for _ in range(3)) < 4 * min(measure(short, repeats) for _ in range(3))
