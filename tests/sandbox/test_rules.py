"""What a sandbox covers and protects before anything is mounted: names, git, denied files, refusal texts."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.sandbox.explain import Refusals, explain, explain_missing, worth_explaining
from agentcli.sandbox.plan import SandboxRules, find_masks
from agentcli.sandbox.quarantine.protected import FILES, FOLDERS, protection, uses_git
from agentcli.sandbox.secrets import list_closed_at_home
from agentcli.shell import restricted_files
from agentcli.shell.paths import is_protected
from agentcli.shell.restricted_files import DeniedFiles
from tests.support.tables import each_row

# --------------------------------------------------------------------------------------------------------- secrets


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path.resolve() / "home"
    for name in (".ssh", ".aws", ".config/gh", ".local/state/agentcli/results", "work"):
        (home / name).mkdir(parents=True)
    (home / ".netrc").touch()
    return home


def rules_at(home: Path) -> SandboxRules:
    return SandboxRules(working_dirs=(home / "work",), home=home, own_folders=(home / ".local/state/agentcli",))


def test_only_existing_files_are_covered(home: Path) -> None:
    masks = find_masks(rules_at(home))
    refused = {str(path.relative_to(home)) for path in masks.refused if path.is_relative_to(home)}
    assert refused == {".ssh", ".aws", ".config/gh", ".local/state/agentcli"}
    assert masks.emptied == (home / ".netrc",)


def test_readable_paths_are_not_covered_or_are_uncovered_again(home: Path) -> None:
    results = home / ".local/state/agentcli/results"
    masks = find_masks(replace(rules_at(home), allow_read=(home / ".aws",), readable=(results,)))
    assert home / ".aws" not in masks.refused
    assert masks.reopened == (results,)


def test_a_denied_path_stays_covered_though_a_folder_above_is_allowed(home: Path) -> None:
    masks = find_masks(replace(rules_at(home), allow_read=(home,), deny_read=(home / ".aws",)))
    assert home / ".aws" in masks.refused
    assert home / ".ssh" not in masks.refused


def test_the_working_directory_is_never_covered(home: Path) -> None:
    masks = find_masks(replace(rules_at(home), working_dirs=(home / ".ssh" / "..", home / ".aws")))
    assert home / ".aws" not in masks.refused


def test_a_link_is_covered_where_it_leads(home: Path) -> None:
    (home / "real-gnupg").mkdir()
    (home / ".gnupg").symlink_to(home / "real-gnupg")
    assert home / "real-gnupg" in find_masks(rules_at(home)).refused


def test_a_link_to_a_toolchain_or_to_the_system_closes_neither(home: Path) -> None:
    (home / ".pyenv").mkdir()
    for name, target in ((".own", home / ".pyenv"), (".system", "/usr"), (".all", "/"), (".here", home)):
        (home / name).symlink_to(target)
    refused = {str(path) for path in find_masks(rules_at(home)).refused}
    assert refused.isdisjoint({str(home / ".pyenv"), "/usr", "/", str(home)})


def test_a_project_in_a_closed_folder_is_open(home: Path) -> None:
    project = home / ".dotfiles" / "project"
    project.mkdir(parents=True)
    assert str(home / ".dotfiles") in list_closed_at_home(str(home))
    assert str(home / ".dotfiles") not in list_closed_at_home(str(home), [project])


def test_a_secret_that_is_new_is_covered(home: Path) -> None:
    rules = rules_at(home)
    before = find_masks(rules)
    (home / ".gnupg").mkdir()
    (home / ".config/gcloud").mkdir()
    assert set(find_masks(rules).refused) == {*before.refused, home / ".gnupg", home / ".config/gcloud"}


# ------------------------------------------------------------------------------------------------------- protected


@each_row("name", [*FOLDERS, *FILES])
def test_the_sandbox_protects_the_paths_that_permissions_ask_about(name: str) -> None:
    assert is_protected(name)


@each_row(
    ("command", "expected"),
    [
        ("git commit -m x", True),
        ("/usr/bin/git status", True),
        ("cd a && git log", True),
        ("gh pr create", True),
        ("npm test", False),
        ("ls .git", False),
        ("cat .gitignore", False),
        ("echo digit", False),
        ("legit --now", False),
    ],
)
def test_git_commands_are_recognised_by_their_words(command: str, expected: bool) -> None:
    assert uses_git(["/bin/bash", "-c", 'eval "$1"', "bash", command]) is expected


def test_a_worktree_may_write_to_its_repository_only_if_registered_there(tmp_path: Path) -> None:
    main, linked = tmp_path / "main", tmp_path / "linked"
    environ = {**os.environ, "HOME": str(tmp_path)}
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for arguments in (
        ["init", "-q", str(main)],
        ["-C", str(main), *identity, "commit", "-q", "--allow-empty", "-m", "x"],
    ):
        subprocess.run(["git", *arguments], check=True, env=environ)
    subprocess.run(["git", "-C", str(main), "worktree", "add", "-q", str(linked)], check=True, env=environ)
    found = protection((linked,), None, ["git commit"])
    assert found.writable == tuple(main / ".git" / name for name in ("", "worktrees", "worktrees/linked"))
    assert main / ".git" / "config" in found.read_only
    assert linked / ".git" in found.read_only
    forged = tmp_path / "forged"
    forged.mkdir()
    (forged / ".git").write_text((linked / ".git").read_text())
    assert protection((forged,), None, ["git commit"]).writable == ()


def test_a_session_in_a_subfolder_may_write_to_its_repository(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path / "repo")], check=True)
    inside = tmp_path / "repo" / "packages" / "one"
    inside.mkdir(parents=True)
    assert protection((inside,), None, ["git commit"]).writable == (tmp_path / "repo" / ".git",)
    assert protection((inside,), tmp_path / "repo", ["git commit"]).writable == (), "not one of the whole home folder"
    assert protection((inside,), None, ["npm test"]).writable == ()


def test_a_repository_can_be_created_by_an_explicit_command(tmp_path: Path) -> None:
    assert tmp_path / ".git" in protection((tmp_path,), None, ["npm test"]).missing
    assert tmp_path / ".git" in protection((tmp_path,), None, ["git status"]).missing
    assert tmp_path / ".git" not in protection((tmp_path,), None, ["git init -q"]).missing


def test_start_up_files_are_protected_when_home_is_the_project(tmp_path: Path) -> None:
    (tmp_path / ".bashrc").touch()
    found = protection((tmp_path,), tmp_path, ["true"])
    assert tmp_path / ".bashrc" in found.read_only
    assert tmp_path / ".zshrc" in found.missing
    assert tmp_path / ".bashrc" not in protection((tmp_path,), tmp_path / "elsewhere", ["true"]).read_only


# ---------------------------------------------------------------------------------------------------- denied files


def test_denied_files_are_found_by_name_and_then_by_the_rules(tmp_path: Path) -> None:
    for name in ("a/.env", "b/.env", "b/notes.txt", "node_modules/x/.env", ".git/.env"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    asked: list[str] = []

    def hides(path: str) -> bool:
        asked.append(path)
        return "/b/" not in path

    found = DeniedFiles(hides, ["**/.env"], [tmp_path])()
    assert set(found) == {tmp_path / "a/.env", tmp_path / "node_modules/x/.env"}
    assert all(path.endswith(".env") for path in asked), "rules are not asked about every file"


def test_a_denied_folder_is_found_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "secrets" / "deep").mkdir(parents=True)
    found = DeniedFiles(lambda path: "secrets" in path, ["secrets/**"], [tmp_path])()
    assert found == (tmp_path / "secrets",)


def test_rules_elsewhere_are_looked_up_where_they_point(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "a.pem").touch()
    (tmp_path / "token").touch()
    specs = [f"/{tmp_path}/token", "~/keys/*.pem", "~/**/.env"]
    found = DeniedFiles(lambda _path: True, specs, [], home=tmp_path)()
    assert set(found) == {tmp_path / "token", tmp_path / "keys" / "a.pem"}


def test_the_search_is_bounded_and_kept_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    search = DeniedFiles(lambda _path: True, [".env"], [tmp_path], now=lambda: now[0])
    assert search() == ()
    (tmp_path / ".env").touch()
    assert search() == ()
    now[0] = restricted_files.KEPT_SECONDS
    assert search() == (tmp_path / ".env",)
    monkeypatch.setattr(restricted_files, "MAX_ENTRIES", 0)
    now[0] *= 2
    search()
    assert not search.complete


# ----------------------------------------------------------------------------------------------------------- words

REFUSALS = Refusals(
    SandboxRules(working_dirs=(Path("/work/app"),), home=Path("/home/me")),
    masked=(Path("/home/me/.ssh"), Path("/work/app/.env")),
    network=False,
    temporary=Path("/tmp/agentcli-x/tmp"),
)


@each_row(
    ("output", "expected"),
    [
        ("touch: cannot touch '/etc/x': Read-only file system", "/etc/x is outside"),
        ("OSError: [Errno 30] Read-only file system: '/home/me/.npm/_logs'", "/home/me/.npm/_logs is outside"),
        ("npm ERR! EROFS: read-only file system, mkdir '/home/me/.npm'", "/home/me/.npm is outside"),
        ("bash: .git/hooks/pre-commit: Read-only file system", ".git/hooks/pre-commit is protected"),
        ("error: could not write config file .git/config: Device or resource busy", ".git/config is protected"),
        ("bash: line 1: .envrc: Is a directory", ".envrc is protected"),
        ("/usr/bin/bash: line 1: /opt/x.txt: Read-only file system", "like /opt/x.txt is outside"),
        ("/bin/sh: 3: cannot create /opt/x.txt: Read-only file system", "like /opt/x.txt is outside"),
        ("error: .env: can only add regular files, symbolic links or git-directories", "Name the paths to add"),
        ("cat: /home/me/.ssh/id_rsa: Permission denied", "sandbox.allowRead"),
        ("cat: ~/.ssh/id_rsa: Permission denied", "sandbox.allowRead"),
        ("cat: ./.env: Permission denied", "/work/app/.env is kept"),
        ("git@example.org: Permission denied (publickey).", "SSH keys"),
        ("curl: (6) Could not resolve host: example.org", "no network"),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", "no network"),
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock", "sandbox.excludedCommands"),
        ('sudo: The "no new privileges" flag is set', "gain privileges"),
        ("ConnectionRefusedError: [Errno 111] Connection refused", "its own network"),
        ("curl: (7) Failed to connect to localhost port 8000 after 0 ms: Couldn't connect to server", "in one command"),
        ("dial tcp 127.0.0.1:8000: connect: connection refused", "in one command"),
        ("HTTPConnectionPool(host='localhost', port=80): Failed to establish a new connection", "in one command"),
        ("getaddrinfo EAI_AGAIN registry.npmjs.org", "Network(HOST)"),
    ],
)
def test_a_refusal_is_explained_with_the_way_to_allow_it(output: str, expected: str) -> None:
    sentence = explain(output, REFUSALS)
    assert sentence is not None
    assert sentence.startswith("Sandbox: ")
    assert expected in sentence


@pytest.mark.parametrize(
    "output",
    [
        *("AssertionError: 1 != 2", "cat: missing: No such file or directory", "cat: /root/x: Permission denied"),
        "cp: -r not specified; omitting directory: src: Is a directory",
        *("rm: cannot remove 'build': Device or resource busy", ""),
    ],
)
def test_other_failures_are_not_blamed_on_the_sandbox(output: str) -> None:
    assert explain(output, REFUSALS) is None


@each_row(
    ("output", "expected"),
    [
        ("mkdir: cannot create directory '/opt/d': Read-only file system", True),
        ("some\nbash: line 1: /opt/x: Read-only file system\nmore", True),
        ("OSError: [Errno 30] Read-only file system: '/opt/x'", True),
        ("curl: (6) Could not resolve host: example.org", True),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", True),
        ("npm ERR! EROFS: read-only file system, mkdir '/home/me/.npm'", True),
        ("cat: /home/me/.ssh/id_rsa: Permission denied", False),
        ('src/mount.py:3:    # says "Read-only file system" here', False),
        ("we could not resolve host names", False),
        ("", False),
    ],
)
def test_for_a_successful_command_only_clear_messages_are_explained(output: str, expected: bool) -> None:
    assert worth_explaining(0, output) is expected
    assert worth_explaining(1, output)


def test_with_network_a_failed_lookup_is_not_blamed_on_the_sandbox() -> None:
    assert explain("curl: (6) Could not resolve host: x", replace(REFUSALS, network=True)) is None


def test_a_file_that_is_only_in_the_real_temporary_folder_is_pointed_out(tmp_path: Path) -> None:
    there = tmp_path / "script.py"
    there.touch()
    output = f"python: can't open file '{there}': [Errno 2] No such file or directory"
    sentence = explain(output, REFUSALS)
    if str(tmp_path).startswith("/tmp/"):
        assert sentence is not None
        assert "/tmp is this session's own folder" in sentence


def test_a_hidden_file_that_is_reported_as_missing_is_pointed_out(tmp_path: Path) -> None:
    (tmp_path / "key").touch()
    refusals = replace(REFUSALS, masked=(tmp_path,), temporary=None)
    output = f"Error: ENOENT: no such file or directory, open '{tmp_path}/key'\nall done"
    assert "sandbox.allowRead" in str(explain(output, refusals))
    assert "sandbox.allowRead" in str(explain_missing(output, refusals))
    assert explain_missing(output.replace("key", "other"), refusals) is None
    assert explain_missing(f"opened {tmp_path}/key", refusals) is None


def test_hostile_text_is_not_passed_on() -> None:
    sentence = explain("touch: cannot touch '/etc/\x1b[2Jx': Read-only file system", REFUSALS)
    assert sentence is not None
    assert "\x1b" not in sentence
