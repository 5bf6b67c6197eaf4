"""Regressions found by playing the model through real tasks, on the assembled program."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.assemble import Options, rights_for
from agentcli.core.permission import Need, PermissionMode
from tests.support.contained import Project, no, yes

pytestmark = pytest.mark.anyio


async def test_a_script_in_auto_mode_cannot_change_what_builds_and_hooks_obey(contained: Project) -> None:
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


async def test_a_missing_module_is_not_taken_for_a_missing_network(contained: Project) -> None:
    async with contained.commands("python3 -c 'import nomod'") as session:
        (text,) = await session.run()
        assert session.asked == []
    assert "ModuleNotFoundError" in text
    assert "network" not in text


async def test_a_refusal_never_offers_a_rule_that_opens_credentials(contained: Project) -> None:
    rights = rights_for(Options(cwd=contained.path, environ=contained.environ))
    place = (rights.context.cwd, rights.context.working_dirs)
    for name in (".ssh/id_ed25519", ".aws/credentials", ".npmrc", ".netrc"):
        assert rights.policy.suggest_prefix("Read", (Need("read", str(contained.home / name)),), *place) == []
    rights.context.launcher.close()
