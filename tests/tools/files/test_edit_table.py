"""The table of edits, byte for byte: bytes before, what the model asks for, bytes after."""

from __future__ import annotations

import codecs
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentcli.core.aio import AbortController
from agentcli.core.messages import Json
from agentcli.tools.base import Output, Tool, ToolContext
from agentcli.tools.documents.read import Read
from agentcli.tools.files.edit import Edit, MultiEdit
from agentcli.tools.files.write import Write
from tests.tools.running import context_in, text_of

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Case:
    """`after` None: the call must be refused, and nothing changed."""

    name: str
    before: bytes
    input: Json
    after: bytes | None
    tool: type[Tool] = Edit


def edit(old: str, new: str, **more: object) -> Json:
    return {"old_string": old, "new_string": new, **more}


def edits(*pairs: tuple[str, str]) -> Json:
    return {"edits": [edit(old, new) for old, new in pairs]}


BOM, LE, BE = codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE
PYTHON = b"def area(width, height):\n    return width * height\n\n\ndef volume(area, depth):\n    return area * depth\n"
MIXED = b"one\r\ntwo\nthree\r\nfour\n"
LARGE = b"".join(b"value_%06d = compute(%d)\n" % (number, number) for number in range(200_000))
WIDE = b"{" + b",".join(b'"key%d":%d' % (number, number) for number in range(20_000)) + b"}"
DAMAGED = "Grüße an alle, schöne Straße\n".encode() + b"\xff\xfe raw\n" + "ä ö ü\n".encode()
SJIS = "これは日本語のテキストです。\nカタカナもあります。\n"
GB = "这是一个用来测试编码识别的中文文件，里面有很多常用的汉字。\n我们希望它能够正确显示。\n"

