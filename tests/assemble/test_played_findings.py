"""Regressions found by playing the model through real tasks, on the assembled program."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.assemble import Options, rights_for
from agentcli.config.trust import TrustStore
from agentcli.core.permission import Answer, Need, PermissionMode
from tests.support.contained import Project, no, yes
from tests.support.scripts import call

pytestmark = pytest.mark.anyio


async def test_a_script_in_auto_mode_cannot_change_files_that_builds_and_hooks_obey(contained: Project) -> None:
    workflows = contained.path / ".github" / "workflows"
    workflows.mkdir(parents=True)
    (workflows / "ci.yml").write_text("on: push\n")
    split = "python3 -c \"open('.github/work'+'flows/{}','a').write('x')\""
    commands = (
        split.format("ci.yml"),
        split.format("new.yml"),
        "python3 -c \"open('.pre-commit-'+'config.yaml','w').write('x')\"",
        "python3 -c \"import os; os.rename('.gith'+'ub', 'gone')\"",
    )
    async with contained.commands(*commands) as session:
        results = await session.run()
        assert session.asked == []
    assert (workflows / "ci.yml").read_text() == "on: push\n"
    assert not (workflows / "new.yml").exists()
    assert not (contained.path / ".pre-commit-config.yaml").exists()
    assert "quarantine" in results[2]


@pytest.mark.parametrize(
    "command",
    [
        "mv src /tmp/away",
        'mv src "$TMPDIR/"',
        "find . -name '*.py' | xargs rm -f",
        "git ls-files | xargs rm",
        "rsync -a --delete empty/ ./",
        "find . -name '*.py' -exec rm {} +",
    ],
)
async def test_auto_mode_asks_before_files_are_removed_or_moved_away(contained: Project, command: str) -> None:
    async with contained.commands(command) as session:
        await session.run(no)
        assert len(session.asked) == 1


async def test_accepted_edits_do_not_include_moving_folders_to_the_temp_folder(contained: Project) -> None:
    commands = ("echo x > one; mv one /tmp/", "mv src /tmp/away")
    async with contained.commands(*commands, permission_mode=PermissionMode.ACCEPT_EDITS) as session:
        await session.run(no)
        assert len(session.asked) == 1
    assert (contained.path / "src").is_dir()


async def test_an_approved_redirection_to_tmp_does_not_open_the_machine_s_temp_folder(contained: Project) -> None:
    name = f"/tmp/{contained.root.name.strip('.')}-new"
    look = "python3 -c \"import os; print('entries', len(os.listdir('/tmp')))\""
    command = f"{look} > {name}.txt; cat {name}.txt; touch {name}-beside"
    async with contained.commands(command, permission_mode=PermissionMode.DEFAULT) as session:
        (text,) = await session.run(yes)
    assert "entries" in text
    assert not Path(f"{name}.txt").exists()
    assert not Path(f"{name}-beside").exists()


async def test_an_approved_write_to_a_protected_name_stays(contained: Project) -> None:
    command = "mkdir -p .vscode && echo '{}' > .vscode/settings.json && echo export X=1 > .envrc"
    async with contained.commands(command, permission_mode=PermissionMode.DEFAULT) as session:
        await session.run(yes)
        assert len(session.asked) == 1
    assert (contained.path / ".vscode" / "settings.json").read_text() == "{}\n"
    assert (contained.path / ".envrc").exists()


async def test_commands_behind_the_proxy_end_quietly_when_a_pipe_closes(contained: Project) -> None:
    async with contained.commands("yes | head -1; echo ${PIPESTATUS[@]}") as session:
        (text,) = await session.run()
    assert text.splitlines()[:2] == ["y", "141 0"]


async def test_a_missing_module_is_not_mistaken_for_a_missing_network(contained: Project) -> None:
    async with contained.commands("python3 -c 'import nomod'") as session:
        (text,) = await session.run()
        assert session.asked == []
    assert "ModuleNotFoundError" in text
    assert "network" not in text


async def test_a_refusal_never_offers_a_rule_that_opens_credentials(contained: Project) -> None:
    rights = rights_for(Options(cwd=contained.path, environ=contained.environ))
    place = (rights.context.cwd, rights.context.working_dirs)
    for name in (".ssh/id_ed25519", ".aws/credentials", ".npmrc", ".netrc"):
        assert rights.policy.suggest("Read", (Need("read", str(contained.home / name)),), *place).prefix() == []
    rights.context.launcher.close()


async def test_no_hook_and_no_submodule_setting_runs_for_a_read_only_git_command(contained: Project) -> None:
    ran = contained.root / "ran"
    hook = contained.path / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {ran}\n")
    hook.chmod(0o755)
    (contained.path / "src" / "app.py").touch()
    commands = ("git diff", "git status", "git diff --stat HEAD", "git log -p -1")
    async with contained.commands(*commands, permission_mode=PermissionMode.DEFAULT, sandbox="off") as session:
        await session.run()
        assert session.asked == []
    assert not ran.exists()
    rights = rights_for(Options(cwd=contained.path, environ=contained.environ))
    place = (rights.context.cwd, rights.context.working_dirs)
    asked = rights.policy.decide("Bash", {}, (Need("execute", "git log -p --submodule=diff"),), *place)
    assert asked.behavior == "ask"
    rights.context.launcher.close()


async def test_hooks_of_the_user_still_run_for_a_commit(contained: Project) -> None:
    hook = contained.path / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho ran > hooked.txt\n")
    hook.chmod(0o755)
    commit = "git -c user.name=t -c user.email=t@e.org commit -q --allow-empty -m x"
    async with contained.commands(commit, permission_mode=PermissionMode.DEFAULT) as session:
        await session.run(yes)
    assert (contained.path / "hooked.txt").exists()


async def test_files_planted_by_a_background_command_are_found_by_the_next_command(contained: Project) -> None:
    plant = contained.path / "plant.sh"
    plant.write_text(
        "git init -q docs/n && git -C docs/n config core.fsmonitor /bin/false\n"
        "touch planted; until [ -e end ]; do sleep 0.05; done\n"
    )
    wait = "until [ -e planted ]; do sleep 0.05; done; true"
    calls = (
        call("Bash", command="sh plant.sh", run_in_background=True),
        call("Bash", command=wait),
        call("Bash", command="touch end"),
    )
    async with contained.session(*calls) as session:
        await session.run()
    assert not (contained.path / "docs" / "n" / ".git").exists()


async def test_approving_git_settings_does_not_approve_changes_by_other_parts(contained: Project) -> None:
    (contained.path / "p.sh").write_text("git config core.fsmonitor /bin/false\n")
    rules = ("Bash(git remote *)", "Bash(sh *)")
    command = "git remote -v && sh p.sh"
    async with contained.commands(
        command,
        "git remote add x https://e.org/x && sh p.sh",
        permission_mode=PermissionMode.DEFAULT,
        allowed_tools=rules,
    ) as session:
        await session.run()
    assert "fsmonitor" not in (contained.path / ".git" / "config").read_text()


async def test_a_rule_that_the_user_saved_applies_in_the_next_session_and_trusts_nothing_else(
    contained: Project,
) -> None:
    options = {"permission_mode": PermissionMode.DEFAULT, "trust": False}
    async with contained.commands("npm test", **options) as session:
        await session.run(lambda event: Answer("allow", rules=("Bash(npm test *)",), save_to="local"))
        assert len(session.asked) == 1
    async with contained.commands("npm test -- -x", **options) as session:
        await session.run()
        assert session.asked == []
    assert not TrustStore(contained.home / ".local/state/agentcli", contained.home).state(contained.path).trusted
    settings = contained.path / ".agentcli" / "settings.local.json"
    settings.write_text(settings.read_text().replace("npm test *", "*"))
    async with contained.commands("npm test", **options) as session:
        await session.run()
        assert len(session.asked) == 1


async def test_in_auto_mode_a_rule_gives_a_program_its_token_and_no_other_command(contained: Project) -> None:
    programs = contained.root / "programs"
    programs.mkdir()
    (programs / "gh").write_text("#!/bin/sh\necho token ${GH_TOKEN:-none}\n")
    (programs / "gh").chmod(0o755)
    variables = {"GH_TOKEN": "abc123", "PATH": f"{programs}:{contained.environ['PATH']}"}
    async with contained.commands(
        "gh pr list", "gh pr list; sh -c 'echo $GH_TOKEN'", variables=variables, allowed_tools=("Env(gh:GH_TOKEN)",)
    ) as session:
        alone, beside = await session.run()
        assert session.asked == []
    assert "token abc123" in alone
    assert "abc123" not in beside


async def test_files_are_copied_into_a_folder_that_the_same_command_makes(contained: Project) -> None:
    command = "mkdir -p out && cp src/app.py out/ && echo $HOME"
    async with contained.commands(command, permission_mode=PermissionMode.ACCEPT_EDITS) as session:
        await session.run()
        assert session.asked == []
    assert (contained.path / "out" / "app.py").exists()


async def test_a_file_with_hard_links_elsewhere_is_not_edited_without_approval(contained: Project) -> None:
    outside = contained.root / "outside.txt"
    outside.write_text("theirs\n")
    (contained.path / "linked.txt").hardlink_to(outside)
    edit = call("Write", file_path=str(contained.path / "linked.txt"), content="mine\n")
    for mode in (PermissionMode.ACCEPT_EDITS, PermissionMode.AUTO):
        read = call("Read", file_path=str(contained.path / "linked.txt"))
        async with contained.session(read, edit, permission_mode=mode) as session:
            await session.run(no)
            assert len(session.asked) == 1
            assert "hard links" in session.asked[0].reason
    assert outside.read_text() == "theirs\n"
