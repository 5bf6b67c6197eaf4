"""Read on what is not plain text: pictures, PDFs, notebooks, binaries, special files, and large files."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageFile

from agentcli.core.aio import AbortController, AbortReason
from agentcli.core.messages import ImageBlock
from agentcli.tools.base import Output, ToolContext
from agentcli.tools.documents import image, pdf, read
from agentcli.tools.documents import notebook as notebook_reader
from agentcli.tools.documents.pdf import PageRange, page_range
from agentcli.tools.documents.read import Read
from agentcli.tools.files import numbered_lines as read_text
from agentcli.tools.search.grep import Grep
from tests.support.hostile_pictures import endless_jpeg
from tests.tools.running import context_in, hits_of, run, text_of

pytestmark = pytest.mark.anyio


def picture(size: tuple[int, int] = (40, 30), format: str = "PNG", **more: Any) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, "teal").save(buffer, format, **more)
    return buffer.getvalue()


def noise(size: tuple[int, int], format: str) -> bytes:
    """What no format can make small."""
    buffer = io.BytesIO()
    data = random.Random(1).randbytes(size[0] * size[1] * 3)
    Image.frombytes("RGB", size, data).save(buffer, format, **({"quality": 95} if format == "JPEG" else {}))
    return buffer.getvalue()


def shown(output: Output) -> Image.Image:
    assert not isinstance(output.content, str), output.content
    (block,) = [block for block in output.content if isinstance(block, ImageBlock)]
    assert len(block.source["data"]) <= 5 * 1024 * 1024
    opened = Image.open(io.BytesIO(base64.b64decode(block.source["data"])))
    assert block.source["media_type"] == f"image/{str(opened.format).lower()}"
    return opened


@pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_a_picture_that_fits_is_sent_as_it_is_whatever_its_name(
    format: str, context: ToolContext, tmp_path: Path
) -> None:
    data = picture(format=format)
    (tmp_path / "picture.txt").write_bytes(data)
    output = await run(Read(), context, file_path="picture.txt")
    assert shown(output).size == (40, 30)
    assert base64.b64decode(output.content[1].source["data"]) == data  # type: ignore[union-attr,index]
    assert output.summary == "picture, 40×30"


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
async def test_a_large_picture_is_scaled_down_with_a_note(format: str, context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(picture((3136, 200), format))
    output = await run(Read(), context, file_path="a.png")
    assert shown(output).size == (1568, 100)
    assert "3136×200 in the file: multiply coordinates by 2.00" in text_of(output)


async def test_a_picture_of_noise_gets_small_enough(
    context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image, "MAX_IMAGE_SIZE", 100_000)
    (tmp_path / "a.png").write_bytes(noise((600, 500), "PNG"))
    output = await run(Read(), context, file_path="a.png")
    assert max(shown(output).size) <= 392, "halved until it fits"
    assert len(base64.b64decode(output.content[1].source["data"])) <= 100_000  # type: ignore[union-attr,index]


async def test_a_rotated_photo_is_shown_upright(context: ToolContext, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "a.jpg").write_bytes(picture((2000, 1000), "JPEG", exif=exif))
    output = await run(Read(), context, file_path="a.jpg")
    opened = shown(output)
    assert opened.height > opened.width
    assert "1000×2000 in the file" in text_of(output)


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n" + bytes(20),
        b"\x89PNG\r\n\x1a\n",
        picture()[:60],
        picture(format="JPEG")[:200],
        b"GIF89a",
        b"RIFF\x00\x00\x00\x00WEBPVP8 ",
    ],
)
async def test_a_damaged_picture_is_refused_not_sent(data: bytes, context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(data)
    output = await run(Read(), context, file_path="a.png")
    assert output.is_error
    assert "cannot be shown: it is damaged" in text_of(output)


async def test_a_picture_that_is_a_bomb_is_not_decoded(
    context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1_000)
    (tmp_path / "a.png").write_bytes(picture())
    assert "too many pixels" in text_of(await run(Read(), context, file_path="a.png"))


async def test_a_jpeg_of_endless_passes_is_not_decoded(
    context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "few.jpg").write_bytes(endless_jpeg(20))
    assert shown(await run(Read(), context, file_path="few.jpg")).size == (1_500, 1_500)
    (tmp_path / "many.jpg").write_bytes(endless_jpeg(1_000))
    monkeypatch.setattr(Image, "open", None)
    assert "more than 100 passes" in text_of(await run(Read(), context, file_path="many.jpg"))


async def test_pictures_of_many_pixels_and_few_bytes_are_not_decoded(
    context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = io.BytesIO()
    Image.new("1", (8_000, 8_000)).save(buffer, "PNG")
    (tmp_path / "a.png").write_bytes(buffer.getvalue())
    monkeypatch.setattr(ImageFile.ImageFile, "load", None)
    assert "8000×8000 pixels" in text_of(await run(Read(), context, file_path="a.png"))


def pdf_of(*texts: str) -> bytes:
    """A document with one line of text per page, written by hand: there is no simpler reference."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids = []
    for text in texts:
        number = len(objects) + 1
        kids.append(f"{number} 0 R")
        content = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET" if text else ""
        font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {number + 1} 0 R "
            f"/Resources << /Font << /F1 {font} >> >> >>"
        )
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(texts)} >>"
    out, places = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n" + "".join(f"{at:010} 00000 n \n" for at in places)
    out += f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n"
    return out.encode("latin-1")


