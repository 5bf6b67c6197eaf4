"""Commands that use the session's temp folder, put to the assembled policy on a real repository."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from agentcli.core.permission import PermissionMode
from agentcli.permissions.rules import parse_rule
from tests.permissions.test_everyday_looks import decisions, repository
from tests.support.tables import cells

ALLOWED = cells(r"""
cp README.md $TMPDIR/y ¦ cp README.md "$TMPDIR/y" ¦ rm $TMPDIR/y ¦ git diff | tee $TMPDIR/o
git diff | tee /dev/null ¦ git log -1 | tee /dev/null "$TMPDIR/o" | wc -l ¦ mktemp ¦ mktemp -d
tmp=$(mktemp) && git diff > "$tmp" ¦ tmp=$(mktemp); git diff > "$tmp"; wc -l "$tmp"; rm "$tmp"
tmp=$(mktemp -d) && cp README.md "$tmp/x" ¦ cd $TMPDIR && ls && pwd
mkdir -p "$TMPDIR/w" && cd "$TMPDIR/w" && ls -la ¦ cd $TMPDIR && echo x > a && cat a
""")

ASKED = cells(r"""
cp README.md $HOME/y ¦ cp ~/.bashrc $TMPDIR/y ¦ cp $HOME/.bashrc $TMPDIR/y ¦ cp README.md $TMPDIR/../y
cp README.md $TMPDIR/out/y ¦ cp README.md $TMPDIR/link ¦ rm $TMPDIR/../y ¦ rm -rf $TMPDIR/y
git diff | tee $TMPDIR/link ¦ git diff | tee $HOME/o ¦ git diff | tee /dev/null $HOME/o
git diff | tee /dev/sda ¦ mktemp -p src ¦ mktemp -t x ¦ mktemp src/x.XXXX ¦ TMPDIR=src mktemp
export TMPDIR=src; mktemp ¦ tmp=$(mktemp -u) && git diff > "$tmp" ¦ tmp=$(mktemp -p src) && git diff > "$tmp"
tmp=$(mktemp -d); rm -rf "$tmp"/* ¦ tmp=$(mktemp -d); rm "$tmp/../x" ¦ cd $TMPDIR/out && ls
cd $TMPDIR && cat link ¦ cd $TMPDIR && cat ../../../etc/passwd ¦ cd $TMPDIR && cat out/.bashrc
cd $TMPDIR && cd .. && ls ¦ cd $TMPDIR && git status ¦ cd $TMPDIR && python3 --version
cd $TMPDIR && find . -type f | xargs cat ¦ cd $TMPDIR && npm test ¦ cd $TMPDIR && ./x ¦ tar czf x.tgz src
tar xzf $TMPDIR/x.tgz ¦ cp -r src docs
""")


def test_commands_within_the_temp_folder_do_not_ask(tmp_path: Path) -> None:
    with repository(tmp_path) as rights:
        assert [command for command, answer in decisions(rights, ALLOWED).items() if answer != "allow"] == []


def test_leaving_the_temp_folder_or_running_its_files_asks(tmp_path: Path) -> None:
    with repository(tmp_path) as rights:
        folder = rights.context.launcher.temp_folder
        assert folder is not None
        home = tmp_path / "home"
        (folder / "link").symlink_to(home / ".bashrc")
        (folder / "out").symlink_to(home)
        (folder / "taken").symlink_to(home / "elsewhere")
        policy = replace(rights.policy, allow=(parse_rule("Bash(npm test *)", "a test"),))
        saved = 'npm test 2>&1 | tee "$TMPDIR/o" > $TMPDIR/p'
        assert decisions(replace(rights, policy=policy), [saved]) == {saved: "allow"}
        found = decisions(replace(rights, policy=policy), ASKED)
        assert [command for command, answer in found.items() if answer == "allow"] == []


def test_plan_mode_writes_nothing_to_the_temp_folder(tmp_path: Path) -> None:
    with repository(tmp_path) as rights:
        planning = replace(rights, policy=rights.policy.with_mode(PermissionMode.PLAN))
        writing = [command for command in ALLOWED if not command.endswith(("ls && pwd", "/dev/null"))]
        assert set(decisions(planning, writing).values()) == {"deny"}
