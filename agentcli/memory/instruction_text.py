"""Read one instruction file, or return the reason why it cannot be used; find its imports (`@path` in its prose).

Never blocks on a pipe, never raises. The caller passes real paths that it has approved. They are walked folder by
folder without following links, so that a link planted after the approval gives a reason and not another file.
"""

from __future__ import annotations

import hashlib
import os
import stat

from agentcli.core.files.access import SPECIAL_KINDS, is_kernel_file, open_below, open_folder
from agentcli.core.frozen import frozen
from agentcli.core.messages import clean_text
from agentcli.core.text.format import counted, plural
from agentcli.core.text.patterns import lazy_pattern
from agentcli.core.text.plaintext import plain_text

MAX_READ_BYTES = 1024 * 1024
MAX_FILE_CHARS = 40_000
"""Maximum characters of one file. A longer one is cut at a line end, with a notice."""

_INVISIBLE = lazy_pattern(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufeff\U000e0000-\U000e0fff]"
)
"""Characters that a reader does not see but the model does; they are removed."""


@frozen
class InstructionText:
    text: str = ""
    digest: str = ""
    """Digest of the file's bytes, as in the tools' read cache; "" if unreadable."""
    problem: str = ""
    """Why text is missing, as the end of a sentence about the file for the user."""
    left_out: int = 0
    """Characters at the end that are not in `text`."""
    missing: bool = False


def read_instructions(real: str) -> InstructionText:
    """Read a file; blocking."""
    if is_kernel_file(real):
        return InstructionText(problem="is a kernel file; it is skipped")
    try:
        descriptor = _open(real)
        if isinstance(descriptor, InstructionText):
            return descriptor
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MAX_READ_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return InstructionText(missing=True)
    except (OSError, ValueError) as error:
        return InstructionText(problem=f"cannot be read: {(getattr(error, 'strerror', '') or str(error)).lower()}")
    if len(data) > MAX_READ_BYTES:
        return InstructionText(problem=f"is larger than {MAX_READ_BYTES // 1024:,} KB; it is skipped")
    return text_of(data)


def text_of(data: bytes) -> InstructionText:
    digest = hashlib.blake2b(data, digest_size=16).hexdigest()
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return InstructionText(digest=digest, problem="is UTF-16 and was skipped; save it as UTF-8")
    if b"\x00" in data:
        return InstructionText(digest=digest, problem="is not a text file; it is skipped")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return InstructionText(digest=digest, problem="is not UTF-8 and was skipped; save it as UTF-8")
    text = clean_text(plain_text(text))
    visible = _INVISIBLE.sub("", text)
    hidden = len(text) - len(visible)
    they_are = plural(hidden, "it is", "they are")
    problem = f"contains {counted(hidden, 'invisible character')}; {they_are} left out" if hidden else ""
    text = visible.strip()
    if len(text) <= MAX_FILE_CHARS:
        return InstructionText(text, digest, problem)
    kept = cut(text, MAX_FILE_CHARS)
    left_out = len(text) - len(kept)
    cut_off = f"is longer than {MAX_FILE_CHARS:,} characters; the last {left_out:,} are left out"
    return InstructionText(kept, digest, f"{problem}, and {cut_off}" if problem else cut_off, left_out)


def cut(text: str, most: int) -> str:
    """The start of a text, cut at a line end if possible."""
    head = text[:most]
    return head[: head.rfind("\n")].rstrip() if head.rfind("\n") > most // 2 else head


def _open(real: str) -> int | InstructionText:
    """A descriptor of the regular file, or an `InstructionText` for anything else; a pipe or device is not opened.
    Raises OSError."""
    folder, _slash, name = real.rpartition("/")
    parent = open_folder(folder)
    try:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            return InstructionText(missing=True)
        if not stat.S_ISREG(mode):
            return InstructionText(
                problem=f"is {SPECIAL_KINDS.get(stat.S_IFMT(mode), 'not a regular file')}; it is skipped"
            )
        return open_below(parent, name, os.O_RDONLY)
    finally:
        os.close(parent)


MAX_IMPORTS = 50
"""Maximum imports per file; more are ignored."""

_FENCE = lazy_pattern(r" {0,3}(?:>\s?|[-*+]\s+)*(`{3,}|~{3,})(.*)")
_IMPORT = lazy_pattern(r"(?:(?<=\s)|(?<![\s\S]))@((?:[^\s\\]|\\ )+)")
_BEGINS_A_PATH = lazy_pattern(r"(?:~/|\.{0,2}/|[\w.-])")
_TICKS = lazy_pattern(r"`+")
_PARAGRAPH_END = lazy_pattern(r"\n[ \t]*\n")
_TRAILING = ".,;:!?)]}'\"*_>"


def find_imports(text: str) -> list[tuple[str, ...]]:
    """The imports in order, each once: the path as written, and without trailing punctuation."""
    found: dict[tuple[str, ...], None] = {}
    for match in _IMPORT.finditer(_without_spans(_without_comments(_without_fences(text)))):
        path = match.group(1).replace("\\ ", " ")
        if not _BEGINS_A_PATH.match(path):
            continue
        bare = path.rstrip(_TRAILING)
        candidates = tuple(dict.fromkeys(part for part in (path, bare) if part.strip("./~")))
        if candidates:
            found.setdefault(candidates)
        if len(found) == MAX_IMPORTS:
            break
    return list(found)


def is_meant(path: str) -> bool:
    """Whether a missing path was clearly meant as an import; `@alice` and `@types/node` are not."""
    return path.startswith(("./", "../", "~/", "/")) or path.lower().endswith((".md", ".txt", ".mdc"))


def _without_fences(text: str) -> str:
    kept: list[str] = []
    fence = ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if fence:
            ends = match and match[1][0] == fence[0] and len(match[1]) >= len(fence) and not match[2].strip()
            fence = "" if ends else fence
        elif match and not (match[1][0] == "`" and "`" in match[2]):
            fence = match[1]
            kept.append("")  # the text before the fence is a paragraph of its own
        else:
            kept.append(line)
    return "\n".join(kept)


def _without_comments(text: str) -> str:
    pieces: list[str] = []
    place = 0
    while (begin := text.find("<!--", place)) >= 0 and (end := text.find("-->", begin + 4)) >= 0:
        pieces.append(text[place:begin])
        place = end + 3
    return "".join((*pieces, text[place:]))


def _without_spans(text: str) -> str:
    """The text without code spans. A run of backticks is closed by the next one of the same length in its paragraph."""
    return "\n\n".join(_paragraph_without_spans(paragraph) for paragraph in _PARAGRAPH_END.split(text))


def _paragraph_without_spans(text: str) -> str:
    # One pass: a regular expression would search the rest of the text for each run that nothing closes.
    runs = list(_TICKS.finditer(text))
    last = {run[0]: number for number, run in enumerate(runs)}
    pieces: list[str] = []
    place = 0
    opening = ""
    for number, run in enumerate(runs):
        if opening and run[0] == opening:
            place = run.end()
            opening = ""
        elif not opening and last[run[0]] > number:
            pieces.append(text[place : run.start()])
            opening = run[0]
    # A removed span leaves a mark, so that `a`@b is not an import.
    return "`".join((*pieces, text[place:]))
