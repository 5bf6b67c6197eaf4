"""Read, Write and Edit on real files."""

from __future__ import annotations

import codecs
import os
import stat
from pathlib import Path

import pytest

from agentcli.tools.base import Output, ToolContext, absolute_path
from agentcli.tools.documents import read
from agentcli.tools.documents.read import Read
from agentcli.tools.files.edit import Edit
from agentcli.tools.files.write import Write
from tests.support.tables import each_row
from tests.tools.running import context_in, names_in, run, text_of

pytestmark = pytest.mark.anyio


async def read_then_edit(context: ToolContext, name: str, old: str, new: str, **more: object) -> Output:
    await run(Read(), context, file_path=name)
    return await run(Edit(), context, file_path=name, old_string=old, new_string=new, **more)


@each_row("given", ["etc/hosts", "./etc/hosts", "../etc/hosts", "/etc/hosts"])
def test_a_path_in_the_root_folder_has_one_slash_in_front(given: str) -> None:
    assert absolute_path(given, context_in(Path("/"))) == "/etc/hosts"


async def test_offset_and_limit_show_a_part_with_a_note(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 11)))
    output = await run(Read(), context, file_path="a.txt", offset=3, limit=2)
    assert text_of(output) == "3\tline 3\n4\tline 4\n\n[Partial: lines 3–4 of 10. Continue with offset 5.]"
    last = await run(Read(), context, file_path="a.txt", offset=10)
    assert text_of(last).endswith("[Partial: lines 10–10 of 10.]")


