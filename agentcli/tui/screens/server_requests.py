"""Requests of MCP servers that are answered with a choice: an address to open, and a model reply (sampling).

Closing a dialog cancels the request, but not the running work.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.agent.mcp.server_questions import CANCELLED
from agentcli.core.permission import Answer
from agentcli.core.text.format import money
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.interactive.sampling_price import sampling_price
from agentcli.mcp.visit_address import parse_address
from agentcli.tui.blocks.base import BlockLine
from agentcli.tui.blocks.wrap import wrap
from agentcli.tui.screens.choices import SheetChoice
from agentcli.tui.screens.dialog import RequestDialog
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.subject import BLANK, field_lines, paragraph


class ServerAddressDialog(RequestDialog):
    declined = CANCELLED

    def keys(self) -> Keys:
        return [("↑↓", "choose"), ("Enter", "confirm"), ("Esc", "cancel")]

    @property
    def size_of_body(self) -> int:
        return len(str(self.event.display.get("message", "")))

    def body(self, width: int) -> list[BlockLine]:
        palette, address = self.palette, parse_address(str(self.event.display["url"]))
        before, after = address.text[: address.host_start], address.text[address.host_end :]
        runs = [(before, palette.muted), (address.host, palette.accent + palette.strong), (after, palette.muted)]
        lines = wrap(runs, width)
        for warning in address.warnings:
            lines += paragraph(warning, width, palette.warning, mark=[("! ", palette.warning)])
        message = plain_text(str(self.event.display.get("message", "")))
        return [*lines, *([BLANK, *paragraph(message, width, palette.text)] if message else [])]

    def choices(self) -> Sequence[SheetChoice]:
        return [
            SheetChoice("open", "Open it in the browser", "y", short="Open"),
            SheetChoice("self", "I open it myself", "m"),
            SheetChoice("decline", "Decline", "n"),
        ]

    def choose(self, name: str) -> None:
        match name:
            case "open":
                self.dismiss(Answer("allow", updated_input={"open": True}))
            case "self":
                self.dismiss(Answer("allow", updated_input={"open": False}))
            case _:
                self.dismiss(Answer("deny"))


class SamplingDialog(RequestDialog):
    """Asks for approval of a sampling request. It is shown in full and must be scrolled to its end before approval."""

    declined = CANCELLED

    def keys(self) -> Keys:
        return [("↑↓ or a number", "choose"), ("Enter", "confirm"), ("Esc", "cancel")]

    def locked_keys(self) -> Keys:
        return [("PgDn Space ↓", "scroll"), ("n", "decline"), ("End", "go to the end"), ("Esc", "cancel")]

    @property
    def gated(self) -> bool:
        return True

    @property
    def size_of_body(self) -> int:
        display = self.event.display
        return len(str(display.get("system", ""))) + sum(len(str(each["text"])) for each in display["messages"])

    def body(self, width: int) -> list[BlockLine]:
        display, palette = self.event.display, self.palette
        lines = field_lines("model", plain_line(str(display["model"])), width, palette)
        lines += field_lines("cost", sampling_price(display), width, palette)
        parts = [("system prompt", str(display.get("system", "")))] if display.get("system") else []
        parts += [(str(each["role"]), str(each["text"])) for each in display["messages"]]
        for name, text in parts:
            lines += [BLANK, *paragraph(f"{plain_line(name)}:", width, palette.muted)]
            lines += paragraph(plain_text(text), width, palette.text, "  ")
        return lines

    def choices(self) -> Sequence[SheetChoice]:
        display = self.event.display
        server = plain_line(str(display["server"]), 40)
        found = [SheetChoice("once", "Allow once", "y", locked=self.locked)]
        if display["most_usd"] is not None:
            budget = money(float(display["budget_usd"]))
            label = f"Allow all of {server} in this session, up to {budget}"
            found.append(SheetChoice("session", label, "a", short="Allow for this session", locked=self.locked))
        return [*found, SheetChoice("decline", "Decline", "n")]

    def choose(self, name: str) -> None:
        self.dismiss(Answer("deny") if name == "decline" else Answer("allow", updated_input={"scope": name}))
