"""What a login does besides asking: which address a key is for, whether it is good, where it is kept, what stands in
its way. The same for `agentcli login`, the app's welcome and whoever asks a person in another way.

A key is bound to the address it was given for. The address in use is the `baseUrl` setting, so that there is one place
that says where requests go.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agentcli.assemble.ground import Ground
from agentcli.assemble.model import ModelParts, key_store
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
    from agentcli.providers.check import Checked
    from agentcli.providers.local import LocalServer, Program

_LONGEST_KEY = 8_192


@frozen
class Address:
    url: str
    source: str
    """What says that requests go there: `default`, `settings`, `ANTHROPIC_BASE_URL`."""

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc.rpartition("@")[2]

    @property
    def is_public(self) -> bool:
        return bound_to(self.url) == PUBLIC_BASE_URL

    @property
    def in_the_open(self) -> bool:
        """A key would go there unencrypted, over a network."""
        parts = urlsplit(self.url)
        return parts.scheme == "http" and not is_private_host(parts.hostname or "")


class Login:
    """Reads settings anew for each question, because each answer may have changed them."""

    def __init__(self, options: Options) -> None:
        self._options = replace(options, connection=None, key_needed=True)

    # ----------------------------------------------------------------------------------------------------- looking

    def address(self, base_url: str | None = None) -> Address:
        """Of `base_url`, or the one in use. Raises `UsageError`."""
        if base_url is None:
            return Address(*self._models().base_url())
        if urlsplit(base_url).username is not None or urlsplit(base_url).password is not None:
            raise UsageError("An address with a user name or password in it is not kept. Leave them out.")
        return Address(bound_to(base_url), "given")

    def credentials(self) -> Credentials:
        """What requests go out with now. Raises `CredentialError`."""
        return self._models().credentials()

    @property
    def needs_no_key(self) -> str:
        return self._models().needs_no_key

    def public_is_ready(self) -> bool:
        """Whether there is a key for the public address, wherever requests go now."""
        ground = Ground(self._options)
        environ = {name: value for name, value in ground.environ.items() if name != "ANTHROPIC_BASE_URL"}
        try:
            resolve_credentials(environ, ground.settings.text("apiKeyHelper"), None, key_store(ground).find)
        except CredentialError:
            return False
        return True

    def in_the_way(self, address: Address) -> str:
        """Why a key that is kept for this address is not the one that is used, as `because …`; empty when it is."""
        models = self._models()
        if models.needs_no_key:
            return f"because {models.needs_no_key}"
        in_use = Address(*models.base_url())
        if bound_to(in_use.url) != bound_to(address.url):
            return f"because requests go to {in_use.host}: {_says(in_use)}"
        source = models.credentials().source
        if source == LOGIN:
            return ""
        what = "take it out of the settings" if source == "apiKeyHelper" else "unset it"
        return f"because {source} is set, which is stronger: {what}"

    async def servers(self, programs: Sequence[Program] | None = None) -> tuple[LocalServer, ...]:
        from agentcli.providers.local import PROGRAMS, find_local_servers

        return await find_local_servers(PROGRAMS if programs is None else programs)

    async def check(self, address: Address, key: str) -> Checked:
        from agentcli.providers.check import check_key

        return await check_key(Credentials(address.url, api_key=key))

    # ---------------------------------------------------------------------------------------------------- changing

    def keep(self, address: Address, key: str) -> KeyLocation:
        """Raises `CredentialError`."""
        return key_store(Ground(self._options)).keep(bound_to(address.url), key)

    def forget(self, address: Address) -> bool:
        """Whether there was a key. Raises `CredentialError`."""
        return key_store(Ground(self._options)).forget(bound_to(address.url))

    def kept_addresses(self) -> tuple[str, ...]:
        return key_store(Ground(self._options)).addresses()

    def use(self, address: Address, model: str | None = None) -> str:
        """Have requests go there from now on: the user settings say so. Returns the file's name, empty when it said so
        already. Raises `AgentError`."""
        ground = Ground(self._options)
        path = ground.paths.user_settings
        if path is None:
            raise CredentialError("There is no folder for settings. Set HOME, or use ANTHROPIC_BASE_URL.")
        of_user = {
            name: value
            for name in ("baseUrl", "model")
            for value, source in ground.settings.each(name)
            if source.layer is Layer.USER
        }
        wanted = {"baseUrl": None if address.is_public else address.url}
        if model is not None:
            wanted["model"] = model
        elif of_user.get("baseUrl") and "model" in of_user and not ground.catalog.get(of_user["model"]).known:
            # It was chosen together with the server that is left now, and is nowhere else.
            wanted["model"] = None
        changed = {name: value for name, value in wanted.items() if of_user.get(name) != value}
        for name, value in changed.items():
            save_setting(path, name, value)
        return str(path) if changed else ""

    def _models(self) -> ModelParts:
        return ModelParts(Ground(self._options))


def tidy_key(text: str) -> str:
    """What was typed, pasted or piped, as a key. Raises `UsageError`, which never repeats it."""
    key = text.removeprefix("\x1b[200~").strip().removesuffix("\x1b[201~").strip()
    if len(key) >= 2 and key[0] == key[-1] and key[0] in "'\"":
        key = key[1:-1]
    if key and (not is_key(key) or len(key) > _LONGEST_KEY):
        raise UsageError("That is no key: a key is one word of letters, digits and signs. Copy it again, and only it.")
    return key


def _says(address: Address) -> str:
    return {"settings": "the `baseUrl` setting says so", "default": "no setting says otherwise"}.get(
        address.source, f"{address.source} is set"
    )