@pytest.mark.usefixtures("pdf_in_process")
async def test_a_pdf_is_read_page_by_page(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf_of(*(f"Text of page {number}" for number in range(1, 26))))
    output = await run(Read(), context, file_path="a.pdf", pages="2-3")
    text = text_of(output)
    assert "--- page 2 of 25 ---\nText of page 2" in text
    assert "Text of page 3" in text
    assert "page 4" not in text
    assert '[Partial: pages 2–3 of 25. Continue with pages "4-23".]' in text
    assert output.summary == "2 of 25 pages"
    assert output.structured == {
        "type": "pdf", "path": str(context.cwd / "a.pdf"), "first_page": 2, "last_page": 3, "total_pages": 25
    }  # fmt: skip
    whole = text_of(await run(Read(), context, file_path="a.pdf"))
    assert '[Partial: pages 1–20 of 25. Continue with pages "21-25".]' in whole
    past = await run(Read(), context, file_path="a.pdf", pages="30")
    assert "has 25 pages; page 30 is past its end" in text_of(past)


async def test_a_page_without_text_is_shown_as_its_picture(context: ToolContext, tmp_path: Path) -> None:
    Image.new("RGB", (400, 1700), "white").save(tmp_path / "scan.pdf")
    output = await run(Read(), context, file_path="scan.pdf")
    assert max(shown(output).size) <= 1568
    assert "(as a picture)" in text_of(output)
    (tmp_path / "empty.pdf").write_bytes(pdf_of(""))
    assert "no text" in text_of(await run(Read(), context, file_path="empty.pdf"))


