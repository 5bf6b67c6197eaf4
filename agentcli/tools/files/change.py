"""Change one file for Write, Edit, MultiEdit and NotebookEdit: locked, checked, atomic.

The lock is held from reading the current content until it is replaced, so a second change of the same file sees the
first. Whether the model knows the current content is checked at the moment of the change, so that changes made during a
permission question count. The caller computes the new content.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable

from agentcli.core.aio import AbortSignal, in_thread
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import visible_text
from agentcli.tools.base import (
    BuiltinTool,
    Output,
    ToolContext,
    ToolRun,
    absolute_path,
    failure,
    os_failure,
    show_path,
)
from agentcli.tools.files.disk import MAX_LOADED_SIZE, Refusal, inspect, load_blocking, near_names
from agentcli.tools.files.encoding import Decoded, decode
from agentcli.tools.files.file_kinds import language_of
from agentcli.tools.files.read_cache import digest_of
from agentcli.tools.files.replace import ChangedMeanwhile, replace_file

_MAX_DIFFERENCE_LENGTH = 4_000


@frozen
class Present:
    """The current file; `decoded` is None if it does not exist."""

    shown: str
    decoded: Decoded | None
    digest: str | None = None

    @property
    def text(self) -> str:
        return self.decoded.text if self.decoded else ""


@frozen
class PlannedChange:
    data: bytes
    text: str
    message: str
    display: Json | None = None
    """Display for the user, if not a diff of the whole text."""


@frozen
class Intent:
    """A planned change of `file_path`. `plan` computes it from the current content, or returns an Output with the
    reason why it cannot be made."""

    file_path: str
    plan: Callable[[Present], PlannedChange | Output]
    whole: bool = False
    """Whether the model must have seen the complete existing file, because all of it is replaced."""
    create: bool = False
    """Whether the file may be missing."""


@frozen
class _Target:
    path: str
    real: str
    shown: str
    elsewhere: bool = False
    """Whether the path is a link to another location."""

    @property
    def heading(self) -> str:
        """Heading of the diff: the path that is really written."""
        return f"{self.shown} → {visible_text(self.real)}" if self.elsewhere else self.shown


Known = tuple[str, bytes | None, bool]
"""What the model knows of a file, for the read cache: digest, content, and whether it is complete."""


class _Refused(Exception):
    """The change is not made, for the reason in `output`; `known`: what that tells the model about the file."""

    def __init__(self, output: Output, known: Known | None = None) -> None:
        super().__init__()
        self.output = output
        self.known = known


class ChangingTool(BuiltinTool, ABC):
    """A tool that changes the file named by its subject. A subclass computes the new content."""

    names_file = True

    @abstractmethod
    def intent(self, input: Json) -> Intent: ...

    def is_safe(self, input: Json) -> bool:
        return False

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return (write_need(input.get(self.subject), context),)

    def preview(self, input: Json, context: ToolContext) -> Json | Output | None:
        return preview_change(self.intent(input), context)

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        yield await change_file(self.intent(input), context)


def write_need(file_path: object, context: ToolContext) -> Need:
    """The need to write this path and, through links, only its current target."""
    path = absolute_path(file_path, context)
    try:
        real = os.path.realpath(path)
    except (OSError, ValueError):
        real = path
    return Need("write", path, "" if real == path else real)


async def change_file(intent: Intent, context: ToolContext) -> Output:
    try:
        target = await in_thread(_find_target, intent.file_path, context)
    except OSError as error:
        # A link may disappear while it is resolved.
        return os_failure(error, f"{visible_text(intent.file_path)} cannot be found")
    async with context.read_cache.lock(target.real):
        try:
            return await in_thread(_change, intent, target, context)
        except _Refused as refused:
            return _note(refused, target, context)


def preview_change(intent: Intent, context: ToolContext) -> Json | Output | None:
    """What `change_file` would show now, or its failure. Blocking; changes no file.

    The model gets a failure, so the file contents that it shows are recorded as seen.
    """
    try:
        target = _find_target(intent.file_path, context)
        try:
            return _make_display(*_plan(intent, target, context), target)
        except _Refused as refused:
            return _note(refused, target, context)
    except OSError as error:
        return os_failure(error, f"{visible_text(intent.file_path)} cannot be read")


def _note(refused: _Refused, target: _Target, context: ToolContext) -> Output:
    if refused.known is not None:
        digest, data, whole = refused.known
        context.read_cache.note_digest(target.real, digest, whole, data)
    return refused.output


def _find_target(file_path: str, context: ToolContext) -> _Target:
    path = absolute_path(file_path, context)
    # The link's target is replaced; permission covered both.
    real = os.path.realpath(path)
    straight = f"{os.path.realpath(context.root)}/{os.path.relpath(path, context.root)}"
    return _Target(path, real, show_path(path, context), elsewhere=real != os.path.normpath(straight))


def _check_target(target: _Target, context: ToolContext) -> None:
    """Refuse to write to another path than the approved one: a link may have been created or changed since."""
    decided = [need.real or need.target for need in context.needs if need.kind == "write"]
    if decided and target.real not in decided:
        now, then = visible_text(target.real), visible_text(decided[0])
        text = f"Nothing was changed: {target.shown} now leads to {now}, but to {then} when it was approved."
        raise _Refused(failure(f"{text} Check the links, then try again.", summary="led elsewhere"))


def _change(intent: Intent, target: _Target, context: ToolContext) -> Output:
    try:
        _check_target(target, context)
        present, change = _plan(intent, target, context)
        digest = digest_of(change.data)
        if digest == present.digest:
            return Output(f"{target.shown} already has this content; nothing was changed.", summary="unchanged")
        # A name has at most 255 bytes, and a character has up to four.
        name = f".{target.real.rpartition('/')[2][:50]}.{os.urandom(6).hex()}.tmp"
        replace_file(target.real, change.data, name, present.digest)
    except ChangedMeanwhile:
        text = f"{target.shown} was changed by another program at this moment. Read it, then try again."
        return failure(text, summary="changed meanwhile")
    except OSError as error:
        return os_failure(error, f"{target.shown} cannot be written")
    seen = context.read_cache.seen(target.real)
    # A model that created the file knows all of it.
    context.read_cache.note_digest(target.real, digest, intent.whole or seen is None or seen.whole, change.data)
    display = _make_display(present, change, target)
    return Output(
        change.message,
        summary=f"+{display['added']} −{display['removed']}",
        display=display,
        structured={**display, "path": target.path, "created": present.digest is None},
    )


def _make_display(present: Present, change: PlannedChange, target: _Target) -> Json:
    if change.display is not None:
        return {"kind": "diff", **change.display, "path": target.heading}
    from agentcli.tools.files.diff import diff_display

    display = {**diff_display(target.shown, present.text, change.text), "path": target.heading}
    return {**display, "language": language_of(target.path)}


def _plan(intent: Intent, target: _Target, context: ToolContext) -> tuple[Present, PlannedChange]:
    present = _load_present(intent, target, context)
    change = intent.plan(present)
    if isinstance(change, Output):
        raise _Refused(change)
    return present, change


def _load_present(intent: Intent, target: _Target, context: ToolContext) -> Present:
    shown = target.shown
    found = inspect(target.real, shown)
    if isinstance(found, Refusal):
        if found.missing and intent.create:
            return Present(shown, None)
        if not found.missing:
            raise _Refused(failure(found.text))
        near = near_names(target.real, context.hides)
        hint = f"Did you mean {' or '.join(near)}?" if near else "Create it with Write."
        raise _Refused(failure(f"{found.text} {hint}", summary="not found"))
    if found.st_size > MAX_LOADED_SIZE:
        size = counted(found.st_size, "byte")
        raise _Refused(failure(f"{shown} is too large to be changed this way ({size}). Use a command instead."))
    data = load_blocking(target.real)
    if not data and intent.create:
        # An empty file contains nothing that the model would have to know.
        return Present(shown, Decoded(""), digest_of(data))
    decoded = decode(data)
    if decoded is None:
        text = f"{shown} is a binary file or in an unknown encoding; changing it as text would damage it."
        raise _Refused(failure(f"{text} To put a text in its place, remove it with a command first."))
    _check_known(data, intent, target, context)
    return Present(shown, decoded, digest_of(data))


def _check_known(data: bytes, intent: Intent, target: _Target, context: ToolContext) -> None:
    """Refuse a change of content that the model does not know."""
    seen, shown = context.read_cache.seen(target.real), target.shown
    if seen is None:
        how = "Read all of it" if intent.whole else "Read it, or the part to change"
        text = f"{shown} exists, and it was not read, or it changed since it was read. {how}, then try again."
        raise _Refused(failure(f"{text} What Grep or a command printed does not count.", summary="not read"))
    if seen.digest != digest_of(data):
        raise _report_stale(data, intent, target, context)
    if intent.whole and not seen.whole:
        text = f"Only a part of {shown} has been read. Read the rest before replacing all of it, or use Edit."
        raise _Refused(failure(text))


def _report_stale(data: bytes, intent: Intent, target: _Target, context: ToolContext) -> _Refused:
    message = f"{target.shown} has changed since it was read, by the user, another program or a command."
    again = f"{message} Read it again, then try again."
    before = context.read_cache.content(target.real)
    then, now = decode(before or b""), decode(data)
    if not before or then is None or now is None:
        return _Refused(failure(again, summary="stale"))
    from agentcli.tools.files.diff import diff_display

    difference = str(diff_display(target.shown, then.text, now.text)["diff"])
    if not difference:
        difference = "(only line ends or the final line end)"
    elif len(difference) <= _MAX_DIFFERENCE_LENGTH and not intent.whole:
        # The model now knows all changes, which is enough to replace an exact piece, but not the whole file.
        text = f"{message} Nothing was changed by this call. What changed since:\n{difference}"
        known = (digest_of(data), data, False)
        return _Refused(failure(f"{text}\nTake this into account and try again.", summary="stale"), known)
    cut = difference[:_MAX_DIFFERENCE_LENGTH] + ("\n…" if len(difference) > _MAX_DIFFERENCE_LENGTH else "")
    return _Refused(failure(f"{again} What changed:\n{cut}", summary="stale"))
