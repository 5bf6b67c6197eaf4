"""The dialog that connects a model: shows the steps of a `Welcome` and closes with the last one.

The entry for the key is masked, and cleared as soon as the key is taken from it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from textual import events, work

from agentcli.core.text.plaintext import plain_line
from agentcli.interactive.login.welcome import Welcome
from agentcli.providers.local_servers import LocalServer
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.screens.choices import SheetChoice
from agentcli.tui.screens.dialog import Dialog
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.subject import BLANK, paragraph

_KEY_START = "s"
"""First letter of every API key. In a terminal without bracketed paste a pasted key arrives as single key presses,
which would choose options."""
_MIN_KEY_LENGTH = 16
"""Characters."""


class WelcomeDialog(Dialog[Welcome | None]):
    """Returns the finished `Welcome`."""

    def __init__(
        self,
        welcome: Welcome,
        find_servers: Callable[[], Awaitable[tuple[LocalServer, ...]]],
        do_work: Callable[[Welcome], Awaitable[Welcome]],
        *,
        key: str = "",
    ) -> None:
        """`find_servers` finds model servers on this machine; `do_work` does the work of a step, such as checking a
        key; `key` is a key that was pasted into the prompt."""
        super().__init__()
        self.guarded = not key
        self._key = key
        self.welcome = welcome
        self._find_servers = find_servers
        self._do_work = do_work

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
            SheetChoice(offer.name, offer.label, offer.key, offer.short, plain_line(offer.detail))
            for offer in self.welcome.offers()
        ]

    def on_mount(self) -> None:
        if self._key:
            self._ask_key(self._key)
            self._key = ""
        elif self.welcome.servers is None:
            self._search_servers()

    def choose(self, name: str) -> None:
        self._go(self.welcome.choose(name))

    def submit(self, text: str) -> None:
        self.entry.line.clear()
        self._go(self.welcome.entered(text))

    def keep_unsent(self, text: str) -> None:
        if self.welcome.step == "key":
            self.welcome = self.welcome.back()
            self.index = 0
            if self.welcome.servers is None:
                self._search_servers()

    def back(self) -> None:
        self.workers.cancel_group(self, "work")
        self._go(self.welcome.back())

    def press_own(self, key: str, character: str | None) -> bool:
        if self.welcome.step == "working":
            return True
        if self.welcome.step != "choose" or self.typing or character != _KEY_START:
            return False
        self._ask_key(_KEY_START)
        return True

    def on_paste(self, event: events.Paste) -> None:
        """Take a key that is pasted at the first step: in the prompt it would be saved in the history."""
        words = event.text.split()
        if self.welcome.step == "choose" and not self.typing and len(words) == 1 and len(words[0]) >= _MIN_KEY_LENGTH:
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

    def _go(self, following: Welcome) -> None:
        """Show the next step and start its work."""
        before, self.welcome = self.welcome.step, following
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
        if self.welcome.work:
            self._run_work()

    @work(group="work", exclusive=True)
    async def _run_work(self) -> None:
        self._go(await self._do_work(self.welcome))

    @work(group="servers")
    async def _search_servers(self) -> None:
        servers = await self._find_servers()
        marked = self.choices()[self.index].name if self.welcome.step == "choose" else ""
        self.welcome = self.welcome.found(servers)
        if marked:
            # The marked row stays marked although new rows come before it.
            self.index = next((n for n, choice in enumerate(self.choices()) if choice.name == marked), 0)
        self.update()
