"""Read-only commands that agents run in a project, with the assembled policy on a real repository."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from agentcli.assemble import Options, Rights, rights_for
from agentcli.permissions.rules import parse_rule
from tests.support.tables import cells

LOOKS = cells(r"""
git log --oneline --graph --all -20 ¦ git log --stat -3 ¦ git log -p -1 -- src/app.py
git log --since='2 weeks ago' --pretty=format:'%h %an %s' ¦ git log --follow --oneline -- src/app.py
git diff --cached ¦ git diff --name-only HEAD~1 ¦ git diff HEAD -- src ¦ git rev-list --count HEAD
git config --get remote.origin.url ¦ git remote -v ¦ git branch -vv ¦ git tag --sort=-creatordate | head -5
git stash list ¦ git shortlog -sn HEAD ¦ git ls-files | wc -l ¦ git ls-files '*.py' | xargs wc -l | tail -1
git ls-files | grep -v test | xargs grep -n import ¦ git diff --name-only HEAD | xargs ls -la
git show --stat $(git log -1 --format=%h) ¦ git show --stat $(git rev-parse HEAD)
git diff $(git merge-base main HEAD) ¦ git log $(git describe --tags --abbrev=0)..HEAD --oneline
git log --oneline -3 "$(git branch --show-current)" ¦ cd "$(git rev-parse --show-toplevel)" && ls
for f in $(git ls-files 'src/*.py'); do head -1 "$f" | grep -q Copyright || echo "$f"; done
for f in $(git ls-files); do git log -1 --format='%h %ad' -- "$f"; done ¦ wc -l $(git ls-files)
wc -l $(find src -name '*.py') ¦ head -5 $(ls *.md) ¦ git clean -nd ¦ git blame -L 1,5 src/app.py
git status --porcelain=v1 -b ¦ ls -1 | wc -l ¦ ls -lat | head ¦ ls -la src tests 2>/dev/null
find . -type d -name node_modules -prune -o -name '*.ts' -print | head
find . -maxdepth 2 -not -path '*/.git/*' -type f ¦ find src -type f -name '*.py' -exec wc -l {} +
find . -name '*.py' -newer README.md ¦ find . -name '*.py' -not -path './.venv/*' | xargs grep -l import
find . -name '*.py' -not -path '*/.venv/*' -not -path './.git/*' | xargs wc -l
find . -name '*.py' ! -name 'x*' | xargs grep -l import
find . -path ./.venv -prune -o -name '*.py' -print | xargs wc -l
find . -type d -name .venv -prune -o -name '*.py' -print | xargs head -2
find . \( -name .venv -o -name .git \) -prune -o -type f -print | xargs grep -n import
find . -name '*.py' -exec grep -l import {} + ¦ grep -rnE 'a|b' --include=*.{ts,tsx} src
grep -rn "import" --include='*.py' . | head -20 ¦ grep -c def src/app.py ¦ rg -n "import" -g '*.py' src
tail -n +10 README.md | head -5 ¦ sed -n '/def x/,/^def/p' src/app.py ¦ sed -n '1,40p' src/*.py
awk '/^def/{print FILENAME": "$0}' src/*.py ¦ cat package.json | jq -r '.dependencies | keys[]'
jq '.scripts' package.json ¦ jq -r 'keys[]' *.json
diff <(jq -r 'keys[]' package.json) <(jq -r 'keys[]' other.json) || true ¦ cat -A README.md | head -3
sort README.md | uniq -c | sort -rn | head ¦ cut -d, -f1 README.md | sort -u | tr a-z A-Z
xxd README.md | head -2 ¦ nl -ba src/app.py | head ¦ stat -c %s README.md ¦ readlink -f README.md ¦ realpath src
du -sh src && df -h . ¦ free -h; nproc; uname -a ¦ ps aux | grep node | head ¦ type -a python3
command -v node || echo none ¦ env | sort | head -20 ¦ printenv PATH ¦ bash -n scripts/run.sh && echo ok
test -f README.md && echo yes || echo no ¦ if [ -d tests ]; then ls tests; else echo none; fi
echo "$(git rev-parse --abbrev-ref HEAD): $(git rev-list --count HEAD)"
""")

ACTS = cells(r"""
python3 -c "print(1)" ¦ python3 -m py_compile src/app.py ¦ npm view left-pad ¦ docker ps ¦ ls -la ~/.config
git fetch --dry-run ¦ git checkout $(git log -1 --format=%h) ¦ git clean -nfd ¦ git apply fix.diff
bash scripts/run.sh ¦ rm $(git ls-files) ¦ for f in $(git ls-files); do sed -i s/a/b/ "$f"; done
git ls-files | xargs rm ¦ cat <(curl example.org) ¦ for d in $HOME; do cat $d/.bashrc; done
for d in $HOME; do ls $d; done
""")


@contextmanager
def repository(root: Path, *further: str) -> Iterator[Rights]:
    folder, home = root / "project", root / "home"
    home.mkdir(parents=True)
    (home / ".bashrc").write_text("secret\n")
    for name in (
        "README.md",
        "package.json",
        "src/app.py",
        "src/core.py",
        "tests/test_app.py",
        "scripts/run.sh",
        *further,
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("import os\n")
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "SHELL": "/bin/bash"}
    _git(folder, environ, "init", "-q", "-b", "main", "--template=")
    _git(folder, environ, "add", "-A")
    _git(folder, environ, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "first")
    _git(folder, environ, "tag", "v1")
    rights = rights_for(Options(cwd=folder, environ=environ))
    try:
        yield rights
    finally:
        rights.context.launcher.close()


def _git(folder: Path, environ: Mapping[str, str], *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, env=environ, check=True, capture_output=True)


def decisions(rights: Rights, commands: list[str]) -> dict[str, str]:
    tool = rights.registry.get("Bash")
    assert tool is not None
    context = rights.context
    found: dict[str, str] = {}
    for command in commands:
        given = {"command": command}
        needs = tool.needs(given, context)
        found[command] = rights.policy.decide("Bash", given, needs, context.cwd, context.working_dirs).behavior
    return found


def test_read_only_commands_in_a_project_do_not_ask(tmp_path: Path) -> None:
    with repository(tmp_path) as rights:
        assert [command for command, answer in decisions(rights, LOOKS).items() if answer != "allow"] == []


def test_similar_commands_that_run_code_write_or_read_elsewhere_ask(tmp_path: Path) -> None:
    with repository(tmp_path) as rights:
        assert [command for command, answer in decisions(rights, ACTS).items() if answer == "allow"] == []


def test_a_denied_file_in_the_history_is_not_shown_through_a_list_of_folders(tmp_path: Path) -> None:
    with repository(tmp_path, "src/.env") as rights:
        (rights.context.cwd / "src" / ".env").unlink()
        policy = replace(rights.policy, deny=(*rights.policy.deny, parse_rule("Read(.env)", "a test")))
        lines = ["git log -p -- $(find src -type d)", "git show $(git rev-parse HEAD)"]
        assert "allow" not in decisions(replace(rights, policy=policy), lines).values()


def test_signatures_in_the_output_of_git_log_make_its_hashes_ask(tmp_path: Path) -> None:
    with repository(tmp_path) as rights:
        _git(rights.context.cwd, dict(os.environ), "config", "log.showSignature", "true")
        line = "git show --stat $(git log -1 --format=%h)"
        assert decisions(rights, [line]) == {line: "ask"}
