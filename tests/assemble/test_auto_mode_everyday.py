"""Auto mode in the assembled program, played on a repository: everyday commands that must not stop."""

from __future__ import annotations

import pytest

from tests.support.contained import Project, no

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
