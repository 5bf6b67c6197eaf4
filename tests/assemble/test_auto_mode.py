"""Auto mode in the assembled program: contained work runs without a question, everything else asks."""

from __future__ import annotations

import json
import socket
import subprocess
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from agentcli.assemble import OFFER
from agentcli.cli.flags import parse
from agentcli.cli.invocation import build_options
from agentcli.commands.line import run_command
from agentcli.core.errors import UsageError
from agentcli.core.permission import PermissionMode
from agentcli.interactive.driver import next_mode
from agentcli.sandbox.quarantine import inventory
from agentcli.workspace import listing, shadow
from tests.sandbox.quarantine.test_decoys import DECOYS, PLACE, plant
from tests.support.contained import Project, no, web_server, yes
from tests.support.fakes import collect
from tests.support.scripts import call

pytestmark = pytest.mark.anyio

UNASKED = [
    'python3 -c \'open("made.txt", "w").write("x")\' && cat made.txt',
    "printf 'def test_x():\\n    assert True\\n' > test_x.py; python3 test_x.py; echo exit $?",
    "for n in 1 2 3; do echo $n > n$n.txt; done; rm n1.txt n2.txt n3.txt",
    "if true; then echo {a..c} > braces; fi; unset IFS; eval 'echo evaluated'",
    "ls; git add -A && git -c user.name=t -c user.email=t@e.org commit -qm more && git log",
    "git checkout -qb topic && git stash list && git reset -q && git switch -q -",
    "mkdir -p build && touch build/a && rm -rf build",
]


async def test_work_inside_the_project_runs_without_a_question(contained: Project) -> None:
    async with contained.commands(*UNASKED) as session:
        results = await session.run()
        assert session.asked == []
        assert [text for text in results if "exit code" in text.lower() and "exit code 0" not in text.lower()] == []
    assert (contained.path / "made.txt").read_text() == "x"


WIPE = "import shutil; shutil.rmtree('.git', ignore_errors=True)"


@pytest.mark.parametrize(
    "command",
    [
        "python3 wipe.py # git",
        "git status; python3 wipe.py",
        "git -c core.editor='python3 wipe.py' commit --allow-empty",
        "GIT_EDITOR='python3 wipe.py' git commit --allow-empty",
        "git submodule foreach 'python3 ../wipe.py'; python3 wipe.py",
        "git rebase --ex 'python3 wipe.py' HEAD",
        "git rebase -fx 'python3 wipe.py' HEAD",
    ],
)
async def test_no_other_program_changes_the_history_by_a_command_that_names_git(
    contained: Project, command: str
) -> None:
    (contained.path / "wipe.py").write_text(WIPE)
    async with contained.commands(command, "python3 -c 1; git add wipe.py") as session:
        *_others, result = await session.run(no)
    assert (contained.path / ".git" / "HEAD").exists()
    assert "Run git in its own command" in result


async def test_no_step_is_planted_for_the_next_rebase_of_the_user(contained: Project) -> None:
    """A branch has a link to git's folder, which only exists when the second git writes through it."""

    def git(*words: str) -> None:
        identity = ("-c", "user.name=u", "-c", "user.email=u@example.org")
        subprocess.run(["git", *identity, *words], cwd=contained.path, check=True, capture_output=True)

    git("init", "-q", "evil")
    (contained.path / "evil" / "git-rebase-todo").write_text("exec touch planted\n")
    git("-C", "evil", "add", "-A")
    git("-C", "evil", "commit", "-qm", "steps")
    git("checkout", "-qb", "links")
    (contained.path / "link").symlink_to(".git")
    git("add", "link")
    git("commit", "-qm", "link")
    git("checkout", "-q", "-")
    command = "git checkout -q links && git clone -q ./evil link/rebase-merge # exec touch planted"
    async with contained.commands(command) as session:
        (result,) = await session.run()
        assert session.asked == []
    assert (contained.path / ".git" / "rebase-merge").exists(), "the attack has run"
    assert not (contained.path / ".git" / "rebase-merge" / "git-rebase-todo").exists()
    assert "quarantine restore" in result


SET_USER_ID = [
    "cp /bin/true tool && chmod u+s tool",
    "cp /bin/true tool && chmod 6755 tool",
    "python3 -c \"import os; os.close(os.open('tool', os.O_CREAT | os.O_WRONLY, 0o4755))\"",
    "python3 -c \"import os; os.mknod('tool', 0o104755)\"",
    "install -m 4755 /bin/true tool",
]


