"""Renders the README's screenshot: the real app, in a real terminal, on a fixed scene.

    python -m tests.screenshot

The model's side is scripted and served over HTTP; all else is what a user has: the loop, the tools, the question.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.picture import to_svg
from tests.support.scripts import call, reply, say, think
from tests.support.terminal import REPOSITORY, app_with

TARGET = REPOSITORY / ".github" / "screenshot.svg"
COLUMNS, ROWS = 96, 40

SOURCE = '''"""Money in cents: no rounding errors."""


def split(total: int, people: int) -> list[int]:
    """Equal shares that add up to the total."""
    share = total // people
    return [share] * people
'''
TEST = """from shares import split

total = sum(split(100, 3))
print(f"Three people share 100 cents and pay {total} together.")
raise SystemExit(total != 100)
"""
FOUND = (
    "`split(100, 3)` gives `[33, 33, 33]`: the rest of the division is thrown away. The first people each pay one "
    "cent more until it is used up:\n\n"
    "| | before | after |\n|---|---|---|\n| shares | 33 33 33 | 34 33 33 |\n| sum | 99 | **100** |\n"
)


def scene(work: Path) -> list[object]:
    return [
        reply(
            think("The test says that a cent is lost. Both files are small: read them, and run the test."),
            say("I look at the test and at what it tests, and run it."),
            call("Read", file_path=str(work / "test_shares.py")),
            call("Read", file_path=str(work / "shares.py")),
            call("Bash", command="python3 test_shares.py", description="Run the test"),
        ),
        reply(
            think("33 * 3 is 99. The rest has to go to somebody."),
            say(FOUND),
            call(
                "Edit",
                file_path=str(work / "shares.py"),
                old_string="    share = total // people\n    return [share] * people\n",
                new_string="    share, rest = divmod(total, people)\n"
                "    return [share + 1] * rest + [share] * (people - rest)\n",
            ),
        ),
        reply(say("Done.")),
    ]


async def picture(folder: Path) -> str:
    work = folder / "shares"
    work.mkdir()
    (work / "shares.py").write_text(SOURCE)
    (work / "test_shares.py").write_text(TEST)
    (work / ".gitignore").write_text("__pycache__/\n")
    for arguments in (["init", "-q", "-b", "main"], ["add", "."]):
        subprocess.run(["git", *arguments], cwd=work, check=True)
    async with app_with(
        folder,
        *scene(work),  # type: ignore[arg-type]
        arguments=("--allowedTools", "Bash(python3 test_shares.py)", "--theme", "dark"),
        columns=COLUMNS,
        rows=ROWS,
        project="shares",
    ) as (app, _server):
        await app.ready()
        await app.submit("The test fails. Find out why and mend it.")
        await app.wait_for("Make this change?")
        with contextlib.suppress(AssertionError):
            await app.wait_for("never to be seen", seconds=1)
        svg = to_svg(app.emulator, "agentcli")
        await app.answer("escape")
        await app.wait_for("Make this change?", gone=True)
        await app.leave()
    return svg


def main() -> None:
    # Always in the same folder, whose name is in the picture: the same scene gives the same bytes.
    folder = Path(tempfile.gettempdir(), "ada")
    folder.mkdir()
    try:
        TARGET.write_text(asyncio.run(picture(folder)), encoding="utf-8")
    finally:
        shutil.rmtree(folder)
    print(f"{TARGET.relative_to(REPOSITORY)}: {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
