"""The `/mcp` pages, live: state and offers of the servers; reconnect, enable, disable, sign in, switch tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

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
from agentcli.tui.blocks.rows import Runs
from agentcli.tui.screens.page import LivePage, TextPage
from agentcli.tui.screens.picker import Action, ListSheet
from agentcli.tui.screens.row_list import Row
from agentcli.tui.screens.text import safe, wrap_rows

T = TypeVar("T")

_LOG_LINES = 200
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
            self.set_rows(self.current_rows())

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


class LogPage(LivePage[None]):
    """The last lines of a log."""

    def __init__(self, title: str, read: Callable[[], Sequence[str]]) -> None:
        super().__init__(title)
        self._read = read
        self._shown: list[str] = []

    def has_changed(self) -> bool:
        before, self._shown = self._shown, list(self._read())
        return self._shown != before

    def lines(self, width: int) -> Sequence[Runs]:
        return [[(safe(line), self.palette.text)] for line in self._shown]


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

    kind: str
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
        names = tool_names(listing.name_part(server, self.servers), [tool.name for tool in offers.tools])
        commands = listing.prompt_commands(server, list(self.servers))
        rows: list[Row[Offered]] = []
        self._previews: dict[Offered, Callable[[], Sequence[str]]] = {}

        def add(row: Row[Offered], preview: Callable[[], Sequence[str]]) -> None:
            rows.append(row)
            self._previews[row.value] = preview

        place = "command" if server.config.kind == "stdio" else "address"
        add(Row(Offered("about"), "About", f"{place}, protocol, instructions"), lambda: listing.about(server))
        add(
            Row(Offered("log"), "Log", counted(len(server.log), "line")),
            lambda: listing.log_tail(server, _LOG_LINES) or ("(no log lines)",),
        )
        for tool in offers.tools:
            mark = "○" if tool.name in server.disabled_tools else "●"
            row = Row(Offered("tool", tool.name), tool.name, listing.tool_summary(tool, server), mark, "Tools")
            add(row, partial(listing.tool_lines, tool, server, names[tool.name]))
        for name, reason in offers.refused:
            row = Row(Offered("refused", name), name, reason, "✗", "Refused tools")
            add(row, partial(_texts, name, "", "This tool cannot be used:", reason))
        for prompt in offers.prompts:
            label = f"{prompt.name} {listing.argument_hint(prompt)}".rstrip()
            row = Row(Offered("prompt", prompt.name), label, listing.prompt_summary(prompt), "/", "Prompts")
            add(row, partial(listing.prompt_lines, prompt, commands[prompt.name]))
        resources = [(each.uri, listing.resource_summary(each), "Resources") for each in offers.resources]
        resources += [
            (each.uri_template, listing.resource_summary(each), "Resource templates") for each in offers.templates
        ]
        for uri, summary, group in resources:
            row = Row(Offered(group, uri), uri, summary, "@", group)
            add(row, partial(_texts, f"@{server.name}:{uri}", "", summary))
        return rows

    def preview_lines(self, row: Row[Offered]) -> Sequence[str]:
        return self._previews[row.value]()

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


def _texts(*lines: str) -> Sequence[str]:
    return lines
