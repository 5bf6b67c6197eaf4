"""Check, store and delete API keys, and choose the address of requests: shared by `agentcli login` and the welcome
screens of the front ends.

A key is bound to the address it was entered for. Choosing an address changes the `baseUrl` setting.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agentcli.assemble.environment import Environment
from agentcli.assemble.model import ModelBuilder, key_store
from agentcli.assemble.options import Options
from agentcli.config.save import save_setting
from agentcli.config.settings import Layer
from agentcli.core.addresses import is_private_host
from agentcli.core.errors import CredentialError, UsageError
from agentcli.core.frozen import frozen
from agentcli.providers.credentials import (
    LOGIN,
    PUBLIC_BASE_URL,
    Credentials,
    bound_to,
    is_key,
    resolve_credentials,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentcli.config.credentials import KeyLocation
    from agentcli.providers.listing import KeyCheck
    from agentcli.providers.local_servers import LocalServer, Program

_MAX_KEY = 8_192


@frozen
class EndpointAddress:
    url: str
    source: str
    """Source of the address: `default`, `settings`, `ANTHROPIC_BASE_URL`, `given` (by the caller) or `kept` (it has a
    stored key)."""

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc.rpartition("@")[2]

    @property
    def is_public(self) -> bool:
        return bound_to(self.url) == PUBLIC_BASE_URL

    @property
    def is_unencrypted(self) -> bool:
        """Whether a key would be sent unencrypted over a network."""
        parts = urlsplit(self.url)
        return parts.scheme == "http" and not is_private_host(parts.hostname or "")


class Login:
    """Reads the settings again for each call, because the previous call may have changed them."""

    def __init__(self, options: Options) -> None:
        self._options = replace(options, connection=None, key_needed=True)

    def address(self, base_url: str | None = None) -> EndpointAddress:
        """The address of `base_url`, or the one in use. Raises `UsageError`."""
        if base_url is None:
            return EndpointAddress(*self._models().base_url())
        if urlsplit(base_url).username is not None or urlsplit(base_url).password is not None:
            raise UsageError("The address contains a user name or password. Enter it without them.")
        return EndpointAddress(bound_to(base_url), "given")

    def credentials(self) -> Credentials:
        """The credentials that requests use now. Raises `CredentialError`."""
        return self._models().credentials()

    @property
    def needs_no_key(self) -> str:
        return self._models().needs_no_key

    def public_is_ready(self) -> bool:
        """Whether there is a key for the public address, even if requests go elsewhere now."""
        env = Environment(self._options)
        environ = {name: value for name, value in env.environ.items() if name != "ANTHROPIC_BASE_URL"}
        try:
            resolve_credentials(environ, env.settings.text("apiKeyHelper"), None, key_store(env).find)
        except CredentialError:
            return False
        return True

    def explain_unused(self, address: EndpointAddress) -> str:
        """Why a key stored for this address would not be used, as `because …`; empty if it would."""
        models = self._models()
        if models.needs_no_key:
            return f"because {models.needs_no_key}"
        in_use = EndpointAddress(*models.base_url())
        if bound_to(in_use.url) != bound_to(address.url):
            return f"because requests go to {in_use.host}: {_reason(in_use)}"
        source = models.credentials().source
        if source == LOGIN:
            return ""
        fix = "remove it from the settings" if source == "apiKeyHelper" else "unset it"
        return f"because {source} takes precedence: {fix}"

    async def servers(self, programs: Sequence[Program] | None = None) -> tuple[LocalServer, ...]:
        from agentcli.providers.local_servers import PROGRAMS, find_local_servers

        return await find_local_servers(PROGRAMS if programs is None else programs)

    async def check(self, address: EndpointAddress, key: str) -> KeyCheck:
        from agentcli.providers.listing import check_key

        return await check_key(Credentials(address.url, api_key=key))

    # ---------------------------------------------------------------------------------------------------- changing

    def keep(self, address: EndpointAddress, key: str) -> KeyLocation:
        """Store a key. Raises `CredentialError`."""
        return key_store(Environment(self._options)).keep(bound_to(address.url), key)

    def forget(self, address: EndpointAddress) -> bool:
        """Delete the key of an address; False if there was none. Raises `CredentialError`."""
        return key_store(Environment(self._options)).forget(bound_to(address.url))

    def list_kept_addresses(self) -> tuple[str, ...]:
        return key_store(Environment(self._options)).addresses()

    def use(self, address: EndpointAddress, model: str | None = None) -> str:
        """Send requests there from now on, by changing the user settings. Returns the changed file, empty if nothing
        changed. Raises `AgentError`."""
        env = Environment(self._options)
        path = env.paths.user_settings
        if path is None:
            raise CredentialError("Cannot save settings: no home folder. Set HOME, or use ANTHROPIC_BASE_URL.")
        of_user = {
            name: value
            for name in ("baseUrl", "model")
            for value, source in env.settings.each(name)
            if source.layer is Layer.USER
        }
        wanted = {"baseUrl": None if address.is_public else address.url}
        if model is not None:
            wanted["model"] = model
        elif of_user.get("baseUrl") and "model" in of_user and not env.catalog.get(of_user["model"]).known:
            # The model was chosen for the previous server and exists only there.
            wanted["model"] = None
        changed = {name: value for name, value in wanted.items() if of_user.get(name) != value}
        for name, value in changed.items():
            save_setting(path, name, value)
        return str(path) if changed else ""

    def _models(self) -> ModelBuilder:
        return ModelBuilder(Environment(self._options))


def tidy_key(text: str) -> str:
    """The key in typed, pasted or piped text. Raises `UsageError`, which never contains the text."""
    key = text.removeprefix("\x1b[200~").strip().removesuffix("\x1b[201~").strip()
    if len(key) >= 2 and key[0] == key[-1] and key[0] in "'\"":
        key = key[1:-1]
    if key and (not is_key(key) or len(key) > _MAX_KEY):
        raise UsageError("This is not a key. Copy only the key: one word without spaces or line breaks.")
    return key


def _reason(address: EndpointAddress) -> str:
    return {"settings": "the `baseUrl` setting is set", "default": "this is the default"}.get(
        address.source, f"{address.source} is set"
    )
