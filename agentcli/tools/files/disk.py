"""Inspect, read and suggest files for the tools.

All paths here are real paths: the caller resolves links once. Such a path is opened folder by folder without following
links, so a link created after the decision causes an error.
"""

from __future__ import annotations

import json
import os
import stat
import unicodedata
from collections.abc import Callable

from agentcli.core.files.access import SPECIAL_KINDS, is_kernel_file, open_without_links
from agentcli.core.frozen import frozen
from agentcli.core.messages import clean_text
from agentcli.core.text.plaintext import visible_text

MAX_LOADED_SIZE = 32 * 1024 * 1024
"""Bytes. Larger files are streamed when read, and cannot be edited."""

Hides = Callable[[str], bool] | None
"""Whether a deny rule hides a path; None: nothing is hidden."""
_MAX_NAMES = 5_000
"""Entries of a folder that are listed."""
_PIECE = 64 * 1024
"""Bytes of one read, at least."""


@frozen
class Refusal:
    """Why a path is not a file that can be read or written, for the model."""

    text: str
    missing: bool = False
    is_folder: bool = False


def inspect(path: str, shown: str) -> os.stat_result | Refusal:
    """Stat a regular file, or say why it is none. Opens nothing: a pipe would block, a device may have side effects."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return Refusal(f"{shown} does not exist.", missing=True)
    except OSError as error:
        return Refusal(f"{shown} cannot be accessed: {(error.strerror or '').lower()}.")
    if stat.S_ISDIR(found.st_mode):
        return Refusal(f"{shown} is a directory. List it with Glob or ls, or name a file in it.", is_folder=True)
    if stat.S_ISLNK(found.st_mode):
        return Refusal(f"{shown} is a symbolic link that leads nowhere or in a circle.")
    if not stat.S_ISREG(found.st_mode):
        kind = SPECIAL_KINDS.get(stat.S_IFMT(found.st_mode), "something special")
        return Refusal(f"{shown} is {kind}, not a regular file.")
    if is_kernel_file(path):
        return Refusal(f"{shown} belongs to the kernel and is not a regular file. Read it with a command.")
    return found


async def load(path: str) -> bytes:
    """The whole file, or one byte more than `MAX_LOADED_SIZE`. Raises OSError."""
    import aiofiles

    async with aiofiles.open(path, "rb", opener=open_without_links) as file:
        data: bytes = await file.read(MAX_LOADED_SIZE + 1)
        return data


def load_blocking(path: str) -> bytes:
    """As `load`, for code that already runs in a thread."""
    descriptor = open_without_links(path, os.O_RDONLY)
    try:
        pieces: list[bytes] = []
        room = MAX_LOADED_SIZE + 1
        # Asking for as much as is allowed would map and unmap that much memory even for a small file.
        likely = os.fstat(descriptor).st_size + 1
        while room > 0 and (piece := os.read(descriptor, min(room, max(likely, _PIECE)))):
            pieces.append(piece)
            room -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    finally:
        os.close(descriptor)


def folder_names(folder: str, hides: Hides) -> list[str]:
    """Names in a folder, without those that rules hide; sub-folders end with a slash. Blocking; never raises."""
    try:
        with os.scandir(folder) as entries:
            found = [entry for entry, _index in zip(entries, range(_MAX_NAMES), strict=False)]
    except OSError:
        return []
    return sorted(
        f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
        for entry in found
        if hides is None or not hides(entry.path)
    )


def quote_name(name: str) -> str:
    """A name that can be recognised and typed: characters that look like a plain space or letter are escaped."""
    odd = any((char.isspace() and char != " ") or unicodedata.combining(char) for char in name)
    return json.dumps(name) if odd else clean_text(visible_text(name))


def near_names(path: str, hides: Hides) -> list[str]:
    """Similar names in the same folder. Blocking; never raises."""
    import difflib

    folder, name = os.path.split(path)
    names = [known.rstrip("/") for known in folder_names(folder, hides)]
    stem = name.rpartition(".")[0] or name
    folded = [known for known in names if known.lower() == name.lower()]
    alike = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    same_stem = [known for known in sorted(names) if known.rpartition(".")[0] == stem]
    return [quote_name(known) for known in dict.fromkeys(folded + alike + same_stem)][:3]