async def test_long_files_and_lines_are_cut_with_a_note(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("z" * 5000 + "\n" + "x\n" * 2999)
    text = text_of(await run(Read(), context, file_path="a.txt"))
    assert "lines 1–2,000 of 3,000. Continue with offset 2001." in text
    assert "3,000 more characters" in text
    assert "cut at 2,000 characters" in text


async def test_file_kinds_are_recognised(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty").write_text("")
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 10)
    (tmp_path / "three.txt").write_text("1\n2\n3\n")
    os.mkfifo(tmp_path / "pipe")
    os.mknod(tmp_path / "socket", stat.S_IFSOCK | 0o600)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    cases = {
        "folder": "is a directory", "empty": "exists and is empty", "binary": "is a binary file (2,560 bytes)",
        "pipe": "is a named pipe", "socket": "is a socket", "/dev/zero": "is a character device",
        "/proc/self/environ": "belongs to the kernel", "dangling": "does not exist",
        "thre.txt": "Did you mean three.txt?",
    }  # fmt: skip
    for name, expected in cases.items():
        output = await run(Read(), context, file_path=name)
        assert expected in text_of(output), name
        assert output.is_error is (name != "empty")
    past = await run(Read(), context, file_path="three.txt", offset=9)
    assert "has 3 lines; offset 9 is past its end" in text_of(past)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (codecs.BOM_UTF8 + "é\n".encode(), "1\té"),
        (codecs.BOM_UTF16_LE + "é\n".encode("utf-16-le"), "1\té\n\n[Encoding: UTF-16-LE with a byte order mark.]"),
        ("é\n".encode("latin-1"), "1\té\n\n[Encoding: Latin-1.]"),
        (b"a\r\nb\r\n", "1\ta\n2\tb"),
        (b"a\x1b[31mb\x00"[:-1], "1\ta␛[31mb"),
    ],
)
async def test_encodings_and_control_characters_are_shown_readably(
    data: bytes, expected: str, context: ToolContext, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    assert text_of(await run(Read(), context, file_path="a.txt")) == expected


async def test_a_file_too_large_to_load_is_streamed_by_offset(
    context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "MAX_LOADED_SIZE", 1_000)
    (tmp_path / "big.txt").write_text("".join(f"row {number}\n" for number in range(1, 1001)) + "w" * 20_000 + "\nlast")
    output = await run(Read(), context, file_path="big.txt", offset=500, limit=2)
    size = f"The file has {(tmp_path / 'big.txt').stat().st_size:,} bytes."
    assert (
        text_of(output) == f"500\trow 500\n501\trow 501\n\n[Partial: lines 500–501. Continue with offset 502. {size}]"
    )
    end = text_of(await run(Read(), context, file_path="big.txt", offset=1001, limit=5))
    assert "1002\tlast" in end
    assert "past its end" in text_of(await run(Read(), context, file_path="big.txt", offset=5000))


async def test_a_home_path_is_expanded(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    context = context_in(tmp_path / "elsewhere", environ={"HOME": str(tmp_path)})
    assert text_of(await run(Read(), context, file_path="~/a.txt")) == "1\tx"


async def test_a_new_file_is_created_with_its_folders(context: ToolContext, tmp_path: Path) -> None:
    output = await run(Write(), context, file_path="a/b/c.txt", content="one\ntwo\n")
    assert (tmp_path / "a/b/c.txt").read_text() == "one\ntwo\n"
    assert text_of(output) == "Created a/b/c.txt (2 lines)."
    assert output.display == {
        "kind": "diff",
        "path": "a/b/c.txt",
        "diff": "@@ -0,0 +1,2 @@\n+one\n+two",
        "added": 2,
        "removed": 0,
        "language": "",
    }
    assert names_in(tmp_path / "a/b") == ["c.txt"]


async def test_an_existing_file_must_have_been_read(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    refused = await run(Write(), context, file_path="a.txt", content="new")
    assert refused.is_error
    assert "it was not read, or it changed since it was read" in text_of(refused)
    await run(Read(), context, file_path="a.txt")
    assert not (await run(Write(), context, file_path="a.txt", content="new")).is_error
    assert not (await run(Write(), context, file_path="a.txt", content="newer")).is_error, "what was written is known"


async def test_a_change_in_the_same_second_is_noticed_by_content(context: ToolContext, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one")
    await run(Read(), context, file_path="a.txt")
    times = path.stat()
    path.write_text("two")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    for tool, more in ((Write(), {"content": "x"}), (Edit(), {"old_string": "two", "new_string": "x"})):
        refused = await run(tool, context, file_path="a.txt", **more)
        assert "has changed since it was read" in text_of(refused)
    assert path.read_text() == "two"


async def test_a_read_only_file_is_an_error_and_untouched(context: ToolContext, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(0o444)
    await run(Read(), context, file_path="a.txt")
    output = await run(Write(), context, file_path="a.txt", content="new")
    assert "read-only" in text_of(output)
    assert path.read_text() == "old"


async def test_writing_onto_a_directory_or_through_a_file_is_an_error(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    assert "is a directory" in text_of(await run(Write(), context, file_path="folder", content="x"))
    assert (await run(Write(), context, file_path="file/below", content="x")).is_error


def test_an_edit_that_changes_nothing_is_refused_beforehand(context: ToolContext) -> None:
    edit = Edit()
    assert "nothing to change" in str(edit.check({"file_path": "a", "old_string": "x", "new_string": "x"}, context))
    assert "NotebookEdit" in str(edit.check({"file_path": "a.ipynb", "old_string": "y", "new_string": "x"}, context))


async def test_a_large_file_with_a_small_change_has_a_small_diff(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{number}\n" for number in range(100_000)))
    output = await read_then_edit(context, "a.txt", "\n50000\n", "\nfifty thousand\n")
    assert output.display["diff"].splitlines()[0] == "@@ -49998,7 +49998,7 @@"
    assert (output.display["added"], output.display["removed"]) == (1, 1)


def test_writing_tools_need_to_write_and_are_not_safe(context: ToolContext, tmp_path: Path) -> None:
    for tool in (Write(), Edit()):
        assert not tool.is_safe({})
        (need,) = tool.needs({"file_path": "sub/../a.txt"}, context)
        assert (need.kind, need.target) == ("write", f"{context.cwd}/a.txt")
