"""The dialog that connects a model: shows a `Welcome`, has its work done beside the keys, and closes with how it ended.

The line for the key is masked, and emptied as soon as the key is out of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from textual import events, work

from agentcli.core.plaintext import plain_line
from agentcli.interactive.welcome import Next, Welcome, Work
from agentcli.providers.local import LocalServer
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.dialogs.subject import BLANK, paragraph
from agentcli.tui.sheets.choices import SheetChoice
from agentcli.tui.sheets.dialog import Dialog
from agentcli.tui.sheets.sheet import Keys

_BEGINS = "s"
"""Of every key. Where a terminal does not say that it pastes, the rest of it follows as keys that would choose."""
_SHORTEST = 16


class WelcomeDialog(Dialog[Welcome | None]):
    def __init__(
        self,
        welcome: Welcome,
        look: Callable[[], Awaitable[tuple[LocalServer, ...]]],
        do: Callable[[Welcome, Work], Awaitable[Welcome]],
        *,
        key: str = "",
    ) -> None:
        """`look` finds servers on this machine, `do` does a welcome's work, `key` was pasted already."""
        super().__init__()
        self.guarded = not key
        self._key = key
        self.welcome = welcome
        self._look = look
        self._do = do

    @property
    def question(self) -> str:
        return self.welcome.question

    def keys(self) -> Keys:
        if self.welcome.step == "working":
            return [("Esc", "cancel")]
        leave = "not now" if self.welcome.step == "choose" else "back"
        return [("↑↓ or a number", "choose"), ("Enter", "confirm"), ("Esc", leave)]

    def body(self, width: int) -> list[BlockLine]:
        palette, lines = self.palette, list[BlockLine]()
        for text in self.welcome.lines:
            lines += [*([BLANK] if lines else []), *paragraph(text, width, palette.text)]
        if self.welcome.problem:
            problem = paragraph(self.welcome.problem, width, palette.warning, mark=[("! ", palette.warning)])
            lines = [*problem, *([BLANK] if lines else []), *lines]
        return lines

    def choices(self) -> Sequence[SheetChoice]:
        return [
            SheetChoice(offer.name, offer.label, offer.letter, offer.short, plain_line(offer.detail))
            for offer in self.welcome.offers()
        ]

    def on_mount(self) -> None:
        if self._key:
            self._ask_key(self._key)
            self._key = ""
        elif self.welcome.servers is None:
            self._look_around()

    def choose(self, name: str) -> None:
        self._go(self.welcome.choose(name))

    def entered(self, text: str) -> None:
        self.entry.line.clear()
        self._go(self.welcome.entered(text))

    def left(self, text: str) -> None:
        if self.welcome.step == "key":
            self.welcome = self.welcome.back()
            self.index = 0
            if self.welcome.servers is None:
                self._look_around()

    def back(self) -> None:
        self.workers.cancel_group(self, "work")
        self._go((self.welcome.back(), None))

    def pressed(self, key: str, character: str | None) -> bool:
        if self.welcome.step == "working":
            return True
        if self.welcome.step != "choose" or self.typing or character != _BEGINS:
            return False
        self._ask_key(_BEGINS)
        return True

    def on_paste(self, event: events.Paste) -> None:
        """A key pasted at the question is meant for it, and must not get into the prompt, where it would be kept."""
        words = event.text.split()
        if self.welcome.step == "choose" and not self.typing and len(words) == 1 and len(words[0]) >= _SHORTEST:
            event.stop()
            event.prevent_default()
            self._ask_key(words[0])

    def stop_asking(self) -> None:
        super().stop_asking()
        self.entry.line.masked = False

    def _ask_key(self, text: str = "") -> None:
        self.welcome = self.welcome.ask_key()
        self._show_entry(text)

    def _show_entry(self, text: str = "") -> None:
        self.entry.line.masked = True
        self.ask(self.welcome.asks, text)
        self.update()

    def _go(self, after: Next) -> None:
        before, (self.welcome, wanted) = self.welcome.step, after
        if self.welcome.step == "done":
            self.entry.line.clear()
            self.dismiss(self.welcome)
            return
        if self.welcome.step == "key":
            self._show_entry()
        elif self.asking:
            self.stop_asking()
        if self.welcome.step != before:
            self.index = 0
        self.update()
        if wanted is not None:
            self._work(wanted)

    @work(group="work", exclusive=True)
    async def _work(self, wanted: Work) -> None:
        self._go((await self._do(self.welcome, wanted), None))

    @work(group="look")
    async def _look_around(self) -> None:
        servers = await self._look()
        marked = self.choices()[self.index].name if self.welcome.step == "choose" else ""
        self.welcome = self.welcome.found(servers)
        if marked:
            # What is marked stays marked, although others have come before it.
            self.index = next((n for n, one in enumerate(self.choices()) if one.name == marked), 0)
        self.update()