CASES: tuple[Case, ...] = (
    # plain
    Case("a word", PYTHON, edit("width * height", "height"), PYTHON.replace(b"width * height", b"height")),
    Case("a line and its indentation", PYTHON, edit("    return area * depth\n", "    return depth * area\n"),
         PYTHON.replace(b"area * depth", b"depth * area")),
    Case("lines in", PYTHON, edit("\n\n\ndef volume", "\n\n\nX = 1\n\n\ndef volume"),
         PYTHON.replace(b"\n\n\ndef", b"\n\n\nX = 1\n\n\ndef")),
    Case("lines out", PYTHON, edit("\n\n\ndef volume(area, depth):\n    return area * depth\n", "\n"),
         b"def area(width, height):\n    return width * height\n"),
    Case("to nothing", b"abc", edit("b", ""), b"ac"),
    Case("the whole file to nothing", b"abc\n", edit("abc\n", ""), b""),
    Case("every occurrence", b"a b a b a", edit("a", "x", replace_all=True), b"x b x b x"),
    Case("every occurrence, growing", b"aaa", edit("a", "aa", replace_all=True), b"aaaaaa"),
    Case("every occurrence over lines", b"a\nb\na\nb\n", edit("a\nb", "c", replace_all=True), b"c\nc\n"),
    Case("dollars and backslashes", b"x = '\\1 $& \\n'\n", edit("\\1 $&", "\\g<0> \\2"), b"x = '\\g<0> \\2 \\n'\n"),
    Case("regular expression characters", b"a.*b(c)[d]\n", edit(".*b(c)[d]", "+?"), b"a+?\n"),
    # ends of files and lines
    Case("no final newline", b"a\nb", edit("b", "c"), b"a\nc"),
    Case("a final newline added", b"a\nb", edit("b", "b\n"), b"a\nb\n"),
    Case("a final newline taken", b"a\nb\n", edit("b\n", "b"), b"a\nb"),
    Case("blank lines at the end", b"a\n\n\n", edit("a", "b"), b"b\n\n\n"),
    Case("CRLF, one line", b"a\r\nb\r\n", edit("a", "x"), b"x\r\nb\r\n"),
    Case("CRLF, several lines", b"a\r\nb\r\nc\r\n", edit("a\nb", "x\ny\nz"), b"x\r\ny\r\nz\r\nc\r\n"),
    Case("CRLF, asked for as CRLF", b"a\r\nb\r\n", edit("a\r\nb", "x\r\ny"), b"x\r\ny\r\n"),
    Case("CRLF, no final line end", b"a\r\nb", edit("b", "c\nd"), b"a\r\nc\r\nd"),
    Case("CR alone", b"a\rb\rc\r", edit("a\nb", "x\ny"), b"x\ry\rc\r"),
    Case("mixed, untouched elsewhere", MIXED, edit("two", "2"), MIXED.replace(b"two", b"2")),
    Case("mixed, across both kinds", MIXED, edit("one\ntwo\nthree", "1\n2\n3"), b"1\r\n2\n3\r\nfour\n"),
    Case("mixed, a line between", MIXED, edit("one\ntwo", "one\nhalf\ntwo"), b"one\r\nhalf\r\ntwo\nthree\r\nfour\n"),
    Case("a lone carriage return inside", b"a\rb\nc\n", edit("c", "d"), b"a\rb\nd\n"),
    Case("form feed and vertical tab", b"a\x0cb\x0bc\n", edit("b", "x"), b"a\x0cx\x0bc\n"),
    Case("line separators of Unicode", "a\u2028b\u0085c\n".encode(), edit("b", "x"), "a\u2028x\u0085c\n".encode()),
    # blanks
    Case("tabs", b"\tif x:\n\t\treturn\n", edit("\t\treturn", "\t\tpass"), b"\tif x:\n\t\tpass\n"),
    Case("trailing blanks kept", b"a  \nb\t\nc\n", edit("c", "d"), b"a  \nb\t\nd\n"),
    Case("trailing blanks overlooked, kept", b"a  \nb\nc\n", edit("a\nb", "a\nx"), b"a  \nx\nc\n"),
    Case("trailing blanks that are not there", b"a\nb\n", edit("a  \nb", "a\nx"), b"a\nx\n"),
    Case("indentation is not guessed", b"\treturn 1\n", edit("    return 1", "    return 2"), None),
    Case("inner blanks are not guessed", b"f(a, b)\n", edit("f(a,b)", "f(b,a)"), None),
    # letters
    Case("accents", "naïve café\n".encode(), edit("café", "thé"), "naïve thé\n".encode()),
    Case("emoji with joiners", "👩‍👩‍👧 ok\n".encode(), edit("ok", "fine"), "👩‍👩‍👧 fine\n".encode()),
    Case("combining, not composed", "e\u0301 a\n".encode(), edit("a", "b"), "e\u0301 b\n".encode()),
    Case("right to left", "שלום a\n".encode(), edit("a", "b"), "שלום b\n".encode()),
    Case("quotes overlooked, kept", "say “hi” now\n".encode(), edit('say "hi" now', 'say "hi" later'),
         "say “hi” later\n".encode()),
    Case("dash overlooked, kept", "1–2 km\n".encode(), edit("1-2 km", "1-2 miles"), "1–2 miles\n".encode()),
    Case("no-break space overlooked, kept", "10\u00a0km\n".encode(), edit("10 km", "11 km"), "11\u00a0km\n".encode()),
    Case("two places alike are not guessed between", "“a” 'a' ‘a’ \"b\"\n".encode(), edit("’a’", "x"), None),
    # encodings
    Case("UTF-8 with mark", BOM + b"a\r\nb\r\n", edit("b", "c"), BOM + b"a\r\nc\r\n"),
    Case("UTF-16 little endian", LE + "a\r\nü\r\n".encode("utf-16-le"), edit("ü", "日\n本"),
         LE + "a\r\n日\r\n本\r\n".encode("utf-16-le")),
    Case("UTF-16 big endian", BE + "a\nb".encode("utf-16-be"), edit("b", "𝄞"), BE + "a\n𝄞".encode("utf-16-be")),
    Case("UTF-16 without mark", "key = value\r\n".encode("utf-16-le"), edit("value", "größe"),
         "key = größe\r\n".encode("utf-16-le")),
    Case("UTF-32", codecs.BOM_UTF32_LE + "a b".encode("utf-32-le"), edit("b", "c"),
         codecs.BOM_UTF32_LE + "a c".encode("utf-32-le")),
    Case("Latin-1", b"caf\xe9 a\n", edit("a\n", "\xe0\n"), b"caf\xe9 \xe0\n"),
    Case("Latin-1 lacks it", b"caf\xe9\n", edit("caf", "日"), None),
    Case("Windows-1252", b"it\x92s 5 \x80\n", edit("5", "6"), b"it\x92s 6 \x80\n"),
    Case("Shift_JIS", SJIS.encode("cp932"), edit("日本語", "漢字"), SJIS.replace("日本語", "漢字").encode("cp932")),
    Case("GB18030", GB.encode("gb18030"), edit("测试", "检查"), GB.replace("测试", "检查").encode("gb18030")),
    Case("UTF-8 with bad bytes", DAMAGED, edit("alle", "niemand"), DAMAGED.replace(b"alle", b"niemand")),
    Case("binary is not edited", b"\x7fELF\x00\x01a\x02", edit("a", "b"), None),
    # size
    Case("7 MB, one line in 200,000", LARGE, edit("value_123456 = compute(123456)", "value_123456 = 0"),
         LARGE.replace(b"value_123456 = compute(123456)", b"value_123456 = 0")),
    Case("7 MB, 200,000 places", LARGE, edit("compute(", "c(", replace_all=True), LARGE.replace(b"compute(", b"c(")),
    Case("one line of 350 kB", WIDE, edit('"key19999":19999', '"key19999":0'), WIDE.replace(b":19999}", b":0}")),
    # refusals
    Case("not there", PYTHON, edit("width + height", "x"), None),
    Case("there twice", PYTHON, edit("return", "x"), None),
    Case("there twice, overlapping", b"aaa\n", edit("aa", "b"), None),
    Case("nothing, in a file with something", b"a\n", edit("", "b"), None),
    # several at once
    Case("several", PYTHON, edits(("width, height", "w, h"), ("width * height", "w * h")),
         PYTHON.replace(b"width, height", b"w, h").replace(b"width * height", b"w * h"), MultiEdit),
    Case("several, one after the other", b"a\n", edits(("a", "b"), ("b", "c"), ("c", "d\ne")), b"d\ne\n", MultiEdit),
    Case("several, CRLF", b"a\r\nb\r\n", edits(("a", "1\n2"), ("2\nb", "3")), b"1\r\n3\r\n", MultiEdit),
    Case("several, the last one fails", b"a\nb\n", edits(("a", "x"), ("nowhere to be found", "y")), None, MultiEdit),
    # whole files
    Case("whole, CRLF and mark kept", BOM + b"a\r\nb\r\n", {"content": "c\nd\n"}, BOM + b"c\r\nd\r\n", Write),
    Case("whole, mixed kept where it stays", MIXED, {"content": "one\ntwo\nnew\nthree\nfour\n"},
         b"one\r\ntwo\nnew\nthree\r\nfour\n", Write),
    Case("whole, UTF-16 kept", LE + "a\n".encode("utf-16-le"), {"content": "ü\n"},
         LE + "ü\n".encode("utf-16-le"), Write),
    Case("whole, no final newline", b"a\n", {"content": "b"}, b"b", Write),
)  # fmt: skip


async def applied(case: Case, context: ToolContext) -> tuple[bytes, Output]:
    """What is in the file after the call, and what the call said."""
    path = context.cwd / "file.txt"
    path.write_bytes(case.before)
    if not case.before.startswith(b"\x7fELF"):
        await _run(Read(), {"file_path": "file.txt"}, context)
    # What is edited may lie beyond what Read shows at once.
    context.read_cache.note(str(path), case.before)
    output = await _run(case.tool(), {"file_path": "file.txt", **case.input}, context)
    return path.read_bytes(), output


def exact(case: Case, found: bytes, output: Output) -> bool:
    if case.after is None:
        return output.is_error and found == case.before
    return not output.is_error and found == case.after


async def _run(tool: Tool, input: Json, context: ToolContext) -> Output:
    async with aclosing(tool.run(input, context, AbortController().signal)) as items:
        async for item in items:
            if isinstance(item, Output):
                return item
    raise AssertionError("a tool ends with an output")


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_an_edit_is_exact_to_the_byte(case: Case, tmp_path: Path) -> None:
    found, output = await applied(case, context_in(tmp_path))
    assert exact(case, found, output), (text_of(output), found[:300])
