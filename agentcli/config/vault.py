"""The system's own keyring, where one is installed and really keeps secrets; `keyring` is an optional package.

It is imported when a key is read or kept there, never with this module: that takes a tenth of a second.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

from agentcli.core.errors import CredentialError

SERVICE = "agentcli"
_LEAST_PRIORITY = 1
"""Recommended minimum; backends below it store nothing, or plain text."""


class Vault(Protocol):
    """Raises `CredentialError` when it is locked or gone."""

    def read(self, name: str) -> str | None: ...

    def keep(self, name: str, secret: str) -> None: ...

    def forget(self, name: str) -> None: ...


class Keyring:
    def __init__(self, library: Any) -> None:
        self._library = library

    def read(self, name: str) -> str | None:
        try:
            secret = self._library.get_password(SERVICE, name)
        except Exception as error:  # noqa: BLE001 -- each system's keyring has exceptions of its own
            raise _unusable(error) from None
        return secret if isinstance(secret, str) else None

    def keep(self, name: str, secret: str) -> None:
        try:
            self._library.set_password(SERVICE, name, secret)
            kept = self._library.get_password(SERVICE, name)
        except Exception as error:  # noqa: BLE001 -- as above
            raise _unusable(error) from None
        if kept != secret:
            raise CredentialError("The system keyring accepted the key but did not return it.")

    def forget(self, name: str) -> None:
        """Remove an entry, if it exists."""
        if self.read(name) is None:
            return
        try:
            self._library.delete_password(SERVICE, name)
        except Exception as error:  # noqa: BLE001 -- as above
            raise _unusable(error) from None


def system_vault() -> Vault | None:
    """The system keyring; None without the keyring package or a secure backend."""
    if find_spec("keyring") is None:
        return None
    try:
        library = import_module("keyring")
        priority = type(library.get_keyring()).priority
    except Exception:  # noqa: BLE001 -- a keyring that cannot even be looked at is none
        return None
    return Keyring(library) if isinstance(priority, int | float) and priority >= _LEAST_PRIORITY else None


def _unusable(error: Exception) -> CredentialError:
    # Only the kind of the error: what a backend says may quote what it was given.
    return CredentialError(
        f"The system keyring is not available ({type(error).__name__}). Unlock it and try again, "
        "or set ANTHROPIC_API_KEY."
    )
