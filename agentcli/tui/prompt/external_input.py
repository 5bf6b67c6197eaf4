"""Input to the prompt other than keys: pastes, pictures, the clipboard, and text from the user's own editor.

Slow work runs in threads and workers, so that typing continues meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported
from textual.widget import Widget

from agentcli.core.errors import AgentError
from agentcli.core.frozen import frozen
from agentcli.interactive.drafts import Draft, ImagePiece, load_image, make_image_piece
from agentcli.interactive.editor import edit_in_editor
from agentcli.tui.prompt.buffer import without_controls
from agentcli.tui.prompt.editor import PromptEditor

_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_MAX_PATHS = 8_192
_MAX_PICTURES = 20
_MAX_CLIPBOARD = 100 * 1024 * 1024
_CLIPBOARD_SECONDS = 5


async def edit_outside(app: App[Any], text: str, environ: Mapping[str, str], cwd: Path) -> str:
    """Open the text in $VISUAL or $EDITOR and read it back. Raises `AgentError`."""
    try:
        return await edit_in_editor(text, environ, cwd, _suspended(app))
    except SuspendNotSupported:
        raise AgentError("This terminal cannot be used by another program.") from None


@contextmanager
def _suspended(app: App[Any]) -> Iterator[None]:
    # The event loop, and with it the agent, keeps running; only painting stops, since the terminal is not ours.
    with app.suspend(), app.batch_update():
        yield


class ExternalInput:
    def __init__(self, box: Widget, editor: PromptEditor, environ: Mapping[str, str], cwd: Path) -> None:
        self._box = box
        self._editor = editor
        self._environ = environ
        self._cwd = cwd

    def paste(self, text: str) -> None:
        if paths := picture_paths(text, self._cwd):
            for path in paths:
                self._attach(path.name, ImagePiece(str(path)))
        else:
            self._editor.buffer.insert_pasted(text)

    def _attach(self, name: str, piece: ImagePiece) -> None:
        label = self._editor.buffer.insert_image(name, piece)
        if not piece.data:
            # Read it now: a dropped screenshot may be deleted before the prompt is sent.
            self._box.run_worker(self._read_image(label, name, piece), group="pictures", exit_on_error=False)

    async def _read_image(self, label: str, name: str, piece: ImagePiece) -> None:
        found = await asyncio.to_thread(load_image, piece)
        if isinstance(found, str):
            self._warn(f"{name} cannot be attached: {found}.")
        elif self._editor.buffer.pieces.get(label) == piece:
            self._editor.buffer.pieces[label] = found

    def paste_clipboard(self) -> None:
        self._box.run_worker(self._paste_clipboard(), group="clipboard", exclusive=True, exit_on_error=False)

    async def _paste_clipboard(self) -> None:
        clipping = await asyncio.to_thread(read_clipboard, self._environ, self._cwd)
        if clipping.image:
            piece = await asyncio.to_thread(make_image_piece, clipping.image)
            if isinstance(piece, str):
                self._warn(f"The picture on the clipboard cannot be attached: {piece}.")
            else:
                self._attach("clipboard.png", piece)
        elif text := clipping.text or self._box.app.clipboard:
            self.paste(text)
        else:
            self._warn(clipping.problem)

    def edit(self, use: Callable[[Draft], None]) -> None:
        self._box.run_worker(self._edit(use), group="editor", exit_on_error=False)

    async def _edit(self, use: Callable[[Draft], None]) -> None:
        before = self._editor.draft
        try:
            text = await edit_outside(self._box.app, before.text, self._environ, self._cwd)
        except AgentError as error:
            self._warn(str(error))
            return
        if text != before.text:
            use(Draft(without_controls(text), before.pieces))

    def _warn(self, text: str) -> None:
        self._box.notify(text, severity="warning", markup=False)


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
