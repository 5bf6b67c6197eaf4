"""The content of the prompt box as a value: text with chips, and the piece behind each chip.

A chip is a part of the text (`[Pasted #1: 120 lines]`) that stands for content too large for the box, or for an image.
The user sees and edits the text; pieces are looked up by the chip's text. No widgets here.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from agentcli.core.files.bounded_read import Unread, read_bounded
from agentcli.core.frozen import frozen
from agentcli.core.messages import Block, ImageBlock, Json, TextBlock, clean_text
from agentcli.core.text.plaintext import plain_line

CHIP = re.compile(r"\[(?:Pasted|Image) #\d{1,9}: [^\[\]\n]{1,80}\]")
"""Text that looks like a chip. It is one only if there is a piece for it."""
_MAX_NAME = 40
_MAX_FILE = 100 * 1024 * 1024


@frozen
class PastedPiece:
    text: str


@frozen
class ImagePiece:
    """An image: either its data (base64, small enough to send) or only its path."""

    path: str = ""
    data: str = ""
    media_type: str = ""


Piece = PastedPiece | ImagePiece


def pasted_chip(number: int, text: str) -> str:
    lines = text.count("\n") + (not text.endswith("\n"))
    amount = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
    return f"[Pasted #{number}: {amount}]"


def image_chip(number: int, name: str) -> str:
    shown = re.sub(r"[\[\]]", "_", plain_line(name)) or "picture"
    if len(shown) > _MAX_NAME:
        # Cut the middle: the end has the number of a screenshot and the suffix.
        shown = shown[: _MAX_NAME - 16] + "…" + shown[-15:]
    return f"[Image #{number}: {shown}]"


@frozen
class Draft:
    text: str = ""
    pieces: Mapping[str, Piece] = field(default_factory=dict)
    """Pieces by the text of their chip."""

    @property
    def is_empty(self) -> bool:
        return not self.text.strip()

    @property
    def images(self) -> int:
        return sum(isinstance(piece, ImagePiece) for _start, _end, piece in self.chips())

    def chips(self) -> Iterator[tuple[int, int, Piece]]:
        """Every chip in the text: its start, its end and its piece."""
        if self.pieces:
            for match in CHIP.finditer(self.text):
                if (piece := self.pieces.get(match.group())) is not None:
                    yield match.start(), match.end(), piece

    def expanded(self) -> str:
        """The text with pasted pieces in place of their chips. Chips of images stay, as their names."""
        parts: list[str] = []
        at = 0
        for start, end, piece in self.chips():
            if isinstance(piece, PastedPiece):
                parts += (self.text[at:start], piece.text)
                at = end
        return "".join((*parts, self.text[at:]))

    def content(self) -> str | tuple[Block, ...]:
        """The prompt for the engine. Blocking if there are images. Never raises: an unreadable image becomes text."""
        if not self.images:
            return self.expanded()
        blocks: list[Block] = []
        at = 0
        for start, end, piece in self.chips():
            if not isinstance(piece, ImagePiece):
                continue
            words = Draft(self.text[at:end], self.pieces).expanded()
            found = loaded(piece)
            if isinstance(found, ImagePiece):
                # With its path the model can look at it again, or use the file.
                words = words.removesuffix(self.text[start:end]) + _with_path(self.text[start:end], piece.path)
            else:
                words = f"{words[:-1]}, not attached: {found}]"
            blocks.append(TextBlock(clean_text(words)))
            if isinstance(found, ImagePiece):
                source = {"type": "base64", "media_type": found.media_type, "data": found.data}
                blocks.append(ImageBlock(source))
            at = end
        if rest := Draft(self.text[at:], self.pieces).expanded():
            blocks.append(TextBlock(clean_text(rest)))
        return tuple(blocks)

    def to_dict(self, *, largest_piece: int | None = None) -> Json:
        """As JSON. Pieces over `largest_piece` characters are left out; an image with a path keeps only the path."""
        pieces: Json = {}
        for start, end, piece in self.chips():
            form = _piece_to_dict(piece)
            if largest_piece is None or sum(map(len, form.values())) <= largest_piece:
                pieces[self.text[start:end]] = form
        return {"text": self.text, "pieces": pieces} if pieces else {"text": self.text}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Draft:
        """Parse the output of `to_dict`, ignoring unknown pieces of newer versions. Raises `ValueError`."""
        text, pieces = data.get("text"), data.get("pieces", {})
        if not isinstance(text, str) or not isinstance(pieces, Mapping):
            raise ValueError("not a draft")
        known = {chip: piece for chip, form in pieces.items() if (piece := _piece_from_dict(form)) is not None}
        return cls(clean_text(text), known)


def _with_path(chip: str, path: str) -> str:
    """The chip with the image's path in place of its name, if it can contain it."""
    if not path or re.search(r"[\[\]\n]", plain_line(path)) or plain_line(path) != path:
        return chip
    return f"{chip.partition(':')[0]}: {path}]"


def loaded(piece: ImagePiece) -> ImagePiece | str:
    """Read an image and make it small enough to send; a string says why that failed. Blocking."""
    if piece.data:
        return piece
    data = read_bounded(piece.path, _MAX_FILE)
    if isinstance(data, Unread):
        return data.detail or f"the file is {data.reason}"
    return fitted_piece(data, piece.path)


def fitted_piece(data: bytes, path: str = "") -> ImagePiece | str:
    """Make an image from bytes, small enough to send; a string says why that failed. Blocking."""
    from agentcli.tools.documents.image import Picture, fitted

    picture = fitted(data)
    if not isinstance(picture, Picture):
        return picture.reason
    return ImagePiece(path, base64.b64encode(picture.data).decode("ascii"), picture.media_type)


def _piece_to_dict(piece: Piece) -> dict[str, str]:
    if isinstance(piece, PastedPiece):
        return {"text": piece.text}
    if piece.path:
        return {"path": piece.path}
    return {"data": piece.data, "media_type": piece.media_type}


def _piece_from_dict(form: object) -> Piece | None:
    if not isinstance(form, Mapping) or not all(isinstance(value, str) for value in form.values()):
        return None
    if "text" in form:
        return PastedPiece(form["text"])
    if form.get("path") or (form.get("data") and form.get("media_type")):
        return ImagePiece(form.get("path", ""), form.get("data", ""), form.get("media_type", ""))
    return None
