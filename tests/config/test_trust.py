"""Trust of folders by content, and keeping rules in settings files."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agentcli.config import save
from agentcli.config.save import RuleKeeper
from agentcli.config.trust import UNREADABLE, TrustStore, trust_root
from agentcli.core.errors import AgentError, UsageError


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / ".git").mkdir(parents=True)
    (root / ".agentcli").mkdir()
    (root / ".agentcli" / "settings.json").write_text('{"permissions": {"allow": ["Bash(make *)"]}}')
    return root


@pytest.fixture
def store(tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "state", tmp_path / "home")


def trusted(store: TrustStore, folder: Path) -> bool:
    store.trust(store.state(folder))
    return store.state(folder).trusted


def assert_never_trusted(store: TrustStore, folder: Path) -> None:
    with pytest.raises(UsageError, match="cannot be shown"):
        store.trust(store.state(folder))
    assert not store.state(folder).trusted
    assert store.roots() == [], "nothing was remembered"


def test_a_folder_is_not_trusted_by_default(store: TrustStore, repository: Path) -> None:
    state = store.state(repository)
    assert not state.trusted
    assert state.changed == (".agentcli/settings.json",)
    assert trusted(store, repository)


def test_trust_belongs_to_the_root_and_applies_in_its_folders(store: TrustStore, repository: Path) -> None:
    below = repository / "src" / "deep"
    below.mkdir(parents=True)
    assert trusted(store, below)
    assert store.state(repository).trusted
    assert store.roots() == [repository.resolve()]


def test_any_change_revokes_trust_until_it_is_approved(store: TrustStore, repository: Path) -> None:
    assert trusted(store, repository)
    settings = repository / ".agentcli" / "settings.json"
    original = settings.read_text()
    settings.write_text(original + " ")
    assert store.state(repository).changed == (".agentcli/settings.json",)
    settings.write_text(original)
    assert store.state(repository).trusted, "what was trusted is the content"


@pytest.mark.parametrize(
    "name",
    [
        ".mcp.json",
        ".agentcli/settings.local.json",
        ".agentcli/hooks/x.sh",
        ".agentcli/skills/a/SKILL.md",
        ".claude/commands/c.md",
        ".claude/agents/a.md",
        ".agents/skills/s/SKILL.md",
    ],
)
def test_every_kind_of_file_that_could_run_or_allow_something_counts(
    store: TrustStore, repository: Path, name: str
) -> None:
    assert trusted(store, repository)
    path = repository / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    assert store.state(repository).changed == (name,)
    assert trusted(store, repository)
    path.unlink()
    assert store.state(repository).trusted, "what is gone does no harm"


def test_other_files_do_not_count(store: TrustStore, repository: Path) -> None:
    assert trusted(store, repository)
    (repository / "main.py").write_text("print()")
    (repository / ".agentcli" / "notes.txt").write_text("x")
    for nothing in ("", "{}", "{\n}\n"):
        (repository / ".agentcli/settings.local.json").write_text(nothing)
        assert store.state(repository).trusted


def test_a_repository_inside_a_trusted_one_is_not_trusted(store: TrustStore, repository: Path) -> None:
    inner = repository / "vendor" / "other"
    (inner / ".git").mkdir(parents=True)
    assert trusted(store, repository)
    assert not store.state(inner).trusted
    assert trust_root(inner) == inner.resolve()


def test_a_link_is_trusted_with_the_content_of_its_target(store: TrustStore, repository: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(repository)
    assert trusted(store, link)
    assert store.state(repository).trusted


@pytest.mark.parametrize("trick", ["link outside", "circle", "pipe", "huge", "folder", "linked folder"])
def test_anything_but_a_regular_file_of_the_folder_is_never_trusted(
    store: TrustStore, repository: Path, tmp_path: Path, trick: str
) -> None:
    settings = repository / ".agentcli" / "settings.json"
    settings.unlink()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "settings.json").write_text("{}")
    if trick == "link outside":
        settings.symlink_to(outside / "settings.json")
    elif trick == "circle":
        settings.symlink_to("settings.json")
    elif trick == "pipe":
        os.mkfifo(settings)
    elif trick == "huge":
        settings.write_bytes(b" " * 2_000_000)
    elif trick == "folder":
        settings.mkdir()
    else:
        (repository / ".agentcli").rmdir()
        (repository / ".agentcli").symlink_to(outside)
    assert_never_trusted(store, repository)
    assert [part.digest for part in store.state(repository).parts] == [UNREADABLE]


@pytest.mark.parametrize("name", ["skills/linked", "skills/deep/linked", "skills", "hooks", "commands"])
def test_a_linked_folder_is_never_trusted(store: TrustStore, repository: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").mkdir()
    link = repository / ".agentcli" / name
    link.parent.mkdir(exist_ok=True, parents=True)
    link.symlink_to(tmp_path / "outside")
    assert_never_trusted(store, repository)
    assert f".agentcli/{name}" in store.state(repository).unshowable


def test_a_linked_skills_folder_elsewhere_in_the_repository_is_included(store: TrustStore, repository: Path) -> None:
    skills = repository / ".agents" / "skills"
    skills.mkdir(parents=True)
    (skills / "SKILL.md").write_text("x")
    (repository / ".claude").mkdir()
    (repository / ".claude" / "skills").symlink_to("../.agents/skills")
    assert trusted(store, repository)
    (skills / "SKILL.md").write_text("y")
    assert store.state(repository).changed == (".claude/skills/SKILL.md", ".agents/skills/SKILL.md")


def test_trust_is_saved_for_the_content_shown_and_not_for_later_content(store: TrustStore, repository: Path) -> None:
    shown = store.state(repository)
    (repository / ".agentcli" / "settings.json").write_text('{"permissions": {"allow": ["Bash"]}}')
    store.trust(shown)
    assert store.state(repository).changed == (".agentcli/settings.json",)


def test_a_file_that_grows_while_it_is_read_is_not_trusted_in_part(
    store: TrustStore, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = repository / ".agentcli" / "settings.json"
    small = settings.stat()
    settings.write_bytes(b" " * 2_000_000)
    monkeypatch.setattr("agentcli.config.trust.os.fstat", lambda _descriptor: small)
    assert store.state(repository).unshowable == (".agentcli/settings.json",)


def test_binary_content_is_shown_so_that_no_two_files_look_the_same(store: TrustStore, repository: Path) -> None:
    hook = repository / ".agentcli" / "hooks" / "x"
    hook.parent.mkdir()
    seen = set()
    for data in (b"\xff", b"\xfe", b"\xc3", "\ufffd".encode()):
        hook.write_bytes(data)
        seen.update(part.text for part in store.state(repository).parts if part.name.endswith("x"))
    assert len(seen) == 4


def test_home_and_the_file_system_root_are_not_trusted_permanently(store: TrustStore, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for folder in (home, Path("/")):
        with pytest.raises(UsageError):
            store.trust(store.state(folder))


def test_trust_can_be_revoked_and_the_file_is_private(store: TrustStore, repository: Path, tmp_path: Path) -> None:
    assert trusted(store, repository)
    assert (tmp_path / "state" / "trust.json").stat().st_mode & 0o777 == 0o600
    assert store.distrust(repository.resolve())
    assert not store.distrust(repository.resolve())
    assert not store.state(repository).trusted


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b'{"folders": []}', b'{"folders": {"x": 1}}', b"\xff\xfe"])
def test_a_broken_store_vouches_for_nothing(store: TrustStore, repository: Path, tmp_path: Path, junk: bytes) -> None:
    assert trusted(store, repository)
    (tmp_path / "state" / "trust.json").write_bytes(junk)
    assert not store.state(repository).trusted
    assert trusted(store, repository)


def test_without_a_state_folder_saving_trust_fails_with_a_message(repository: Path) -> None:
    store = TrustStore(None)
    assert not store.state(repository).trusted
    with pytest.raises(AgentError, match="--trust"):
        store.trust(store.state(repository))


# --------------------------------------------------------------------------------------------------------- saving


def test_a_rule_is_added_and_all_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(
        '{\n    "unknown": {"z": 1, "a": 2},\n    "permissions": {"deny": ["Read(.env)"]},\n    "model": "ö"\n}\n'
    )
    path.chmod(0o644)
    keeper = RuleKeeper({"user": path}, TrustStore(None), tmp_path)
    keeper.change("user", "allow", add=["Bash(make *)", "Bash(make *)"])
    keeper.change("user", "allow", add=["Bash(make *)", "Edit"])
    values = json.loads(path.read_text())
    assert list(values) == ["unknown", "permissions", "model"]
    assert list(values["unknown"]) == ["z", "a"]
    assert values["permissions"] == {"deny": ["Read(.env)"], "allow": ["Bash(make *)", "Edit"]}
    assert '\n    "model": "ö"' in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o644
    assert [entry.name for entry in tmp_path.iterdir()] == ["settings.json"], "nothing is left beside it"


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"permissions": []}', '{"permissions": {"allow": "x"}}', '{"a": 1, "a": 2}']
)
def test_a_file_that_is_not_understood_is_not_touched(tmp_path: Path, content: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(content)
    with pytest.raises(AgentError):
        RuleKeeper({"user": path}, TrustStore(None), tmp_path).change("user", "allow", add=["Edit"])
    assert path.read_text() == content


def test_an_answer_keeps_the_trust_that_was_there(store: TrustStore, repository: Path) -> None:
    keeper = RuleKeeper({"local": repository / ".agentcli" / "settings.local.json"}, store, repository)
    where = keeper.change("local", "allow", add=["Edit"])
    assert not store.state(repository).trusted, "an answer is no trust in all the rest"
    assert trusted(store, repository)
    keeper.change("local", "allow", add=["Write"])
    assert store.state(repository).trusted
    assert json.loads(Path(where).read_text())["permissions"]["allow"] == ["Edit", "Write"]
    with pytest.raises(AgentError):
        keeper.change("user", "allow", add=["Edit"])


@pytest.mark.parametrize(
    "swapped", [".agentcli/hooks/new.sh", ".agentcli/settings.json", ".agentcli/settings.local.json", ".mcp.json"]
)
def test_saving_an_answer_trusts_nothing_that_changed_meanwhile(
    store: TrustStore, repository: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    assert trusted(store, repository)

    def swap(_folder: Path) -> None:
        (repository / swapped).parent.mkdir(exist_ok=True)
        (repository / swapped).write_text('{"permissions": {"allow": ["Bash"]}}')

    monkeypatch.setattr(save, "_make_folder", swap)
    keeper = RuleKeeper({"local": repository / ".agentcli" / "settings.local.json"}, store, repository)
    keeper.change("local", "allow", add=["Edit"])
    assert store.state(repository).changed == (swapped,)


@pytest.mark.parametrize("trick", ["folder", "file", "folder not there yet", "file not there yet", "home"])
def test_an_answer_for_a_project_is_not_kept_outside_of_it(
    store: TrustStore, repository: Path, tmp_path: Path, trick: str
) -> None:
    outside = tmp_path / "config"
    folder, name = repository / ".agentcli", "settings.local.json"
    if "not there" not in trick:
        outside.mkdir()
        (outside / name).write_text("{}")
    if trick.startswith("folder"):
        (folder / "settings.json").unlink()
        folder.rmdir()
        folder.symlink_to(outside)
    else:
        (folder / name).symlink_to(outside / name)
    before = [path.read_text() for path in outside.glob("*")]
    user = tmp_path / "user.json"
    if trick == "home":  # is a repository, and has the user's settings
        user = repository / "user.json"
        (folder / name).unlink()
        (folder / name).symlink_to(user)
    keeper = RuleKeeper({"local": folder / name, "user": user}, store, repository)
    with pytest.raises(AgentError, match="is a link to"):
        keeper.change("local", "allow", add=["Edit"])
    assert [path.read_text() for path in outside.glob("*")] == before
    assert keeper.change("user", "allow", add=["Edit"]) == str(user)


def test_a_new_folder_keeps_local_settings_out_of_commits(store: TrustStore, tmp_path: Path) -> None:
    root = tmp_path / "fresh"
    (root / ".git").mkdir(parents=True)
    RuleKeeper({"local": root / ".agentcli" / "settings.local.json"}, store, root).change(
        "local", "allow", add=["Edit"]
    )
    assert (root / ".agentcli" / ".gitignore").read_text() == "settings.local.json\n.gitignore\n"


def test_a_folder_that_cannot_be_written_is_one_sentence(store: TrustStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    keeper = RuleKeeper({"local": tmp_path / "file" / "settings.local.json"}, store, tmp_path)
    with pytest.raises(AgentError, match="could not be saved"):
        keeper.change("local", "allow", add=["Edit"])
