"""The prompt shown before Textual is loaded: 0.06 s after the start (bench `tui-start`).

Imports only little of the standard library: every import delays it.

Draws the prompt box where the app will draw it and echoes text typed at its end in a thread, while the main thread
imports the rest. All input bytes are kept and replayed through the app's driver, so the echo only has to look right: it
decides nothing, except to exit when Ctrl+C or Ctrl+D is pressed twice.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import select
import signal
import sys
import termios
import threading
from collections.abc import Callable, Mapping
from types import FrameType

from agentcli.tui.terminal.restore import TerminalRestore

MIN_COLUMNS, MIN_ROWS = 20, 5
ROWS_FOR_LOWER_RULE = 14
SWITCH_SECONDS = 0.001
"""Maximum time that the importing thread holds the interpreter lock while a key waits. Python's default: 5 ms."""
LONE_ESCAPE_SECONDS = 0.1
"""An ESC followed by nothing for this long was the key, not the start of a sequence."""
MAX_LOOK = 8192

DEFAULT_LOOK = {
    "background": "",
    "rule": "90",
    "mark": "1;34",
    "text": "",
    "placeholder": "2",
    "cursor": "7",
    "status": "2",
    "label_style": "2",
    "placeholder_text": "Ask anything · / commands · @ files · ! shell · ? keys",
    "status_text": "",
    "label_text": "",
}
"""Colours as SGR codes, and texts (`…_text`)."""

_COLOURLESS = {**DEFAULT_LOOK, "rule": "2", "mark": "1"}
"""The look under NO_COLOR, apart from its texts."""
_SGR = re.compile(r"(?:\d{1,3}(?:[;:]\d{1,3}){0,19})?")
_SEQUENCE = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1bO[@-~]|\x1b[\]P_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[^\x1b\[O\]P_]|\x1b(?=\x1b)"
)
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|O|[\]P_][^\x07\x1b]*\x1b?)?\Z")
_END_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_ESCAPE_KEY_ENDS = b"[27u"
"""Completes ESC to the unambiguous Esc key of the kitty keyboard protocol, which the app understands."""
_ENTER, _INTERRUPT, _END_OF_INPUT = "\r", "\x03", "\x04"
_ENTER_ALT_SCREEN = "\x1b[?1049h\x1b[?25l\x1b[?2004h\x1b[?7l"
_ASK_FOR_BACKGROUND = "\x1b]11;?\x07"


def look_path(environ: Mapping[str, str]) -> str:
    """Path of the saved look; "" if there is none. The same folder as in `config.paths`, which is not imported because
    every start comes here."""
    own = environ.get("AGENTCLI_CACHE_DIR", "")
    if own.startswith("/"):
        return f"{own}/instant.json"
    home = environ.get("HOME", "")
    base = environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):
        base = f"{home}/.cache" if home.startswith("/") else ""
    return f"{base}/agentcli/instant.json" if base else ""


def load_look(path: str) -> dict[str, str]:
    """Load the colours and texts that the app painted last. Missing or invalid values come from `DEFAULT_LOOK`."""
    look = dict(DEFAULT_LOOK)
    try:
        import json

        with open(path, "rb") as file:  # noqa: PTH123 -- pathlib would be one more import
            found = json.loads(file.read(MAX_LOOK))
    except (OSError, ValueError, RecursionError):
        return look
    if isinstance(found, dict):
        look.update({name: found[name] for name in look if _is_harmless(name, found.get(name))})
    return look


def suggest(look: dict[str, str], line: str) -> dict[str, str]:
    """The look with a suggested line, which Enter sends from the empty box, and without texts of the last session."""
    return {**look, "placeholder_text": f"{line}  ↵ Enter", "status_text": "", "label_text": ""}


def save_look(path: str, look: dict[str, str]) -> None:
    """Save a look, best effort: without it colours flash at the next start."""
    import json

    kept = {name: value for name, value in look.items() if name in DEFAULT_LOOK and _is_harmless(name, value)}
    temporary = f"{path}.{os.getpid()}"
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120 -- as above
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 -- as above
            json.dump(kept, file)
        os.replace(temporary, path)  # noqa: PTH105 -- as above