@pytest.mark.usefixtures("pdf_in_process")
@pytest.mark.parametrize("data", [b"%PDF-1.7\n", b"%PDF-1.4\n" + bytes(range(256)) * 40, pdf_of("x")[:200]])
async def test_a_damaged_pdf_is_an_error(data: bytes, context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(data)
    output = await run(Read(), context, file_path="a.pdf")
    assert "a.pdf is a PDF that cannot be read" in text_of(output)


async def test_a_pdf_that_takes_for_ever_is_given_up(
    context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf_of("x"))
    monkeypatch.setattr(pdf, "_SECONDS", 0)
    assert "took longer" in text_of(await run(Read(), context, file_path="a.pdf"))


async def test_an_abort_ends_the_reading_of_a_pdf(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(pdf_of("x"))
    controller = AbortController()
    controller.abort(AbortReason.USER_CANCEL)
    output = await run(Read(), context, controller.signal, file_path="a.pdf")
    assert output.summary == "interrupted"


async def test_a_page_range_for_another_format_is_ignored_with_a_note(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    text = text_of(await run(Read(), context, file_path="a.txt", pages="2"))
    assert text.startswith("1\tone\n2\ttwo\n\n[This is not a PDF, so pages was ignored.")
    assert "ignored" not in text_of(await run(Read(), context, file_path="a.txt"))


async def test_the_user_sees_invisible_characters_and_the_model_gets_the_original_text(
    context: ToolContext, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("if x: # \u202e } begin\u200b ä\n")
    spelled = "if x: # <U+202E> } begin<U+200B> ä"
    output = await run(Read(), context, file_path="a.txt")
    assert (text_of(output), output.display["text"]) == ("1\tif x: # \u202e } begin\u200b ä", spelled)
    found = await run(Grep(), context, pattern="begin", output_mode="content")
    assert hits_of(found) == "a.txt:1:if x: # \u202e } begin\u200b ä"
    assert found.display["text"] == f"a.txt:1:{spelled}"
    assert found.display["rows"][0]["text"] == spelled


def test_page_ranges_are_parsed() -> None:
    good = {"3": (3, 3), "1-5": (1, 5), " 2 – 4 ": (2, 4), "7-": (7, 26), "1-20": (1, 20)}
    assert {given: page_range(given) for given in good} == {given: PageRange(*pages) for given, pages in good.items()}
    for given in ("0", "x", "5-1", "1-21", "1,3", ""):
        assert isinstance(page_range(given), str), given


def notebook(*cells: dict[str, Any], minor: int = 5) -> str:
    return json.dumps({"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": minor}, indent=1)


def code(source: str, *outputs: dict[str, Any], **more: Any) -> dict[str, Any]:
    lines = source.splitlines(keepends=True)
    return {"cell_type": "code", "metadata": {}, "outputs": list(outputs), "source": lines, **more}


async def test_a_notebook_is_shown_by_cells_with_outputs(context: ToolContext, tmp_path: Path) -> None:
    plot = {
        "output_type": "display_data",
        "data": {"image/png": base64.b64encode(picture()).decode(), "text/plain": "?"},
    }
    failed = {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[31mTraceback\x1b[0m", "E: v"]}
    stream = {"output_type": "stream", "name": "stdout", "text": ["hello\n"]}
    result = {"output_type": "execute_result", "data": {"text/html": "<b>", "text/plain": ["4", "2"]}}
    (tmp_path / "a.ipynb").write_text(
        notebook(
            {"cell_type": "markdown", "id": "intro", "metadata": {}, "source": "# Title"},
            code("print('hello')\nplot()", stream, plot, result, id="work", execution_count=3),
            code("fail()", failed, id="bad"),
        )
    )
    output = await run(Read(), context, file_path="a.ipynb")
    text = text_of(output)
    assert '<cell id="intro" type="markdown">\n# Title\n</cell>' in text
    assert '<cell id="work" type="code" execution_count="3">\nprint(\'hello\')\nplot()\n</cell>' in text
    assert "<output>\nhello\n</output>" in text
    assert "<output>\n42\n</output>" in text
    assert "Traceback\nE: v" in text
    assert "\x1b" not in text
    assert shown(output).size == (40, 30)
    assert output.summary == "3 cells"


async def test_a_long_notebook_is_read_in_parts(context: ToolContext, tmp_path: Path) -> None:
    cells = [code(f"cell_{number}()", id=f"c{number}") for number in range(10)]
    (tmp_path / "a.ipynb").write_text(notebook(*cells))
    text = text_of(await run(Read(), context, file_path="a.ipynb", offset=3, limit=2))
    assert "cell_2()" in text
    assert "cell_4()" not in text
    assert "[Partial: cells 3–4 of 10. Continue with offset 5.]" in text
    assert "has 10 cells" in text_of(await run(Read(), context, file_path="a.ipynb", offset=99))


async def test_no_more_pictures_of_a_notebook_are_decoded_than_may_be_shown(
    context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[bytes] = []

    def damaged(data: bytes) -> image.Unshowable:
        decoded.append(data)
        return image.Unshowable("damaged")

    monkeypatch.setattr(notebook_reader, "fit_image", damaged)
    plot = {"output_type": "display_data", "data": {"image/png": base64.b64encode(picture()).decode()}}
    (tmp_path / "a.ipynb").write_text(notebook(*[code("a", *[plot] * 50, id="a")] * 3))
    assert "(a picture, not shown)" in text_of(await run(Read(), context, file_path="a.ipynb"))
    assert len(decoded) == 5


async def test_an_invalid_notebook_is_shown_as_text(context: ToolContext, tmp_path: Path) -> None:
    for content in ("{broken", "[]", '{"cells": 3}', '{"cells": [1]}'):
        (tmp_path / "a.ipynb").write_text(content)
        assert text_of(await run(Read(), context, file_path="a.ipynb")) == f"1\t{content}"


async def test_a_file_that_becomes_a_pipe_after_the_check_is_not_waited_for(
    context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("x")
    real = read.inspect

    def swapping(path: str, shown: str) -> Any:
        found = real(path, shown)
        Path(path).unlink()
        os.mkfifo(path)
        return found

    monkeypatch.setattr(read, "inspect", swapping)
    assert "not a regular file any more" in text_of(await run(Read(), context, file_path="a"))


async def test_a_folder_is_listed_without_hidden_files(tmp_path: Path) -> None:
    context = context_in(tmp_path, hides=lambda path: path.endswith("secret.txt"))
    (tmp_path / "sub/deeper").mkdir(parents=True)
    for name in ("b.txt", "a.txt", "secret.txt"):
        (tmp_path / "sub" / name).touch()
    output = await run(Read(), context, file_path="sub")
    assert text_of(output).endswith("It contains: a.txt, b.txt, deeper/.")
    assert "Did you mean" not in text_of(await run(Read(), context, file_path="sub/secret.tx"))
    (tmp_path / "sub/deeper/x\x1b[31m").touch()
    assert "\x1b" not in text_of(await run(Read(), context, file_path="sub/deeper"))


async def test_the_result_describes_the_read_for_programs_and_users(context: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\nb = 2\nc = 3\n")
    output = await run(Read(), context, file_path="a.py", offset=2, limit=1)
    assert output.summary == "1 of 3 lines"
    assert output.display == {
        "kind": "code", "path": "a.py", "language": "python", "text": "b = 2", "start": 2, "lines": 1
    }  # fmt: skip
    assert output.structured == {
        "type": "text", "path": str(context.cwd / "a.py"), "start_line": 2, "line_count": 1, "total_lines": 3,
        "encoding": "UTF-8",
    }  # fmt: skip
    assert Read().title({"file_path": "a.py", "offset": 2, "limit": 1}) == "Read a.py (lines 2–2)"


async def test_an_abort_stops_reading_a_large_file(
    context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "MAX_LOADED_SIZE", 1_000)
    monkeypatch.setattr(read_text, "_CHUNK", 64)
    (tmp_path / "big.txt").write_text("line\n" * 10_000)
    controller = AbortController()
    controller.abort(AbortReason.USER_CANCEL)
    output = await run(Read(), context, controller.signal, file_path="big.txt", offset=9_000)
    assert output.summary == "interrupted"


async def test_a_consumer_that_leaves_stops_reading_too(
    context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "MAX_LOADED_SIZE", 1_000)
    (tmp_path / "big.txt").write_text("line\n" * 1_000)
    walking, ended = threading.Event(), threading.Event()

    def endless(_real: str, _wanted: object, stopped: Any) -> Output:
        walking.set()
        while not stopped():
            pass
        ended.set()
        return Output("")

    monkeypatch.setattr(read, "read_large", endless)
    task = asyncio.ensure_future(run(Read(), context, file_path="big.txt"))
    await asyncio.to_thread(walking.wait)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    assert ended.is_set()


@pytest.mark.parametrize("offset", [1, 2, 3, 4, 5])
async def test_line_numbers_do_not_depend_on_how_the_file_is_read(
    offset: int, context: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\n\nfour with no end")
    small = text_of(await run(Read(), context, file_path="a.txt", offset=offset, limit=1))
    monkeypatch.setattr(read, "MAX_LOADED_SIZE", 4)
    monkeypatch.setattr(read_text, "_CHUNK", 3)
    large = text_of(await run(Read(), context, file_path="a.txt", offset=offset, limit=1))
    assert small.partition("\n")[0] == large.partition("\n")[0]
    assert ("past its end" in small) == ("past its end" in large) == (offset == 5)
