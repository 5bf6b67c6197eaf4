"""Naming a protected path counts only where a command could change it."""

from __future__ import annotations

from pathlib import Path

from tests.permissions.deciding import bash, policy
from tests.support.tables import each_row

INERT = [
    "echo .idea/ >> .gitignore",
    "printf '%s\\n' .idea .vscode >> .gitignore && git add .gitignore && git commit -qm 'Ignore .idea'",
    "git commit -qm 'Ignore .idea and .vscode folders'",
    "git commit -am '.envrc: explain'",
    "git commit --message='Remove .envrc'",
    "git commit -F - <<'EOF'\nIgnore .idea\n\nAnd .vscode, too.\nEOF",
    "git commit -m \"$(cat <<'EOF'\nIgnore .idea\n\nAnd .vscode\nEOF\n)\"",
    "git tag -a v1 -m 'Without .idea'",
    "git stash push -m 'before .vscode'",
    "git notes add -m '.idea'",
    "cat > README.md <<'EOF'\nHooks are in .git/hooks\nEOF",
    "find . -type f -name '*.rst' -not -path './.git/*' -exec sed -i s/a/b/ {} +",
    "find . ! -path './.git/*' -exec sed -i s/a/b/ {} +",
    "find . -path ./.git -prune -o -name '*.py' -print | xargs sed -i s/a/b/",
    "grep -rl --exclude-dir=.git x . | xargs sed -i s/a/b/",
    "grep -rl --exclude-dir .git x . | xargs sed -i s/a/b/",
    "tar czf x.tgz --exclude=.git .",
    "tar --exclude .git -czf x.tgz src",
    "sed -i s/a/b/ README.md && grep -rn --exclude-dir=.git foo src",
    "rsync -a --exclude .git src/ copy/",
    "rsync -a --exclude='.git/' src/ copy/",
    "rg -l -g '!.git' x | xargs sed -i s/a/b/",
    "cat .git/config; git config user.name",
    "cat .git/HEAD && touch x",
    "cat .git/HEAD | head -1; touch x",
]

TOUCHING = [
    *("find . -path './.git/*' -exec rm {} +", "find . ! ! -path './.git/*' -exec sed -i s/a/b/ {} +"),
    "find . ! -path './.git/*' -o -exec sed -i s/a/b/ {} +",
    "find . ! -path './.git/*' -exec true {} ';' -o -exec sed -i s/a/b/ {} +",
    "find . ! \\( ! -path './.git/*' \\) -exec sed -i s/a/b/ {} +",
    *("find . ! -path ./.git -prune -o -exec sed -i s/a/b/ {} +", "find . -path ./.git -prune -o -delete"),
    "find . -type d -o -path ./.git -prune -o -exec rm {} +",
    *("find . -path ./.git -prune -o -print , -exec rm {} +", "find .git ! -name x -exec rm {} +"),
    *("find . ! -name x -exec cp {} .git/hooks ';'", "find . -exec cp x ! -name .git/hooks ';'"),
    *("find .git -name '*.sample' | xargs rm", "ls -d .git/hooks/pre-commit | xargs touch"),
    *("grep -rl x .git | xargs sed -i s/a/b/", "cp x .git/hooks/pre-commit", "echo x > .envrc"),
    *("echo .envrc | xargs touch", "printf 'touch .envrc' | sh", "{ echo 'touch .envrc'; } | sh"),
    *("echo 'touch .envrc' > a.sh; sh a.sh", "echo .envrc > names; xargs touch < names"),
    *("cat <<'EOF' | sh\ntouch .envrc\nEOF", "sh <<'EOF'\ntouch .envrc\nEOF"),
    *("python3 - <<'EOF'\nopen('.envrc', 'w')\nEOF", "cat > .envrc <<'EOF'\nx\nEOF", "bash <<< 'touch .envrc'"),
    *("bash -c 'touch .envrc'", "git commit -m x && cp a .envrc", "git commit -m x -- .envrc"),
    *("git stash push -m x .envrc", "git -C .git/hooks commit -m x", "git checkout -m .envrc"),
    *("tar xf a.tgz --exclude=x .git", "tar xf --exclude .git", "tar xf a.tgz -- --exclude=.git .git"),
    *("rsync -a --exclude x src/ .git/", "rg -g '.git/**' -l x | xargs rm", "./own.sh --exclude=.envrc"),
    *("cd .git && touch x", "cat .git/HEAD > .envrc", "touch $(echo .envrc)", "x=.envrc; touch $x"),
    *("for f in .envrc b; do touch $f; done", "GIT_DIR=.git/other git commit -m x", "tee .envrc < README.md"),
    *("echo x | tee .envrc", "ln -s .git g"),
]


def asks_for_a_protected_path(command: str, project: Path, mode: str) -> bool:
    # A rule for everything is what a question about a protected path holds against.
    decision = bash(policy(mode, "Bash(*)"), command, project)
    return "protected path" in decision.reason


@each_row("mode", ["default", "acceptEdits"])
@each_row("command", INERT)
def test_a_protected_path_that_cannot_be_changed_does_not_count(command: str, mode: str, tree: Path) -> None:
    assert not asks_for_a_protected_path(command, tree, mode)


@each_row("mode", ["default", "acceptEdits"])
@each_row("command", TOUCHING)
def test_a_protected_path_that_could_be_changed_counts(command: str, mode: str, tree: Path) -> None:
    assert asks_for_a_protected_path(command, tree, mode)
