"""Reading of pasted text, dropped picture paths, and the desktop's clipboard."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import plain_text

MAX_INLINE = 2_000
MAX_INLINE_LINES = 12
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_MAX_PATHS = 8_192
_MAX_PICTURES = 20
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")
_MAX_CLIPBOARD = 100 * 1024 * 1024
_CLIPBOARD_SECONDS = 5


def is_large(text: str) -> bool:
    return len(text) > MAX_INLINE or text.count("\n") >= MAX_INLINE_LINES


def without_controls(text: str, *, visible: bool = True) -> str:
    """Make text safe for the box. Direction controls are spelled out, because they disguise text as other text."""
    text = plain_text(text)
    if not visible or text.isascii():
        return text
    return _BIDI.sub(lambda found: f"<U+{ord(found.group()):04X}>", text)


def picture_paths(text: str, cwd: Path) -> list[Path]:
    """Pictures named by dropped or pasted text; empty unless all of the text is paths of existing pictures."""
    text = text.strip()
    if not text or len(text) > _MAX_PATHS or not any(suffix in text.lower() for suffix in _PICTURES):
        return []
    whole = _picture(text, cwd)
    if whole is not None:
        return [whole]
    import shlex

    try:
        words = shlex.split(text)
    except ValueError:
        return []
    if not words or len(words) > _MAX_PICTURES:
        return []
    found = [_picture(word, cwd) for word in words]
    return [path for path in found if path is not None] if all(found) else []


def _picture(word: str, cwd: Path) -> Path | None:
    if word.lower().startswith("file://"):
        from urllib.parse import unquote, urlsplit

        try:
            address = urlsplit(word)
        except ValueError:
            return None
        if address.netloc not in ("", "localhost"):
            return None
        word = unquote(address.path)
    if not word.lower().endswith(_PICTURES) or "\0" in word or "\n" in word:
        return None
    try:
        path = cwd / Path(word).expanduser()
        return path if path.is_file() else None
    except (OSError, ValueError, RuntimeError):  # RuntimeError: unknown home directory of a user
        return None


@frozen
class Clipping:
    """Content of the clipboard: a picture's bytes, text, or the reason for neither."""

    image: bytes = b""
    text: str = ""
    problem: str = ""


_READERS: tuple[tuple[str, tuple[str, ...], tuple[str, ...], str], ...] = (
    # program, arguments for a picture, arguments for text, variable that has to be set
    ("wl-paste", ("--no-newline", "--type", "image/png"), ("--no-newline", "--type", "text"), "WAYLAND_DISPLAY"),
    (
        "xclip",
        ("-selection", "clipboard", "-t", "image/png", "-o"),
        ("-selection", "clipboard", "-t", "UTF8_STRING", "-o"),
        "DISPLAY",
    ),
    ("pngpaste", ("-",), (), ""),
    ("pbpaste", (), ("-Prefer", "txt"), ""),
)


def read_clipboard(environ: Mapping[str, str], cwd: Path) -> Clipping:
    """Read the clipboard with the desktop's own programs. Blocking: run it in a thread."""
    from agentcli.core.processes.own_programs import find_program

    tried = False
    text = ""
    for program, for_image, for_text, needs in _READERS:
        if needs and not environ.get(needs):
            continue
        found = find_program(program, environ.get("PATH"), [cwd])
        if found is None:
            continue
        tried = True
        if for_image and (image := _output([found, *for_image], environ, cwd)):
            return Clipping(image=image)
        if for_text and not text:
            text = _output([found, *for_text], environ, cwd).decode("utf-8", "replace")
    if text:
        return Clipping(text=text)
    if tried:
        return Clipping(problem="The clipboard is empty.")
    return Clipping(
        problem="The clipboard cannot be read from here: wl-paste, xclip or pngpaste is needed. Your terminal's own"
        " paste works for text, and a picture can be dropped on the window or named by its path."
    )


def _output(command: list[str], environ: Mapping[str, str], cwd: Path) -> bytes:
    from agentcli.core.processes.own_programs import desktop_environment, run_program

    try:
        done = run_program(command, cwd="/", environ=desktop_environment(environ, [cwd]), seconds=_CLIPBOARD_SECONDS)
    except OSError:
        return b""
    return done.output if done.code == 0 and len(done.output) <= _MAX_CLIPBOARD else b""
