"""The `/mcp` pages, live: state and offers of the servers; reconnect, enable, disable, sign in, switch tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Literal, TypeVar

from textual import events

from agentcli.commands import mcp_listing as listing
from agentcli.commands.mcp import outcome
from agentcli.core.errors import AgentError
from agentcli.core.frozen import frozen
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line
from agentcli.mcp.connection import McpFailure
from agentcli.mcp.protocol import tool_names
from agentcli.mcp.server import McpServer
from agentcli.mcp.servers import McpServers
from agentcli.tui.screens.page import Page, TextPage
from agentcli.tui.screens.picker import Action, ListSheet
from agentcli.tui.screens.row_list import Row
from agentcli.tui.screens.text import Runs, safe, wrap_rows

T = TypeVar("T")

_LOG_LINES = 200
_LOG_SECONDS = 1.0
"""Refresh interval of a shown log, in seconds."""
_HEAD_ROWS = 5


class ServerSheet(ListSheet[T, None]):
    """A list that updates with the servers, with keys that act on one of them."""

    letters = True
    share = 0.9

    def __init__(self, title: str, servers: McpServers) -> None:
        self.servers = servers
        self._shown_version = servers.version
        super().__init__(title, self.current_rows(), preview=self.preview_lines)

    def current_rows(self) -> list[Row[T]]:
        raise NotImplementedError

    def preview_lines(self, row: Row[T]) -> Sequence[str]:
        raise NotImplementedError

    @property
    def server(self) -> McpServer | None:
        """The server that the keys act on."""
        raise NotImplementedError

    def on_mount(self) -> None:  # Textual also calls the `on_mount` of the base classes, after this one
        self.work(self._follow, "follow")

    async def _follow(self) -> None:
        while True:
            await self.servers.wait_for_change(self._shown_version)
            self._shown_version = self.servers.version
            if not self.is_open:
                return
            said, good = self._said, self._is_good
            self.set_rows(self.current_rows())
            if said:
                self.say(said, good=good)

    def actions(self) -> Sequence[Action]:
        server = self.server
        if server is None:
            return ()
        found: list[Action] = []
        if server.state == "unapproved":
            text = "Not approved. Use /trust to review what this project would run."
            found.append(("e", "", partial(self.say, text)))
        else:
            is_off = server.state == "disabled"
            enable = partial(self._act, partial(self.servers.set_enabled, server.name, is_off))
            found.append(("e", "enable" if is_off else "disable", enable))
            if not is_off:
                found.append(("r", "reconnect", partial(self._act, server.reconnect)))
        if server.signs_in:
            sign_out = "sign out" if server.state != "needs-auth" else ""
            found.append(("o", sign_out, partial(self._act, partial(self._sign_out, server))))
            found.append(("s", "sign in", partial(self._sign_in, server)))
        return found

    def _sign_in(self, server: McpServer) -> None:
        self.say("Signing in. Continue in the browser.")
        self._act(partial(server.sign_in, partial(self._show_address, server)), server)

    def _show_address(self, server: McpServer, address: str) -> None:
        if self.is_open:
            self.open(SignInPage(address, server.paste))

    async def _sign_out(self, server: McpServer) -> None:
        await server.sign_out()
        if self.is_open:
            self.say(f"The tokens for {listing.server_name(server)} are removed.", good=True)

    def _act(self, action: Callable[[], Awaitable[None]], reported: McpServer | None = None) -> None:
        async def act() -> None:
            try:
                await action()
            except (AgentError, McpFailure) as error:
                if self.is_open:
                    self.say(plain_line(str(error), 300))
                return
            if reported is not None and self.is_open:
                self.say(outcome(reported), good=True)

        self.work(act, "action")


class SignInPage(TextPage):
    """Shows the sign-in address. If the browser cannot reach this machine, the user pastes its final address here."""

    def __init__(self, address: str, paste: Callable[[str], None]) -> None:
        lines = ["Open this address to sign in:", "", address, ""]
        lines.append("If the last page does not load in the browser, paste its address here.")
        super().__init__("Sign in", lines)
        self._paste = paste

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        try:
            self._paste(event.text.strip())
        except McpFailure as error:
            self.show_notice(plain_line(str(error), 200))
            return
        self.leave()


class LogPage(Page[None]):
    """The last lines of a log, live. Follows its end unless scrolled up."""

    def __init__(self, title: str, read: Callable[[], Sequence[str]]) -> None:
        super().__init__(title)
        self._read = read
        self._shown: list[str] = []

    def on_mount(self) -> None:  # Textual also calls `Sheet.on_mount`, after this one
        self._shown = list(self._read())
        self.set_interval(_LOG_SECONDS, self.update_lines)
        self.call_after_refresh(self.go_to_end)

    def lines(self, width: int) -> Sequence[Runs]:
        return [[(safe(line), self.palette.text)] for line in self._shown]

    def update_lines(self) -> None:
        lines = list(self._read())
        if lines == self._shown or not self.is_open:
            return
        self._shown, follows = lines, not self.scroller.hidden[1]
        self.update()
        if follows:
            self.call_after_refresh(self.go_to_end)  # after the new height is known


class McpPage(ServerSheet[str]):
    """List of all servers; Enter opens one."""

    verb = "open"

    def __init__(self, servers: McpServers) -> None:
        super().__init__("MCP servers", servers)

    @property
    def server(self) -> McpServer | None:
        return self.servers.get(self.row.value) if self.row is not None else None

    def current_rows(self) -> list[Row[str]]:
        rows = []
        for server in self.servers:
            what = listing.offer_counts(server) or listing.error_line(server)
            facts = "  ".join(filter(None, (listing.state_word(server), what, listing.source_words(server))))
            rows.append(Row(server.name, listing.server_name(server), facts, listing.state_mark(server)))
        return rows

    def preview_lines(self, row: Row[str]) -> Sequence[str]:
        server = self.servers.get(row.value)
        return listing.details(server, list(self.servers)) if server is not None else ()

    def choose(self, row: Row[str]) -> None:
        server = self.servers.get(row.value)
        if server is not None:
            self.open(ServerPage(server, self.servers))


@frozen
class Offered:
    """Value of one row on a server's page."""

    kind: Literal["about", "log", "tool", "refused", "prompt", "resource", "template"]
    name: str = ""


