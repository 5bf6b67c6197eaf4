"""Does the work of a `Welcome`: asks servers, keeps keys, saves settings. No server is asked before a welcome is
opened, and then only servers on this machine; others only after the user chose them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from agentcli.agent.engine import Engine
from agentcli.assemble.environment import Environment
from agentcli.assemble.login import Login
from agentcli.assemble.model import ModelBuilder, reconnect
from agentcli.assemble.options import Options
from agentcli.core.errors import AgentError, CredentialError, MissingKeyError
from agentcli.interactive.login.welcome import Welcome
from agentcli.providers.base import Connection
from agentcli.providers.credentials import LOGIN, PUBLIC_BASE_URL, bound_to
from agentcli.providers.local_servers import LocalServer, Program, speaks_messages


class WelcomeActions:
    """One per front end, for its whole life: remembers the options it was started with."""

    def __init__(self, options: Options, programs: Sequence[Program] | None = None) -> None:
        """`programs`: local model servers to search for; None: the default list."""
        self.options = options
        """Options for the next engines, with the chosen address and model."""
        self._own_model = options.model
        self._programs = programs
        self._login = Login(replace(options, base_url=None))

    def begin(self, *, demo: bool, waiting: bool = False) -> Welcome:
        """Make the first state of the dialog. Reads files. Raises `AgentError`."""
        public = self._login.address(PUBLIC_BASE_URL)
        connected, problem = self._describe_connection()
        return Welcome(
            address=self._login.address(),
            public=public,
            public_ready=self._login.public_is_ready(),
            connected=connected,
            waiting=waiting,
            demo=demo,
            problem=problem,
        )

    async def servers(self) -> tuple[LocalServer, ...]:
        return await self._login.servers(self._programs)

    async def do(self, welcome: Welcome) -> Welcome:
        """Do the work until the user is needed again. Never raises for errors of a server, a disk or a keyring."""
        while welcome.work:
            try:
                welcome = await self._do(welcome)
            except AgentError as error:
                welcome = welcome.failed(str(error))
        return welcome

    async def connect(self, welcome: Welcome, engine: Engine, connection: Connection) -> None:
        """Switch the conversation to the chosen connection. Raises `AgentError`, with nothing changed."""
        before = self.options.base_url
        after = await asyncio.to_thread(self._options_after, welcome)
        await asyncio.to_thread(reconnect, after, connection)
        self.options = after
        if welcome.outcome != "key" or before is not None:
            # The available models depend on the address.
            profile = await asyncio.to_thread(lambda: ModelBuilder(Environment(after)).profile(""))
            engine.set_model(profile.model)
            engine.set_small_model(profile.small_model)
            engine.set_effort(profile.effort)

    def forget(self) -> str:
        """Delete the key for the address in use and return a message; "" if there was none. Raises `AgentError`."""
        address = self._login.address()
        if self.options.base_url is not None and bound_to(self.options.base_url) == bound_to(address.url):
            self.options = replace(self.options, base_url=None)
        return f"The key for {address.host} was deleted." if self._login.forget(address) else ""

    def _options_after(self, welcome: Welcome) -> Options:
        """Options with the chosen address and model. Reads files. Raises `AgentError`."""
        if welcome.outcome == "server" and welcome.server is not None:
            return replace(self.options, base_url=welcome.server.base_url, model=welcome.model)
        target = welcome.key_address
        # A key that was just pasted overrides the configured address.
        pasted = welcome.outcome == "key" and bool(self._login.explain_unused(target))
        return replace(self.options, base_url=target.url if pasted else None, model=self._own_model)

    async def _do(self, welcome: Welcome) -> Welcome:
        match welcome.work:
            case "check key":
                return welcome.checked(await self._login.check(welcome.key_address, welcome.key))
            case "try server":
                assert welcome.server is not None
                return welcome.tried(await speaks_messages(welcome.server))
            case "keep key":
                return await asyncio.to_thread(self._keep, welcome)
            case "use server":
                return await asyncio.to_thread(self._use, welcome)
        await asyncio.to_thread(self._login.use, welcome.public)
        return welcome.ended("public", f"Requests go to {welcome.public.host} again.")

    def _keep(self, welcome: Welcome) -> Welcome:
        address = welcome.key_address
        if address.is_public and not welcome.address.is_public:
            self._login.use(address)
        placed = self._login.keep(address, welcome.key)
        report = f"The key for {address.host} is stored in {placed.where} and never sent to another address."
        if hindrance := self._login.explain_unused(address):
            used = "It is not used" if self._login.needs_no_key else "It is used in this session, but not in the next"
            hindrance = f"{used}, {hindrance}."
        return welcome.ended("key", " ".join(part for part in (report, placed.problem, hindrance) if part))

    def _use(self, welcome: Welcome) -> Welcome:
        server, model = welcome.server, welcome.model
        assert server is not None
        used = f"{model} on {server.name} ({server.host}) is used"
        if not welcome.always:
            return welcome.ended("server", f"{used} in this session.")
        where = self._login.use(self._login.address(server.base_url), model)
        report = f"{used} from now on ({where or 'as before'})."
        stronger = self._login.address()
        if bound_to(stronger.url) != bound_to(server.base_url):
            report += f" But {stronger.source} is set and overrides this in the next session: unset it."
        elif (source := self._login.credentials().source) not in ("none", LOGIN):
            report += f" {source} is set and will be sent there from the next session on."
            report += " If it is for another server, unset it."
        return welcome.ended("server", report)

    def _describe_connection(self) -> tuple[str, str]:
        """How the model is reached now, and if it is not, why. Both are "" if only the key is missing."""
        chosen = self.options.base_url
        if chosen is not None:
            return f"{self._login.address(chosen).host}, as you chose", ""
        if reason := self._login.needs_no_key:
            return reason, ""
        try:
            found = self._login.credentials()
        except MissingKeyError:
            return "", ""
        except CredentialError as error:
            return "", str(error)
        return f"{found.host}, " + (f"key from {found.source}" if found.source != "none" else "without a key"), ""