@pytest.mark.parametrize("command", SET_USER_ID)
async def test_no_command_leaves_a_set_user_id_file(contained: Project, command: str) -> None:
    async with contained.commands(command, "cp /bin/true fine && chmod 755 fine && mkdir d && chmod 2775 d") as session:
        refused, fine = await session.run()
        assert session.asked == []
    assert "not permitted" in refused
    assert "not permitted" not in fine
    assert not any(path.stat().st_mode & 0o4000 for path in contained.path.glob("tool"))
    assert (contained.path / "fine").stat().st_mode & 0o777 == 0o755


async def test_edits_inside_the_project_run_without_a_question(contained: Project) -> None:
    path = str(contained.path / "src" / "app.py")
    calls = [
        call("Read", file_path=path),
        call("Edit", file_path=path, old_string="x = 1", new_string="x = 2"),
        call("Write", file_path=str(contained.path / "new.py"), content="y = 1\n"),
    ]
    async with contained.session(*calls) as session:
        await session.run()
        assert session.asked == []
    assert (contained.path / "src" / "app.py").read_text() == "x = 2\n"
    assert (contained.path / "new.py").exists()


async def test_a_command_cannot_reach_a_server_of_this_machine(contained: Project) -> None:
    with web_server() as port:
        script = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
        commands = (f'python3 -c "{script}"', f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached")
        async with contained.commands(*commands) as session:
            results = await session.run()
            assert session.asked == []
    assert all("refused" in text.lower() and "reached" not in text for text in results), results


async def test_a_command_cannot_reach_a_socket_that_was_bound_by_a_relative_name(contained: Project) -> None:
    command = "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('s'); print('reached')\""
    with chdir(contained.path), socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        server.listen()
        async with contained.commands(command) as session:
            (result,) = await session.run()
            assert session.asked == []
    assert "refused" in result.lower()


ASKED = [
    "rm -rf many",
    "rm many/*",
    "cd many && rm -rf *",
    "bash -c 'rm -rf many'",
    "find many -type f -delete",
    "git commit --amend -m other",
    "git rebase HEAD~1",
    "git reset --hard HEAD",
    "git reset HEAD~1",
    "git reset topic",
    "git commit --ame -m other",
    "git branch --del topic",
    "git fetch . +topic:main",
    "git stash pop",
    "git merge --abort",
    "git branch -D topic",
    "git push --force",
    "git push origin +main",
    "git stash drop",
    "git clean -fdx",
    "git tag -d v1",
    "git update-ref -d HEAD",
    "git config user.name other",
    "git config --global core.pager evil",
    "git -C . config core.hooksPath x",
    "git remote add origin https://example.org/x.git",
    "echo x > .github/workflows/x.yml",
    "mkdir -p .github/workflows && cp src/app.py .github/workflows/x.yml",
    "echo registry=x > .npmrc",
    "echo x > .git/hooks/pre-commit",
    "echo x > ../outside.txt",
    "cp src/app.py ../outside.txt",
    "rm -rf .git",
]


async def test_commands_beyond_undo_or_on_files_that_tools_obey_ask(contained: Project) -> None:
    (contained.path / "many").mkdir()
    for number in range(11):
        (contained.path / "many" / f"{number}.txt").touch()
    head = contained.git("rev-parse", "HEAD")
    async with contained.submissions(*(call("Bash", command=command) for command in ASKED)) as session:
        for number, command in enumerate(ASKED, 1):
            await session.run(no)
            assert [event.input.get("command") for event in session.asked[number - 1 :]] == [command], session.results
            assert len(list((contained.path / "many").iterdir())) == 11, command
            assert not (contained.root / "outside.txt").exists(), command
    assert contained.git("rev-parse", "HEAD") == head


OPERATIONS = ["git reset -q", "git checkout -qf", "git commit -qam merged", "cd src && git stash"]


async def test_git_does_not_end_an_operation_in_progress_without_a_question(contained: Project) -> None:
    contained.git("checkout", "-qb", "other")
    (contained.path / "src" / "app.py").write_text("x = 2\n")
    contained.git("commit", "-qam", "other")
    contained.git("checkout", "-q", "-")
    (contained.path / "src" / "app.py").write_text("x = 3\n")
    contained.git("commit", "-qam", "mine")
    with pytest.raises(subprocess.CalledProcessError):
        contained.git("merge", "-q", "other")
    async with contained.commands("git add src/app.py", *OPERATIONS) as session:
        await session.run(no)
        assert [event.input["command"] for event in session.asked] == OPERATIONS
    assert (contained.path / ".git" / "MERGE_HEAD").exists()


WIPE_FILES = "python3 -c \"import shutil, pathlib; [p.unlink() for p in pathlib.Path().glob('[.]env')]; {}\""


async def test_ignored_files_that_a_command_destroyed_are_restored(contained: Project) -> None:
    """With an ignore file that hides everything, undo would otherwise restore nothing, and not mention it."""
    (contained.path / ".gitignore").write_text("*\n")
    (contained.path / ".env").write_text("KEY=1\n")
    (contained.path / "data").mkdir()
    (contained.path / "data" / "a.csv").write_text("years of work")
    async with contained.commands(WIPE_FILES.format("shutil.rmtree('data')")) as session:
        await session.run()
        assert session.asked == []
        assert not (contained.path / "data").exists()
        await collect(run_command(session.engine, "undo", ""))
    assert (contained.path / ".env").read_text() == "KEY=1\n"
    assert (contained.path / "data" / "a.csv").read_text() == "years of work"


async def test_what_undo_does_not_cover_is_not_changed_without_a_question(
    contained: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_IGNORED_FILES", 3)
    monkeypatch.setattr(listing, "MAX_COPIED", 10)
    monkeypatch.setattr(listing, "ALWAYS_COPIED", 10)
    (contained.path / ".gitignore").write_text("data/\n")
    (contained.path / "data").mkdir()
    for number in range(4):
        (contained.path / "data" / f"{number}.csv").touch()
    (contained.path / "large.db").write_text("0123456789A")
    wipe = "python3 -c \"import shutil, os; shutil.rmtree('da' + 'ta', True); os.unlink('large' + '.db')\""
    commands = [wipe, "mv data gone; touch made", "rm large.db", "echo x > data/0.csv"]
    edit = call("Write", file_path=str(contained.path / "data" / "new.csv"), content="x\n")
    async with contained.session(*(call("Bash", command=text) for text in commands), edit) as session:
        results = await session.run(no)
        assert [event.input.get("command", "Write") for event in session.asked] == [*commands[1:], "Write"]
        assert all("undo does not cover" in event.reason for event in session.asked)
        assert "undo does not cover" in results[0]
        await collect(run_command(session.engine, "undo", ""))
    assert len(list((contained.path / "data").iterdir())) == 4
    assert (contained.path / "large.db").exists()


async def test_where_undo_is_off_auto_mode_asks(contained: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow, "MAX_FILES", 3)
    for number in range(4):
        (contained.path / f"{number}.txt").touch()
    edit = call("Write", file_path=str(contained.path / "0.txt"), content="x\n")
    async with contained.session(call("Bash", command="python3 wipe.py"), edit, call("Bash", command="ls")) as session:
        await session.run(no)
        assert [event.name for event in session.asked] == ["Bash", "Write"]
        assert all("more than 3 files" in event.reason for event in session.asked)


async def test_a_background_command_cannot_switch_undo_off_for_the_next_one(
    contained: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadow, "MAX_FILES", 8)
    flood = call("Bash", command="sleep 1; touch {1..9}; sleep 1", run_in_background=True)
    wait = call("Bash", command="sleep 1.5; ls")
    wipe = call("Bash", command="rm -f src/app.py")
    async with contained.session(flood, wait, wipe) as session:
        await session.run(no)
        assert [event.input["command"] for event in session.asked] in (["rm -f src/app.py"], [])
    assert (contained.path / "src" / "app.py").exists()


async def test_an_edit_outside_or_of_a_file_that_tools_obey_asks(contained: Project) -> None:
    names = (".github/workflows/x.yml", ".npmrc", ".git/hooks/pre-commit", "../outside.txt")
    targets = [contained.path / name for name in names]
    calls = [call("Write", file_path=str(target), content="x\n") for target in targets]
    async with contained.submissions(*calls) as session:
        for number, target in enumerate(targets, 1):
            await session.run(no)
            assert len(session.asked) == number, target
            assert not target.exists()


async def test_an_excluded_command_asks_since_it_would_not_be_contained(contained: Project) -> None:
    settings = json.dumps({"sandbox": {"excludedCommands": ["make"]}})
    async with contained.commands("make all", settings=settings) as session:
        await session.run(no)
        assert len(session.asked) == 1


async def test_deny_and_ask_rules_apply(contained: Project) -> None:
    rules = {"permissions": {"deny": ["Bash(npm publish *)"], "ask": ["Bash(python3 deploy.py *)"]}}
    commands = ("npm publish --dry-run", "python3 deploy.py now")
    async with contained.commands(*commands, settings=json.dumps(rules)) as session:
        results = await session.run(no)
        assert [event.input["command"] for event in session.asked] == ["python3 deploy.py now"]
        assert "Denied by rule" in results[0]


async def test_the_flag_is_refused_with_the_reason_where_there_is_no_sandbox(contained: Project) -> None:
    with pytest.raises(UsageError, match="Auto mode is not available: commands run without a sandbox"):
        async with contained.commands("true", sandbox="off"):
            pass


async def test_the_setting_becomes_a_notice_and_default_mode_where_there_is_no_sandbox(contained: Project) -> None:
    settings = json.dumps({"permissions": {"defaultMode": "auto"}})
    options: dict[str, Any] = {"settings": settings, "sandbox": "off", "permission_mode": None}
    async with contained.commands("make x", **options) as session:
        await session.run(no)
        assert session.engine.permissions.mode is PermissionMode.DEFAULT
        assert len(session.asked) == 1
        assert any("Auto mode is not available" in text for text in session.notices())


async def test_without_a_sandbox_neither_command_nor_key_selects_auto_mode(contained: Project) -> None:
    options: dict[str, Any] = {"sandbox": "off", "permission_mode": PermissionMode.ACCEPT_EDITS}
    async with contained.commands(**options) as session:
        assert next_mode(session.engine) is PermissionMode.PLAN
        shown = await collect(run_command(session.engine, "mode", "auto"))
        assert session.engine.permissions.mode is PermissionMode.ACCEPT_EDITS
        assert any("Auto mode is not available" in str(event) for event in shown)


async def test_with_a_sandbox_command_and_key_select_auto_mode(contained: Project) -> None:
    async with contained.commands("touch made", permission_mode=PermissionMode.ACCEPT_EDITS) as session:
        assert next_mode(session.engine) is PermissionMode.AUTO
        await collect(run_command(session.engine, "mode", "auto"))
        assert session.engine.permissions.mode is PermissionMode.AUTO


async def test_an_approved_removal_runs(contained: Project) -> None:
    (contained.path / "many").mkdir()
    for number in range(11):
        (contained.path / "many" / f"{number}.txt").touch()
    async with contained.commands("rm -rf many") as session:
        await session.run(yes)
        assert "removes" in session.asked[0].reason
    assert not Path(contained.path, "many").exists()


OPTIONS: dict[str, Any] = {"permission_mode": None, "offer_auto_mode": True}


async def offers(project: Project, **options: Any) -> int:
    async with project.session(**{**OPTIONS, **options}) as session:
        await session.run()
        return session.notices().count(OFFER)


async def test_the_offer_is_shown_with_the_users_first_prompt_only(contained: Project) -> None:
    assert await offers(contained) == 1
    assert await offers(contained) == 0


@pytest.mark.parametrize(
    "options",
    [
        {"interactive": False},
        {"sandbox": "off"},
        {"permission_mode": PermissionMode.DEFAULT},
        {"settings": json.dumps({"permissions": {"defaultMode": "acceptEdits"}})},
        {"offer_auto_mode": False},
    ],
)
async def test_the_offer_is_not_shown_after_a_mode_was_chosen_or_in_non_interactive_runs(
    contained: Project, options: dict[str, Any]
) -> None:
    assert await offers(contained, **options) == 0
    assert await offers(contained) == 1, "and it is still there for the first session that can use it"


def test_the_command_line_shows_the_offer_in_interactive_sessions_only(contained: Project) -> None:
    assert build_options(parse([]), contained.path).offer_auto_mode
    assert not build_options(parse(["-p", "go"]), contained.path).offer_auto_mode


async def test_a_repository_behind_decoys_is_reported_with_the_next_event(
    contained: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventory, "MAX_FOLDERS", 20)
    async with contained.commands(f"{DECOYS}; {plant(contained.root / 'ran')}") as session:
        await session.run()
        assert session.asked == []
        # Waits for the search.
        session.engine.session.tool_context.launcher.close()
        await session.run(prompt="and now?")
        assert any(f"{PLACE}/config was moved to quarantine" in text for text in session.notices())
    assert not (contained.path / PLACE / "config").exists()


async def test_a_repository_behind_decoys_does_not_outlive_the_session(
    contained: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventory, "MAX_FOLDERS", 20)
    async with contained.commands(f"{DECOYS}; {plant(contained.root / 'ran')}") as session:
        await session.run()
    assert (contained.path / PLACE).is_dir()
    assert not (contained.path / PLACE / "config").exists()