class ServerPage(ServerSheet[Offered]):
    """One server and everything it offers in one list. Enter shows details, `e` or Space switches a tool on or off."""

    verb = "show"
    label_cells = 34

    def __init__(self, server: McpServer, servers: McpServers) -> None:
        self._server = server
        super().__init__(f"MCP server {server.name}", servers)

    @property
    def server(self) -> McpServer:
        """The server of this name: a new object after a configuration change, the last one if it was removed."""
        self._server = self.servers.get(self._server.name) or self._server
        return self._server

    @property
    def min_rows(self) -> int:
        """Also covers the list of servers below it."""
        below = [screen for screen in self.app.screen_stack if isinstance(screen, McpPage)]
        return max(super().min_rows, *(page.query_one("#sheet").region.height - 2 for page in below), 0)

    def head(self, width: int, room: int) -> list[Runs]:
        palette, server = self.palette, self.server
        counts = listing.offer_counts(server)
        state = f"{listing.state_mark(server)} {listing.state_word(server)}"
        rows = wrap_rows([(state, palette.text + palette.strong), (f"  {counts}", palette.muted)], width, 2)
        if server.error:
            rows += wrap_rows([(listing.error_line(server, 400), palette.warning)], width, 2 if room > 8 else 1)
        return rows[: max(1, min(_HEAD_ROWS, room // 2))]

    def current_rows(self) -> list[Row[Offered]]:
        server, offers = self.server, self.server.offers
        about = (
            "command, protocol, instructions" if server.config.kind == "stdio" else "address, protocol, instructions"
        )
        rows = [Row(Offered("about"), "About", about), Row(Offered("log"), "Log", counted(len(server.log), "line"))]
        for tool in offers.tools:
            mark = "○" if tool.name in server.disabled_tools else "●"
            summary = listing.tool_summary(tool, server)
            rows.append(Row(Offered("tool", tool.name), tool.name, summary, mark, "Tools"))
        for name, reason in offers.refused:
            rows.append(Row(Offered("refused", name), name, reason, "✗", "Refused tools"))
        for prompt in offers.prompts:
            summary = listing.prompt_summary(prompt)
            label = f"{prompt.name} {listing.argument_hint(prompt)}".rstrip()
            rows.append(Row(Offered("prompt", prompt.name), label, summary, "/", "Prompts"))
        for resource in offers.resources:
            summary = listing.resource_summary(resource)
            rows.append(Row(Offered("resource", resource.uri), resource.uri, summary, "@", "Resources"))
        for template in offers.templates:
            summary, uri = listing.resource_summary(template), template.uri_template
            rows.append(Row(Offered("template", uri), uri, summary, "@", "Resource templates"))
        return rows

    def _command(self, prompt: str) -> str:
        return listing.prompt_commands(self._server, list(self.servers))[prompt]

    def preview_lines(self, row: Row[Offered]) -> Sequence[str]:
        server, offers, name = self.server, self.server.offers, row.value.name
        match row.value.kind:
            case "about":
                return listing.about(server)
            case "log":
                return listing.log_tail(server, _LOG_LINES) or ("(no log lines)",)
            case "tool":
                names = tool_names(listing.name_part(server, self.servers), [tool.name for tool in offers.tools])
                found = (tool for tool in offers.tools if tool.name == name)
                return next((listing.tool_lines(tool, server, names[name]) for tool in found), ())
            case "prompt":
                prompts = (prompt for prompt in offers.prompts if prompt.name == name)
                return next((listing.prompt_lines(prompt, self._command(name)) for prompt in prompts), ())
            case "refused":
                return (name, "", "This tool cannot be used:", row.detail)
        return (f"@{server.name}:{name}", "", row.detail)

    def choose(self, row: Row[Offered]) -> None:
        title = f"{self._server.name}: {row.label}"
        if row.value.kind == "log":
            self.open(LogPage(title, lambda: self.preview_lines(row)))
            return
        self.open(TextPage(title, self.preview_lines(row)))

    @property
    def _tool(self) -> str | None:
        """The selected tool."""
        row = self.row
        return row.value.name if row is not None and row.value.kind == "tool" else None

    def actions(self) -> Sequence[Action]:
        tool, server = self._tool, self._server
        if tool is None:
            return [(key, f"{word} server" if key == "e" and word else word, do) for key, word, do in super().actions()]
        is_off = tool in server.disabled_tools
        switch = partial(self._act, partial(self.servers.set_tool_enabled, server.name, tool, is_off))
        others = [action for action in super().actions() if action[0] != "e"]
        return [("e", f"{'enable' if is_off else 'disable'} tool", switch), ("space", "", switch), *others]
