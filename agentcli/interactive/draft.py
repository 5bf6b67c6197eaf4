"""What stands in the prompt box, as a value: the text with its chips, and what each chip stands for.

A chip is a piece of the text (`[Pasted #1: 120 lines]`) that stands for something too large or not text at all. The
text is what people see, edit and find again; the pieces come along by the chip's own text. Never here: widgets.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from agentcli.core.bounded_read import Unread, read_bounded
from agentcli.core.frozen import frozen
from agentcli.core.messages import Block, ImageBlock, Json, TextBlock, clean_text
from agentcli.core.plaintext import plain_line

CHIP = re.compile(r"\[(?:Pasted|Image) #\d{1,9}: [^\[\]\n]{1,80}\]")
"""What may be a chip; it is one only if there is a piece for it."""
_LONGEST_NAME = 40
_LARGEST_FILE = 100 * 1024 * 1024


@frozen
class PastedPiece:
    text: str


@frozen
class ImagePiece:
    """A picture: read already (`data` in base64, fit to be sent), or only where it lies."""

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
    if len(shown) > _LONGEST_NAME:
        # The end is worth more than the middle: it has the number of a screenshot and the suffix.
        shown = shown[: _LONGEST_NAME - 16] + "…" + shown[-15:]
    return f"[Image #{number}: {shown}]"


@frozen
class Draft:
    text: str = ""
    pieces: Mapping[str, Piece] = field(default_factory=dict)
    """By the text of the chip."""

    @property
    def is_empty(self) -> bool:
        return not self.text.strip()

    @property
    def images(self) -> int:
        return sum(isinstance(piece, ImagePiece) for _start, _end, piece in self.chips())

    def chips(self) -> Iterator[tuple[int, int, Piece]]:
        """Every chip that is in the text: where it begins and ends, and what it stands for."""
        if self.pieces:
            for match in CHIP.finditer(self.text):
                if (piece := self.pieces.get(match.group())) is not None:
                    yield match.start(), match.end(), piece

    def expanded(self) -> str:
        """The text with what was pasted in its place; chips of pictures stay, as names for them."""
        parts: list[str] = []
        at = 0
        for start, end, piece in self.chips():
            if isinstance(piece, PastedPiece):
                parts += (self.text[at:start], piece.text)
                at = end
        return "".join((*parts, self.text[at:]))

    def content(self) -> str | tuple[Block, ...]:
        """The prompt for the engine. Blocks while it reads pictures. Never raises: unreadable ones become words."""
        if not self.images:
            return self.expanded()
        blocks: list[Block] = []
        at = 0
        for _start, end, piece in self.chips():
            if not isinstance(piece, ImagePiece):
                continue
            words = Draft(self.text[at:end], self.pieces).expanded()
            found = loaded(piece)
            if isinstance(found, str):
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
        """JSON-able. Pieces over a size are left out (chips become text); a picture with a path keeps only that."""
        pieces: Json = {}
        for start, end, piece in self.chips():
            form = _piece_to_dict(piece)
            if largest_piece is None or sum(map(len, form.values())) <= largest_piece:
                pieces[self.text[start:end]] = form
        return {"text": self.text, "pieces": pieces} if pieces else {"text": self.text}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Draft:
        """ValueError if the data is none of ours. What a newer version wrote is left out."""
        text, pieces = data.get("text"), data.get("pieces", {})
        if not isinstance(text, str) or not isinstance(pieces, Mapping):
            raise ValueError("not a draft")
        known = {chip: piece for chip, form in pieces.items() if (piece := _piece_from_dict(form)) is not None}
        return cls(clean_text(text), known)


def loaded(piece: ImagePiece) -> ImagePiece | str:
    """The picture as it can be sent, or why it cannot. Blocking."""
    if piece.data:
        return piece
    data = read_bounded(piece.path, _LARGEST_FILE)
    if isinstance(data, Unread):
        return data.detail or f"the file is {data.reason}"
    return fitted_piece(data, piece.path)


def fitted_piece(data: bytes, path: str = "") -> ImagePiece | str:
    """A picture from its bytes, made small enough to be sent, or why that fails. Blocking."""
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
