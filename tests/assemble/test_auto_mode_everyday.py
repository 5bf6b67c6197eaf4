"""Auto mode in the assembled program, played on a repository: everyday commands that must not stop."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcli.assemble import Options, rights_for
from agentcli.config.trust import TrustStore
from agentcli.core.permission import Answer, Need, PermissionMode
from agentcli.sandbox import host_proxy
from tests.support.contained import Project, fetching, no, yes
from tests.support.outside_temp import LASTING_TEMP
from tests.support.scripts import call

pytestmark = pytest.mark.anyio

IDENTITY = "-c user.name=t -c user.email=t@e.org"
NAMING = [
    "echo .idea/ >> .gitignore",
    f"git add -A && git {IDENTITY} commit -qm 'Ignore .idea and .vscode folders'",
    f"git {IDENTITY} commit -q --allow-empty -F - <<'EOF'\nIgnore .idea\nEOF",
    f"git {IDENTITY} tag -a v1 -m 'Without .npmrc'",
    "find . -type f -name '*.py' -not -path './.git/*' -exec sed -i s/x/y/ {} +",
    "find . -path ./.git -prune -o -name '*.py' -print | xargs sed -i s/y/z/",
    "grep -rl --exclude-dir=.git z . | xargs sed -i s/z/x/",
    "tar czf /tmp/x.tgz --exclude=.git .",
    "cat .git/HEAD && touch made",
]


async def test_protected_paths_may_be_named_where_they_are_not_changed(contained: Project) -> None:
    async with contained.commands(*NAMING) as session:
        results = await session.run(no)
        assert [event.reason for event in session.asked] == []
        failed = [text for text in results if "exit code" in text.lower() and "exit code 0" not in text.lower()]
        assert failed == []
    assert (contained.path / ".gitignore").read_text() == ".idea/\n"
    assert contained.git("log", "-2", "--format=%s") == "Ignore .idea\nIgnore .idea and .vscode folders"
    assert (contained.path / "made").exists()


async def test_changing_a_protected_path_still_asks(contained: Project) -> None:
    commands = [
        "find . -path './.git/*' -exec chmod a+r {} +",
        "git commit -m x && cp src/app.py .envrc",
        "tar xf a.tgz --exclude=x .git",
        "git commit -m '.npmrc' && cp src/app.py .npmrc",
    ]
    async with contained.commands(*commands) as session:
        await session.run(no)
        assert [event.input["command"] for event in session.asked] == commands


def library(project: Path) -> Path:
    folder = project / "lib"
    folder.mkdir()
    (folder / "source.py").write_text("def found(): ...\n")
    return folder


async def test_file_tools_read_files_outside_that_a_sandboxed_command_can_read(contained: Project) -> None:
    if contained.root.is_relative_to(LASTING_TEMP):
        pytest.skip("no folder outside of the temp folders can be written here")
    folder = library(contained.root)
    calls = [
        call("Read", file_path=str(folder / "source.py")),
        call("Grep", pattern="found", path=str(folder), output_mode="content"),
        call("Glob", pattern="*.py", path=str(folder)),
    ]
    async with contained.session(*calls) as session:
        results = await session.run(no)
        assert [event.reason for event in session.asked] == []
    assert "def found" in results[0]
    assert "def found" in results[1]
    assert "source.py" in results[2]


async def test_file_tools_ask_for_files_that_a_sandboxed_command_cannot_read(contained: Project) -> None:
    (contained.home / ".ssh").mkdir()
    (contained.home / ".ssh" / "id").write_text("secret")
    (contained.home / ".npmrc").write_text("token=secret")
    (contained.home / "closed").mkdir()
    (contained.home / "closed" / "a").write_text("secret")
    folder = library(contained.root)
    (folder / "link.py").symlink_to(contained.home / ".ssh" / "id")
    settings = {"sandbox": {"denyRead": [str(contained.home / "closed")]}, "permissions": {"ask": ["Read(~/asked/**)"]}}
    (contained.home / "asked").mkdir()
    (contained.home / "asked" / "a").write_text("secret")
    calls = [
        call("Read", file_path=str(contained.home / ".ssh" / "id")),
        call("Read", file_path=str(contained.home / ".npmrc")),
        call("Read", file_path=str(folder / "link.py")),
        call("Read", file_path=str(contained.home / "closed" / "a")),
        call("Read", file_path=str(contained.home / "asked" / "a")),
        call("Read", file_path="/proc/self/environ"),
        call("Grep", pattern="secret", path=str(contained.home), output_mode="content"),
        call("Grep", pattern="secret", path=str(folder), output_mode="content"),
    ]
    async with contained.session(*calls, settings=json.dumps(settings)) as session:
        results = await session.run(no)
        assert len(session.asked) == len(calls), results
        assert not any("secret" in text.replace("`secret`", "") for text in results)


async def test_other_modes_ask_for_reads_outside(contained: Project) -> None:
    path = library(contained.root) / "source.py"
    options = {"permission_mode": PermissionMode.ACCEPT_EDITS}
    async with contained.session(call("Read", file_path=str(path)), **options) as session:
        await session.run(no)
        assert len(session.asked) == 1


def fill(folder: Path) -> None:
    folder.mkdir(parents=True)
    for number in range(12):
        (folder / f"{number}.txt").touch()


async def test_caches_and_environments_may_be_removed(contained: Project) -> None:
    names = ["node_modules", "dist", ".mypy_cache", "src/__pycache__", ".venv/lib", "build"]
    for name in names:
        fill(contained.path / name)
    (contained.path / ".venv" / "pyvenv.cfg").touch()
    fill(contained.path / "tests" / "__pycache__")
    commands = [
        "rm -rf node_modules dist/ .mypy_cache src/__pycache__",
        "rm -rf .venv && mkdir .venv",
        "rm -rf build/*",
        "find . -type d -name __pycache__ -exec rm -rf {} +",
    ]
    async with contained.commands(*commands) as session:
        await session.run(no)
        assert [event.reason for event in session.asked] == []
    assert not any((contained.path / name).exists() for name in names[:4])
    assert list((contained.path / ".venv").iterdir()) == []
    assert list((contained.path / "build").iterdir()) == []


async def test_removing_a_folder_that_only_looks_like_a_cache_asks_and_names_the_limit(contained: Project) -> None:
    fill(contained.path / "dist")
    contained.git("add", "dist/0.txt")
    fill(contained.path / "work")
    fill(contained.root / "elsewhere")
    (contained.path / "build").symlink_to(contained.root / "elsewhere")
    fill(contained.path / "target")
    (contained.path / "target" / ".git").mkdir()
    commands = [
        "rm -rf dist",
        "rm -rf work",
        "rm -rf build/*",
        "rm -rf target",
        "find . ! -name __pycache__ -exec rm -rf {} +",
        "find . -name __pycache__ -prune -o -name '*.txt' -delete",
        "find . -name '*.txt' -delete",
    ]
    async with contained.commands(*commands) as session:
        await session.run(no)
        assert [event.input["command"] for event in session.asked] == commands
        assert "more than 10 files" in session.asked[0].reason


async def test_a_non_interactive_refusal_names_the_part_that_needs_approval(contained: Project) -> None:
    fill(contained.path / "work")
    async with contained.commands("touch made && rm -rf work", interactive=False) as session:
        (result,) = await session.run(no)
    assert "more than 10 files" in result
    assert "the parts without `rm -rf work` can run as a call of their own" in result


async def test_non_interactive_advice_names_no_tool_that_asks(contained: Project) -> None:
    command = "python3 -c \"open('.g' + 'it/config', 'a')\""
    async with contained.commands(command, interactive=False) as session:
        (result,) = await session.run(no)
    assert ".git/config is protected" in result
    assert "Write or Edit" not in result


async def test_a_client_without_its_server_gets_advice_to_run_both_in_one_command(contained: Project) -> None:
    script = "import urllib.request as u; u.urlopen('http://localhost:8765/')"
    async with contained.commands(f'python3 -c "{script}"') as session:
        (result,) = await session.run(no)
        assert session.asked == []
    assert "Run the server and its client in one command." in result


async def test_an_allowed_host_with_a_private_address_gets_a_note(
    contained: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_proxy, "_addresses", lambda _host, _port: ["10.0.0.1"])
    command = fetching("http://example.org/x")
    async with contained.commands(command, allowed_tools=("Network(example.org)",)) as session:
        (result,) = await session.run(no)
    assert "Sandbox: example.org leads to a private address" in result


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
