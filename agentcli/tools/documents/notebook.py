"""A Jupyter notebook as Read shows it: cells with ids, sources and outputs. Pure; changes nothing."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

from agentcli.core.files.access import is_too_deep
from agentcli.core.frozen import frozen
from agentcli.core.messages import ImageBlock, Json, TextBlock
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_text, spell_hidden
from agentcli.tools.base import Output, failure
from agentcli.tools.documents.image import Picture, fit_image
from agentcli.tools.files.numbered_lines import MAX_CHARACTERS, Wanted, make_legible

_MAX_OF_A_SOURCE = 20_000
_MAX_OF_AN_OUTPUT = 4_000
_MAX_PICTURES = 5
"""Maximum pictures that are decoded."""
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")


@frozen
class ShownNotebook:
    output: Output
    whole: bool
    """Whether every source was shown completely; outputs do not count, as they are not edited."""


def parse_notebook(text: str) -> Json | None:
    try:
        # Jupyter writes NaN in outputs, which is not valid JSON.
        notebook = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if is_too_deep(notebook):
        return None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        return None
    return notebook if isinstance(notebook, dict) else None


def cell_id(cell: Json, index: int) -> str:
    """The id of a cell. Older notebooks have none: their cells are `cell-0`, `cell-1` … by position."""
    given = cell.get("id")
    return given if isinstance(given, str) and given else f"cell-{index}"


def source_of(value: object) -> str:
    """Text that may be stored as a list of lines."""
    return "".join(map(str, value)) if isinstance(value, list) else str(value or "")


def show_notebook(notebook: Json, wanted: Wanted) -> ShownNotebook:
    cells: list[Json] = notebook["cells"]
    if not cells:
        return ShownNotebook(Output(f"{wanted.shown} is a notebook without cells.", summary="0 cells"), whole=True)
    if wanted.offset > len(cells):
        text = f"{wanted.shown} has {counted(len(cells), 'cell')}; offset {wanted.offset} is past its end."
        return ShownNotebook(failure(text, summary="past the end"), whole=False)
    blocks: list[TextBlock | ImageBlock] = []
    size, last, cut = 0, wanted.offset, False
    # Pictures that turn out to be damaged count, too: decoding them takes as long.
    tries = iter(range(_MAX_PICTURES))
    for index in range(wanted.offset - 1, min(len(cells), wanted.offset - 1 + wanted.limit)):
        parts, long = _cell(cells[index], index, tries)
        length = sum(len(part.text) for part in parts if isinstance(part, TextBlock))
        if size and size + length > MAX_CHARACTERS:
            break
        size, last, cut = size + length, index + 1, cut or long
        blocks += parts
    partial = wanted.offset > 1 or last < len(cells)
    if partial:
        more = f" Continue with offset {last + 1}." if last < len(cells) else ""
        blocks.append(TextBlock(f"[Partial: cells {wanted.offset}–{last} of {len(cells)}.{more}]"))
    count = last - wanted.offset + 1
    summary = f"{count} of {counted(len(cells), 'cell')}" if partial else counted(count, "cell")
    texts = "\n".join(block.text for block in blocks if isinstance(block, TextBlock))
    output = Output(
        tuple(blocks),
        summary=summary,
        display={"kind": "text", "path": wanted.shown, "text": spell_hidden(texts[:10_000])},
        structured={
            "type": "notebook",
            "path": wanted.path,
            "first_cell": wanted.offset,
            "cell_count": count,
            "total_cells": len(cells),
        },
    )
    return ShownNotebook(output, whole=not partial and not cut)


def _cell(cell: Json, index: int, tries: Iterator[int]) -> tuple[list[TextBlock | ImageBlock], bool]:
    kind = str(cell.get("cell_type") or "raw")
    ran = f' execution_count="{cell["execution_count"]}"' if isinstance(cell.get("execution_count"), int) else ""
    source = make_legible(source_of(cell.get("source")))
    long = len(source) > _MAX_OF_A_SOURCE
    body = _cap(source, _MAX_OF_A_SOURCE)
    parts: list[TextBlock | ImageBlock] = []
    text = f'<cell id="{make_legible(cell_id(cell, index))}" type="{make_legible(kind)}"{ran}>\n{body}\n</cell>'
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else []:
        if not isinstance(output, dict):
            continue
        for part in _output(output, tries):
            if isinstance(part, str):
                text += f"\n<output>\n{part}\n</output>"
            else:
                # The API refuses empty text.
                parts += [TextBlock(text), part] if text.strip() else [part]
                text = ""
    return [*parts, *([TextBlock(text.lstrip("\n"))] if text.strip() else [])], long


def _output(output: Json, tries: Iterator[int]) -> Iterator[str | ImageBlock]:
    match output.get("output_type"):
        case "stream":
            yield _clean(source_of(output.get("text")))
        case "error":
            trace = source_of([f"{line}\n" for line in output.get("traceback") or ()])
            yield _clean(trace) or f"{output.get('ename')}: {output.get('evalue')}"
        case _:
            data = output.get("data")
            yield from _rich_output(data if isinstance(data, dict) else {}, tries)


def _rich_output(data: dict[str, Any], tries: Iterator[int]) -> Iterator[str | ImageBlock]:
    for kind in _PICTURES:
        if kind in data:
            if next(tries, None) is None:
                yield "(a picture, not shown)"
                return
            block = _picture(source_of(data[kind]))
            if block is not None:
                yield block
                return
    for kind in ("text/markdown", "text/plain", "text/latex", "application/json"):
        if kind in data:
            value = data[kind]
            text = value if isinstance(value, str | list) else json.dumps(value, ensure_ascii=False)
            yield _clean(source_of(text))
            return
    if data:
        yield f"({', '.join(map(str, data))}, not shown)"


def _picture(encoded: str) -> ImageBlock | None:
    try:
        picture = fit_image(base64.b64decode(re.sub(r"\s", "", encoded)))
    except ValueError:
        return None
    return picture.block() if isinstance(picture, Picture) else None


def _clean(text: str) -> str:
    return _cap(make_legible(plain_text(text)).rstrip(), _MAX_OF_AN_OUTPUT)


def _cap(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… [{counted(len(text) - most, 'more character')}]"