def _is_harmless(name: str, value: object) -> bool:
    """Whether a value of that file contains no control characters and no sequences other than colours."""
    if not isinstance(value, str):
        return False
    if name.endswith("_text"):
        return len(value) <= 300 and value.isprintable()
    return bool(_SGR.fullmatch(value))


def begin(fd_in: int, fd_out: int, look: dict[str, str]) -> Instant | None:
    """Draw the prompt and start echoing. None if that is not possible: no terminal, a dumb one, or a tiny one."""
    try:
        columns, rows = os.get_terminal_size(fd_out)
        usable = os.isatty(fd_in) and os.isatty(fd_out) and columns >= MIN_COLUMNS and rows >= MIN_ROWS
    except OSError:
        return None
    if not usable or os.environ.get("TERM", "dumb") in ("dumb", ""):
        return None
    if os.environ.get("NO_COLOR"):
        look = {**look, **{name: value for name, value in _COLOURLESS.items() if not name.endswith("_text")}}
    instant = Instant(fd_in, fd_out, look)
    instant.start()
    return instant


class Instant:
    """Owns the terminal from `start` to `finish`. All modes stay on for the app."""

    def __init__(self, fd_in: int, fd_out: int, look: dict[str, str]) -> None:
        self.restore = TerminalRestore(fd_in, fd_out)
        self._fd_in = fd_in
        self._fd_out = fd_out
        self._line = EchoedLine()
        self._painter = Painter(look)
        self._raw = bytearray()
        self._wake_read, self._wake_write = os.pipe()
        self._finished = False
        self.before_leaving: Callable[[], object] | None = None
        """Called when the user or a signal ends the process from here: removes what was created."""
        self._thread = threading.Thread(target=self._echo, name="instant-prompt", daemon=True)
        self._switch_seconds = sys.getswitchinterval()
        self._resize_handler_before: object = None

    def start(self) -> None:
        self.restore.arm()
        make_raw(self._fd_in)
        self._take_what_waits()
        ask = "" if os.environ.get("TERM") == "linux" else _ASK_FOR_BACKGROUND
        self.restore.reply_due = bool(ask)
        self._write(_ENTER_ALT_SCREEN + ask + self._painter.whole(self._line, *self._size()))
        sys.setswitchinterval(SWITCH_SECONDS)
        if threading.current_thread() is threading.main_thread():
            os.set_blocking(self._wake_write, False)
            self._resize_handler_before = signal.signal(signal.SIGWINCH, self._on_resize)
            for number in _END_SIGNALS:
                signal.signal(number, self._on_end)
        self._thread.start()

    def _take_what_waits(self) -> None:
        """Read input from before raw mode. The terminal turned each Enter into a line feed: convert it back."""
        with contextlib.suppress(OSError):
            if select.select([self._fd_in], [], [], 0)[0]:
                attributes = self.restore.attributes
                typed = os.read(self._fd_in, 65536)
                if attributes is not None and attributes[0] & termios.ICRNL:
                    typed = typed.replace(b"\n", b"\r")
                self._raw += typed
                self._line.feed(typed)

    def resized(self) -> None:
        if not self._finished:
            with contextlib.suppress(OSError):
                os.write(self._wake_write, b"r")

    def finish(self) -> bytes:
        """Stop echoing and return all input bytes in order. A second call returns none."""
        if self._finished:
            return b""
        os.write(self._wake_write, b"f")
        self._thread.join()
        self._finished = True
        sys.setswitchinterval(self._switch_seconds)
        if self._resize_handler_before is not None and signal.getsignal(signal.SIGWINCH) == self._on_resize:
            signal.signal(signal.SIGWINCH, signal.SIG_DFL)
        for number in _END_SIGNALS:
            if signal.getsignal(number) == self._on_end:
                signal.signal(number, signal.SIG_DFL)
        os.close(self._wake_read)
        os.close(self._wake_write)
        return bytes(self._raw)

    def _on_end(self, signum: int, frame: FrameType | None) -> None:
        self._leave(128 + signum)

    def _leave(self, code: int) -> None:
        """Exit immediately: hardly anything is running yet that needs to be shut down."""
        self.restore.restore_terminal()
        if self.before_leaving is not None:
            with contextlib.suppress(Exception):
                self.before_leaving()
        if "agentcli.core.processes.exit_cleanup" in sys.modules:
            from agentcli.core.processes.exit_cleanup import run_exit_cleanup

            run_exit_cleanup()
        os._exit(code)

    def _on_resize(self, signum: int, frame: FrameType | None) -> None:
        self.resized()

    def _echo(self) -> None:
        while True:
            try:
                wait = LONE_ESCAPE_SECONDS if self._raw.endswith(b"\x1b") else None
                ready, _, _ = select.select([self._fd_in, self._wake_read], [], [], wait)
                orders = os.read(self._wake_read, 64) if self._wake_read in ready else b""
                # Read available input even when stopping: it was typed while this prompt was shown.
                typed = os.read(self._fd_in, 65536) if self._fd_in in ready else b"" if ready else _ESCAPE_KEY_ENDS
            except OSError:
                return  # The terminal is gone; the app will notice too.
            self._raw += typed
            if self.restore.reply_due and b"\x1b]11;" in self._raw[-len(typed) - 8 :]:
                self.restore.reply_due = False
            leave = self._line.feed(typed)
            if leave is not None:
                self._leave(leave)
            if b"r" in orders:
                self._write(self._painter.whole(self._line, *self._size()))
            elif typed:
                self._write(self._painter.box(self._line, *self._size()))
            if b"f" in orders or (not typed and self._fd_in in ready):
                return

    def _size(self) -> tuple[int, int]:
        try:
            columns, rows = os.get_terminal_size(self._fd_out)
        except OSError:
            columns, rows = 80, 24
        return columns, rows

    def _write(self, text: str) -> None:
        data = text.encode("utf-8", "replace")
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._fd_out, data) :]


