"""API keys stored by `agentcli login`, each for one address.

In the system's keyring if there is one, else in `credentials.json` in the state folder (not in the configuration
folder, which users put under version control). The file lists the addresses that have a key, so that the keyring is not
queried without need. It is only used if no other user can read or write it; otherwise the error explains the fix. A
key is never in a `repr` or in a message.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from agentcli.config.files import lock_file, replace_in_place
from agentcli.core.errors import CredentialError
from agentcli.core.frozen import frozen

SERVICE = "agentcli"
_MIN_PRIORITY = 1
"""Minimum priority of a backend, as recommended by the library; those below store nothing, or plain text."""


class Vault(Protocol):
    """A store of secrets. Methods raise `CredentialError` if it is locked or unavailable."""

    def read(self, name: str) -> str | None: ...

    def keep(self, name: str, secret: str) -> None: ...

    def forget(self, name: str) -> None: ...


class Keyring:
    def __init__(self, library: Any) -> None:
        self._library = library

    def read(self, name: str) -> str | None:
        secret = self._call("get_password", name)
        return secret if isinstance(secret, str) else None

    def keep(self, name: str, secret: str) -> None:
        self._call("set_password", name, secret)
        if self.read(name) != secret:
            raise CredentialError("The system keyring accepted the key but did not return it.")

    def forget(self, name: str) -> None:
        """Remove an entry, if it exists."""
        if self.read(name) is not None:
            self._call("delete_password", name)

    def _call(self, function: str, *arguments: str) -> object:
        try:
            return getattr(self._library, function)(SERVICE, *arguments)
        except Exception as error:  # noqa: BLE001 -- each system's keyring has exceptions of its own
            # Only the type of the error: a backend's message may quote the secret.
            raise CredentialError(
                f"The system keyring is not available ({type(error).__name__}). Unlock it and try again, "
                "or set ANTHROPIC_API_KEY."
            ) from None


def system_vault() -> Vault | None:
    """The system keyring; None without the keyring package or a secure backend."""
    if find_spec("keyring") is None:
        return None
    try:
        library = import_module("keyring")
        priority = type(library.get_keyring()).priority
    except Exception:  # noqa: BLE001 -- a keyring that cannot be inspected is not used
        return None
    return Keyring(library) if isinstance(priority, int | float) and priority >= _MIN_PRIORITY else None


FILE_NAME = "credentials.json"
KEYRING = "the system keyring"
_MAX_BYTES = 256 * 1024


@frozen
class StoredKey:
    key: str = field(repr=False)
    where: str
    """Location for display: the keyring, or the file's path."""


@frozen
class KeyLocation:
    where: str
    problem: str = ""
    """Why the key is not in the keyring although there is one; "" otherwise."""


class KeyStore:
    """Stored API keys. Methods raise `CredentialError` with a fix."""

    def __init__(
        self,
        state_dir: Path | None,
        vault: Callable[[], Vault | None] = system_vault,
        *,
        file_name: str = FILE_NAME,
        command: str = "agentcli login",
    ) -> None:
        """`command`: the command that stores a key again, for error messages."""
        self.path = state_dir / file_name if state_dir is not None else None
        self._vault = vault
        self._command = command

    def find(self, address: str) -> StoredKey | None:
        entry = self._entries().get(address)
        if entry is None:
            return None
        if entry.get("in") != "keyring":
            key = entry.get("key")
            return StoredKey(key, str(self.path)) if isinstance(key, str) and key else None
        vault = self._vault()
        key = vault.read(address) if vault is not None else None
        if key is None:
            raise CredentialError(f"The key for {address} is no longer in {KEYRING}. Run `{self._command}` again.")
        return StoredKey(key, KEYRING)

    def addresses(self) -> tuple[str, ...]:
        """Addresses with a stored key."""
        return tuple(sorted(self._entries()))

    def keep(self, address: str, key: str) -> KeyLocation:
        problem = ""
        with self._change() as entries:
            vault = self._vault()
            if vault is not None:
                try:
                    vault.keep(address, key)
                    entries[address] = {"in": "keyring"}
                    return KeyLocation(KEYRING)
                except CredentialError as error:
                    problem = str(error)
            entries[address] = {"key": key}
        return KeyLocation(str(self.path), problem)

    def forget(self, address: str) -> bool:
        """Remove a key; returns whether there was one."""
        if address not in self._entries():
            return False
        with self._change() as entries:
            entry = entries.pop(address, None)
            if entry is not None and entry.get("in") == "keyring" and (vault := self._vault()) is not None:
                vault.forget(address)
        return entry is not None

    # --------------------------------------------------------------------------------------------------- the file

    def _entries(self) -> dict[str, dict[str, Any]]:
        if self.path is None:
            return {}
        raw = _read_safely(self.path, self._command)
        if raw is None:
            return {}
        try:
            keys = json.loads(raw)["keys"]
        except (ValueError, KeyError, TypeError, RecursionError):
            keys = None
        if not isinstance(keys, dict):
            raise CredentialError(
                f"{self.path} is not a valid credentials file. Remove it and run `{self._command}` again."
            )
        return {address: entry for address, entry in keys.items() if isinstance(entry, dict)}

    @contextmanager
    def _change(self) -> Iterator[dict[str, dict[str, Any]]]:
        """Yield the file's content for changes; it is saved if the block ends without an exception."""
        if self.path is None:
            raise CredentialError("No folder to store a key in. Set HOME, or use ANTHROPIC_API_KEY.")
        try:
            _check_folder(self.path.parent)
            with lock_file(self.path):
                entries = self._entries()
                yield entries
                replace_in_place(
                    self.path, json.dumps({"version": 1, "keys": entries}, indent=1).encode() + b"\n", 0o600
                )
        except OSError as error:
            raise CredentialError(f"The key cannot be stored in {self.path}: {error.strerror}.") from error


def _check_folder(folder: Path) -> None:
    """Create a private folder; an existing one must not be writable by others."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.geteuid():
        raise CredentialError(f"{folder} belongs to another user. Change its owner: chown -R $(id -u) {folder}")
    if status.st_mode & 0o022:
        raise CredentialError(f"Other users can write to {folder}. Make it private: chmod 700 {folder}")


def _read_safely(path: Path, command: str) -> bytes | None:
    try:
        # Non-blocking, because a FIFO would wait for a writer; no links, because they may lead anywhere.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CredentialError(f"{path} is a symbolic link and is not used. Remove it: rm {path}") from None
        raise CredentialError(f"{path} cannot be read: {error.strerror}.") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
            raise CredentialError(f"{path} is not a regular file. Remove it and run `{command}` again.")
        if status.st_uid != os.geteuid():
            raise CredentialError(
                f"{path} belongs to another user and is not used. Remove it and run `{command}` again."
            )
        if status.st_mode & 0o077:
            raise CredentialError(
                f"Other users can read {path}, so it is not used. Make it private: chmod 600 {path} "
                "(and create a new key if others use this machine)."
            )
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(_MAX_BYTES)
    finally:
        os.close(descriptor)
