"""Change one file for Write, Edit, MultiEdit and NotebookEdit: locked, checked, atomic.

The lock is held from reading the current content until it is replaced, so a second change of the same file sees the
first. Whether the model knows the current content is checked at the moment of the change, so that changes made during a
permission question count. The caller computes the new content.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable

from agentcli.core.abort import AbortSignal
from agentcli.core.aio import in_thread
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.permission import Need
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import visible_text
from agentcli.tools.base import Output, ToolContext, ToolRun
from agentcli.tools.builtin import BuiltinTool, absolute_path, failure, os_failure, shown_path
from agentcli.tools.files.disk import MAX_LOADED_SIZE, Refusal, inspect, load_blocking, near_names
from agentcli.tools.files.encoding import Decoded, decode
from agentcli.tools.files.file_kinds import binary_name, language_of
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


@frozen
class _Outcome:
    output: Output
    known: tuple[str, bytes | None, bool] | None = None
    """What the model knows of the file afterwards, for the read cache: digest, content, and whether it is complete."""


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
        target = await in_thread(_target, intent.file_path, context)
    except OSError as error:
        # A link may disappear while it is resolved.
        return os_failure(error, f"{visible_text(intent.file_path)} cannot be found")
    strayed = _moved_target(target, context)
    if strayed is not None:
        return strayed
    async with context.read_cache.lock(target.real):
        outcome = await in_thread(_changed, intent, target, context)
        _note(outcome, target, context)
    return outcome.output


def preview_change(intent: Intent, context: ToolContext) -> Json | Output | None:
    """What `change_file` would show now, or its failure. Blocking; changes no file.

    The model gets a failure, so the file contents that it shows are recorded as seen.
    """
    try:
        target = _target(intent.file_path, context)
        made = _planned(intent, target, context)
    except OSError as error:
        return os_failure(error, f"{visible_text(intent.file_path)} cannot be read")
    if isinstance(made, _Outcome):
        _note(made, target, context)
        return made.output
    present, change = made
    return _display(present, change, target)


def _note(outcome: _Outcome, target: _Target, context: ToolContext) -> None:
    if outcome.known is not None:
        digest, data, whole = outcome.known
        context.read_cache.note_digest(target.real, digest, whole, data)


def _target(file_path: str, context: ToolContext) -> _Target:
    path = absolute_path(file_path, context)
    # The link's target is replaced; permission covered both.
    real = os.path.realpath(path)
    straight = f"{os.path.realpath(context.root)}/{os.path.relpath(path, context.root)}"
    return _Target(path, real, shown_path(path, context), elsewhere=real != os.path.normpath(straight))


def _moved_target(target: _Target, context: ToolContext) -> Output | None:
    """Refuse to write to another path than the approved one: a link may have been created or changed since."""
    decided = [need.real or need.target for need in context.needs if need.kind == "write"]
    if not decided or target.real in decided:
        return None
    now, then = visible_text(target.real), visible_text(decided[0])
    return failure(
        f"Nothing was changed: {target.shown} now leads to {now}, but to {then} when it was approved. Check the "
        "links, then try again.",
        summary="led elsewhere",
    )


def _changed(intent: Intent, target: _Target, context: ToolContext) -> _Outcome:
    try:
        made = _planned(intent, target, context)
        if isinstance(made, _Outcome):
            return made
        present, change = made
        digest = digest_of(change.data)
        if digest == present.digest:
            return _Outcome(
                Output(f"{target.shown} already has this content; nothing was changed.", summary="unchanged")
            )
        # A name has at most 255 bytes, and a character has up to four.
        name = f".{target.real.rpartition('/')[2][:50]}.{os.urandom(6).hex()}.tmp"
        replace_file(target.real, change.data, name, present.digest)
    except ChangedMeanwhile:
        text = f"{target.shown} was changed by another program at this moment. Read it, then try again."
        return _Outcome(failure(text, summary="changed meanwhile"))
    except OSError as error:
        return _Outcome(os_failure(error, f"{target.shown} cannot be written"))
    display = _display(present, change, target)
    output = Output(
        change.message,
        summary=f"+{display['added']} −{display['removed']}",
        display=display,
        structured={**display, "path": target.path, "created": present.digest is None},
    )
    return _Outcome(output, (digest, change.data, intent.whole or _knows_all(target, context)))


def _knows_all(target: _Target, context: ToolContext) -> bool:
    seen = context.read_cache.seen(target.real)
    # The model created this file, so it knows the content.
    return seen is None or seen.whole


def _display(present: Present, change: PlannedChange, target: _Target) -> Json:
    if change.display is not None:
        return {"kind": "diff", **change.display, "path": target.heading}
    from agentcli.tools.files.diff import diff_display

    display = {**diff_display(target.shown, present.text, change.text), "path": target.heading}
    return {**display, "language": language_of(target.path)}


def _planned(intent: Intent, target: _Target, context: ToolContext) -> tuple[Present, PlannedChange] | _Outcome:
    present = _present(intent, target, context)
    if isinstance(present, _Outcome):
        return present
    change = intent.plan(present)
    return _Outcome(change) if isinstance(change, Output) else (present, change)


def _present(intent: Intent, target: _Target, context: ToolContext) -> Present | _Outcome:
    shown = target.shown
    found = inspect(target.real, shown)
    if isinstance(found, Refusal):
        if found.missing and intent.create:
            return Present(shown, None)
        if not found.missing:
            return _Outcome(failure(found.text))
        near = near_names(target.real, context.hides)
        hint = f"Did you mean {' or '.join(near)}?" if near else "Create it with Write."
        return _Outcome(failure(f"{found.text} {hint}", summary="not found"))
    if found.st_size > MAX_LOADED_SIZE:
        text = f"{shown} is too large to be changed this way ({counted(found.st_size, 'byte')}). Use a command instead."
        return _Outcome(failure(text))
    data = load_blocking(target.real)
    if not data and intent.create:
        # An empty file contains nothing that the model would have to know.
        return Present(shown, Decoded(""), digest_of(data))
    decoded = decode(data)
    if decoded is None:
        text = f"{shown} is {binary_name(data)} or in an unknown encoding; changing it as text would damage it."
        return _Outcome(failure(f"{text} To put a text in its place, remove it with a command first."))
    problem = _unknown(data, intent, target, context)
    if problem is not None:
        return problem
    return Present(shown, decoded, digest_of(data))


def _unknown(data: bytes, intent: Intent, target: _Target, context: ToolContext) -> _Outcome | None:
    """Reason why the model must read the file first; None if it need not."""
    seen, shown = context.read_cache.seen(target.real), target.shown
    if seen is None:
        how = "Read all of it" if intent.whole else "Read it, or the part to change"
        text = f"{shown} exists, and it was not read, or it changed since it was read. {how}, then try again."
        return _Outcome(failure(f"{text} What Grep or a command printed does not count.", summary="not read"))
    digest = digest_of(data)
    if seen.digest != digest:
        return _stale(data, digest, intent, target, context)
    if intent.whole and not seen.whole:
        text = f"Only a part of {shown} has been read. Read the rest before replacing all of it, or use Edit."
        return _Outcome(failure(text))
    return None


def _stale(data: bytes, digest: str, intent: Intent, target: _Target, context: ToolContext) -> _Outcome:
    message = f"{target.shown} has changed since it was read, by the user, another program or a command."
    then, now = decode(context.read_cache.content(target.real) or b""), decode(data)
    if not context.read_cache.content(target.real) or then is None or now is None:
        return _Outcome(failure(f"{message} Read it again, then try again.", summary="stale"))
    from agentcli.tools.files.diff import diff_display

    difference = str(diff_display(target.shown, then.text, now.text)["diff"])
    complete = 0 < len(difference) <= _MAX_DIFFERENCE_LENGTH
    if not difference:
        difference = "(only line ends or the final line end)"
    if not complete or intent.whole:
        shown = difference[:_MAX_DIFFERENCE_LENGTH] + ("" if len(difference) <= _MAX_DIFFERENCE_LENGTH else "\n…")
        return _Outcome(failure(f"{message} Read it again, then try again. What changed:\n{shown}", summary="stale"))
    # The model now knows all changes, which is enough to replace an exact piece, but not the whole file.
    advice = "Nothing was changed by this call. What changed since:"
    known = (digest, data, False)
    return _Outcome(
        failure(f"{message} {advice}\n{difference}\nTake this into account and try again.", summary="stale"), known
    )