class EchoedLine:
    """The text that the editor will show for the bytes so far. Pure."""

    def __init__(self) -> None:
        self.characters: list[str] = []
        self.sent = False
        """Enter was pressed; later input is only for the app."""
        self.leaving = ""
        """The key that quits when it is pressed again."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._held = b""
        self._in_paste = False
        self._is_frozen = False
        """Something was pasted, or a key pressed that edits otherwise than at the end: the app shows its effect."""

    def feed(self, data: bytes) -> int | None:
        """The exit code when the user quits."""
        data, self._held = self._held + data, b""
        unfinished = _UNFINISHED.search(data, max(0, len(data) - 256))
        if unfinished:
            data, self._held = data[: unfinished.start()], unfinished.group()
        position = 0
        for match in _SEQUENCE.finditer(data):
            leave = self._type(data[position : match.start()])
            if leave is not None:
                return leave
            self._obey(match.group())
            position = match.end()
        return self._type(data[position:])

    def _type(self, data: bytes) -> int | None:
        if self._in_paste:
            return None
        for character in self._decoder.decode(data):
            if character in (_INTERRUPT, _END_OF_INPUT):
                if self.leaving == character:
                    return 130 if character == _INTERRUPT else 0
                if character == _INTERRUPT or not (self.characters or self._is_frozen):
                    self.leaving = character
                    self.characters = []
                continue
            self.leaving = ""
            if not self.sent and not self._is_frozen:
                self._edit(character)
        return None

    def _edit(self, character: str) -> None:
        if character == _ENTER:
            self.sent = bool("".join(self.characters).strip())
        elif character in "\x7f\x08":
            while self.characters:
                deleted = self.characters.pop()
                if width(deleted) and self.characters[-1:] != ["\u200d"]:
                    break
        elif character < " ":
            self._is_frozen = True
        elif character.isprintable() or (character > "\x7f" and width(character) == 0):
            self.characters.append(character)

    def _obey(self, sequence: bytes) -> None:
        if sequence in (b"\x1b[200~", b"\x1b[201~"):
            self._in_paste, self._is_frozen = sequence == b"\x1b[200~", True
        elif sequence[1:2] in b"[O" and sequence[-1:] in b"ABCDFH~":  # keys; other sequences are replies
            self._is_frozen = True


class Painter:
    """Renders the box as terminal output for any size. Pure."""

    def __init__(self, look: dict[str, str]) -> None:
        self._look = {name: look.get(name, value) for name, value in DEFAULT_LOOK.items()}

    def whole(self, line: EchoedLine, columns: int, rows: int) -> str:
        return f"{self._style('')}\x1b[H\x1b[2J{self.box(line, columns, rows)}"

    def box(self, line: EchoedLine, columns: int, rows: int) -> str:
        if columns < MIN_COLUMNS or rows < MIN_ROWS:
            return ""
        lines = [
            self._rule(columns, self._look["label_text"]),
            f"{self._style('mark')}❯ {self._row(line, columns - 2)}",
            *([self._rule(columns, "")] if rows >= ROWS_FOR_LOWER_RULE else []),
            self._style("status") + clip(self._status(line), columns),
        ]
        first = rows - len(lines) + 1
        painted = (f"\x1b[{first + number};1H{self._style('')}\x1b[2K{text}" for number, text in enumerate(lines))
        return "".join(painted) + "\x1b[0m"

    def _status(self, line: EchoedLine) -> str:
        if line.leaving:
            return f"Press Ctrl+{'C' if line.leaving == _INTERRUPT else 'D'} again to quit"
        return self._look["status_text"]

    def _rule(self, columns: int, label: str) -> str:
        label = clip(label, columns - 6)
        if not label:
            return self._style("rule") + "─" * columns
        line = "─" * (columns - sum(map(width, label)) - 4)
        return f"{self._style('rule')}{line} {self._style('label_style')}{label} {self._style('rule')}──"

    def _row(self, line: EchoedLine, columns: int) -> str:
        """The end of the text, with the cursor as a styled cell."""
        if not line.characters:
            placeholder = clip(self._look["placeholder_text"], columns) or " "
            first = f"{self._style('placeholder', 'cursor')}{placeholder[0]}"
            return f"{first}{self._style('placeholder')}{placeholder[1:]}"
        start, used = len(line.characters), 1
        while start and used + width(line.characters[start - 1]) <= columns:
            start -= 1
            used += width(line.characters[start])
        text = "".join(line.characters[start:])
        if line.sent:
            return self._style("placeholder") + text
        return f"{self._style('text')}{text}{self._style('text', 'cursor')} {self._style('text')}"

    def _style(self, *names: str) -> str:
        numbers = ";".join(filter(None, (self._look["background"], *(self._look.get(name, "") for name in names))))
        return f"\x1b[0;{numbers}m" if numbers else "\x1b[0m"


def make_raw(fd: int) -> None:
    """Switch to raw mode: keys arrive unprocessed and are not echoed. Output processing is unchanged."""
    with contextlib.suppress(termios.error, OSError):
        attributes = termios.tcgetattr(fd)
        attributes[0] &= ~(termios.IXON | termios.IXOFF | termios.ICRNL | termios.INLCR | termios.IGNCR)
        attributes[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
        attributes[6][termios.VMIN], attributes[6][termios.VTIME] = 1, 0
        termios.tcsetattr(fd, termios.TCSANOW, attributes)


def width(character: str) -> int:
    """Width of a character in cells."""
    if character < "\x7f":
        return 1
    from agentcli.core.text.columns import character_cells

    return character_cells(character)


def clip(text: str, columns: int) -> str:
    used = 0
    for position, character in enumerate(text):
        used += width(character)
        if used > columns:
            return text[:position]
    return text
