"""Saved keys: where they are stored, who can read them, and which files are rejected."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from agentcli.config import credentials
from agentcli.config.credentials import KEYRING, Keyring, KeyStore, Vault, system_vault
from agentcli.core.errors import CredentialError

KEY = "sk-ant-kept-0123456789abcdef"
HERE = "https://api.anthropic.com"


def store(folder: Path, kept: Vault | None = None) -> KeyStore:
    return KeyStore(folder / "state", lambda: kept)


class Library:
    """What the keyring package looks like from here."""

    def __init__(self, *, broken: bool = False, forgetful: bool = False) -> None:
        self.secrets: dict[tuple[str, str], str] = {}
        self.broken, self.forgetful = broken, forgetful

    def get_password(self, service: str, name: str) -> str | None:
        if self.broken:
            raise RuntimeError(f"locked while {KEY} was on its way")
        return self.secrets.get((service, name))

    def set_password(self, service: str, name: str, secret: str) -> None:
        if not self.forgetful:
            self.secrets[service, name] = secret

    def delete_password(self, service: str, name: str) -> None:
        del self.secrets[service, name]


def test_a_key_is_saved_for_its_address_only_in_a_private_file(tmp_path: Path) -> None:
    keys = store(tmp_path)
    old = os.umask(0)
    try:
        placed = keys.keep(HERE, KEY)
    finally:
        os.umask(old)
    assert keys.path is not None
    assert placed.where == str(keys.path)
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(keys.path.parent.stat().st_mode) == 0o700
    found = keys.find(HERE)
    assert found is not None
    assert found.key == KEY
    assert KEY not in repr(found)
    for other in ("https://api.anthropic.com.evil.example", "http://api.anthropic.com", f"{HERE}/gateway"):
        assert keys.find(other) is None
    assert sorted(path.name for path in keys.path.parent.iterdir()) == ["credentials.json", "credentials.lock"]


def test_a_second_key_replaces_the_first_and_leaves_other_addresses_alone(tmp_path: Path) -> None:
    keys = store(tmp_path)
    keys.keep(HERE, KEY)
    keys.keep("http://localhost:1", "other")
    keys.keep(HERE, "new")
    assert [getattr(keys.find(address), "key", "") for address in keys.addresses()] == ["other", "new"]
    assert keys.forget(HERE)
    assert not keys.forget(HERE)
    assert keys.addresses() == ("http://localhost:1",)


def test_a_link_is_neither_read_nor_written_through(tmp_path: Path) -> None:
    keys, target = store(tmp_path), tmp_path / "target"
    assert keys.path is not None
    keys.keep(HERE, KEY)
    keys.path.rename(target)
    before = target.read_bytes()
    keys.path.symlink_to(target)
    for attempt in (lambda: keys.find(HERE), lambda: keys.keep(HERE, "new"), lambda: keys.forget(HERE)):
        with pytest.raises(CredentialError, match=r"is a symbolic link.*rm "):
            attempt()
    assert target.read_bytes() == before
    keys.path.unlink()
    keys.path.symlink_to(tmp_path / "not there")
    with pytest.raises(CredentialError, match="is a symbolic link"):
        keys.keep(HERE, KEY)
    assert not (tmp_path / "not there").exists()


def test_a_lock_that_is_a_link_makes_no_file_elsewhere(tmp_path: Path) -> None:
    keys = store(tmp_path)
    assert keys.path is not None
    keys.path.parent.mkdir(mode=0o700)
    keys.path.with_suffix(".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CredentialError, match="cannot be stored"):
        keys.keep(HERE, KEY)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o601])
def test_a_file_that_others_can_read_is_not_used_and_the_fix_is_shown(tmp_path: Path, mode: int) -> None:
    keys = store(tmp_path)
    keys.keep(HERE, KEY)
    assert keys.path is not None
    keys.path.chmod(mode)
    with pytest.raises(CredentialError, match=f"chmod 600 {keys.path}") as caught:
        keys.find(HERE)
    assert KEY not in str(caught.value)
    keys.path.chmod(0o600)
    assert keys.find(HERE) is not None


def test_files_of_another_user_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = store(tmp_path)
    keys.keep(HERE, KEY)
    assert keys.path is not None
    if os.geteuid() == 0:
        os.chown(keys.path, 12345, -1)
        with pytest.raises(CredentialError, match="belongs to another user"):
            keys.find(HERE)
        os.chown(keys.path, 0, -1)
    monkeypatch.setattr(credentials.os, "geteuid", lambda: 54321)
    with pytest.raises(CredentialError, match="belongs to another user"):
        keys.find(HERE)
    with pytest.raises(CredentialError, match="chown"):
        keys.keep(HERE, KEY)


def test_a_folder_that_others_can_write_to_gets_no_key(tmp_path: Path) -> None:
    keys = store(tmp_path)
    assert keys.path is not None
    keys.path.parent.mkdir()
    keys.path.parent.chmod(0o777)
    with pytest.raises(CredentialError, match="chmod 700"):
        keys.keep(HERE, KEY)
    assert not keys.path.exists()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"keys": []}', "[" * 100_000, "\x00"])
def test_an_invalid_file_is_reported_and_not_overwritten(tmp_path: Path, content: str) -> None:
    keys = store(tmp_path)
    keys.keep(HERE, KEY)
    assert keys.path is not None
    keys.path.write_text(content)
    with pytest.raises(CredentialError, match="Remove it"):
        keys.find(HERE)
    with pytest.raises(CredentialError, match="Remove it"):
        keys.keep(HERE, "new")
    assert keys.path.read_text() == content


def test_a_pipe_in_place_of_the_file_does_not_block(tmp_path: Path) -> None:
    keys = store(tmp_path)
    assert keys.path is not None
    keys.path.parent.mkdir(mode=0o700)
    os.mkfifo(keys.path, 0o600)
    with pytest.raises(CredentialError, match="not a regular file"):
        keys.find(HERE)


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = store(tmp_path)
    keys.keep(HERE, KEY)
    assert keys.path is not None

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(credentials.os, "fsync", full)
    with pytest.raises(CredentialError, match="No space left"):
        keys.keep(HERE, "new")
    found = keys.find(HERE)
    assert found is not None
    assert found.key == KEY
    assert len(list(keys.path.parent.iterdir())) == 2


def test_two_processes_saving_keys_at_once_lose_none(tmp_path: Path) -> None:
    keys = store(tmp_path)
    many = [threading.Thread(target=keys.keep, args=(f"http://localhost:{port}", str(port))) for port in range(1, 21)]
    for thread in many:
        thread.start()
    for thread in many:
        thread.join()
    assert len(keys.addresses()) == 20


def test_without_a_home_folder_no_key_can_be_read_or_saved() -> None:
    keys = KeyStore(None)
    assert keys.find(HERE) is None
    with pytest.raises(CredentialError, match="Set HOME"):
        keys.keep(HERE, KEY)


# --------------------------------------------------------------------------------------------------------- the keyring


def test_with_a_keyring_the_file_records_only_that_a_key_exists(tmp_path: Path) -> None:
    library = Library()
    keys = store(tmp_path, Keyring(library))
    assert keys.keep(HERE, KEY).where == KEYRING
    assert keys.path is not None
    assert KEY not in keys.path.read_text()
    found = keys.find(HERE)
    assert found is not None
    assert (found.key, found.where) == (KEY, KEYRING)
    assert keys.forget(HERE)
    assert library.secrets == {}
    assert keys.find(HERE) is None


@pytest.mark.parametrize("library", [Library(broken=True), Library(forgetful=True)])
def test_a_failing_keyring_falls_back_to_the_file_with_the_reason(tmp_path: Path, library: Library) -> None:
    keys = store(tmp_path, Keyring(library))
    placed = keys.keep(HERE, KEY)
    assert placed.where == str(keys.path)
    assert "keyring" in placed.problem
    assert KEY not in placed.problem
    found = keys.find(HERE)
    assert found is not None
    assert found.key == KEY


def test_a_missing_or_locked_keyring_entry_is_reported(tmp_path: Path) -> None:
    library = Library()
    keys = store(tmp_path, Keyring(library))
    keys.keep(HERE, KEY)
    library.broken = True
    with pytest.raises(CredentialError, match="Unlock it") as caught:
        keys.find(HERE)
    assert KEY not in str(caught.value)
    library.broken = False
    library.secrets.clear()
    with pytest.raises(CredentialError, match="agentcli login"):
        keys.find(HERE)
    assert keys.forget(HERE), "what is gone can still be forgotten"


@pytest.mark.parametrize(("priority", "real"), [(5, True), (1, True), (0.5, False), (0, False), (-1, False)])
def test_only_a_keyring_that_stores_secrets_is_used(
    monkeypatch: pytest.MonkeyPatch, priority: float, real: bool
) -> None:
    backend = type("Backend", (), {"priority": priority})
    library = type("Library", (), {"get_keyring": staticmethod(backend)})
    monkeypatch.setattr(credentials, "find_spec", lambda _name: object())
    monkeypatch.setattr(credentials, "import_module", lambda _name: library)
    assert (system_vault() is not None) == real
