"""No control sequence from untrusted text reaches the terminal: asserted on every byte written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.scripts import call, fails, reply, say, think
from tests.support.terminal import TerminalProgram, app_with

pytestmark = pytest.mark.anyio

ORDERS = (
    "\x1b]0;owned title\x07",
    "\x1b]2;owned title\x1b\\",
    "\x1b]52;c;b3duZWQ=\x07",
    "\x1b]8;;http://owned.example\x1b\\",
    "\x1b]9;owned note\x07",
    "\x1b[6n",
    "\x1b[41;5m",
    "\x1b[?1337h",
    "\x1b[7;77H",
    "\x1bP+q6f\x1b\\",
    "\x1bc",
    "\x9b41;5m",
    "\x9d0;owned title\x9c",
    "\x90+q6f\x9c",
    "\x07\x0e\x00",
)
BIDI = "\u202egnp.\u202c\u2066x\u2069"
EVIL = f"<<{''.join(ORDERS)}{BIDI}>>"

_OWN = re.compile(
    rb"\x1b\[[0-9;]*[mHKJGCMLXr]"  # colours, places, erasing, scrolling
    rb"|\x1b\[\?[0-9;]+[hl]|\x1b\[\?[0-9]+\$p"  # modes, and asking for them
    rb"|\x1b\[[<>][0-9;]*u|\x1b\[[0-9] q"  # keyboard, cursor shape
    rb"|\x1b\]11;\?\x07|\x1b\]2[0-9]*;[^\x00-\x1f\x7f]*(?:\x07|\x1b\\)|\x1b\]0;[^\x00-\x1f\x7f]*(?:\x07|\x1b\\)"
    rb"|\x1b\]8;[^\x00-\x1f\x7f]*\x1b\\"  # links
    rb"|\x1b\]9;4;[0-9;]*(?:\x07|\x1b\\)"  # progress
    rb"|\x1b\\|\x1b\[2[23];0t"
)
"""What the app itself has reason to write."""
_ORDERS_LEFT = re.compile(rb"[\x00-\x09\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]")
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")


def assert_inert(app: TerminalProgram) -> None:
    raw = bytes(app.raw)
    for order in ORDERS:
        assert order.encode() not in raw
    for found in _OWN.findall(raw):
        assert b"owned" not in found.lower()
        assert b"b3duZWQ" not in found
    left = _OWN.sub(b"", raw)
    assert [left[max(0, at.start() - 40) : at.end() + 40] for at in _ORDERS_LEFT.finditer(left)] == []
    text = left.decode()
    assert [text[max(0, at.start() - 20) : at.end() + 20] for at in _BIDI.finditer(text)] == []
    assert not any("owned" in title for title in app.titles)


async def test_control_sequences_in_answers_thinking_errors_questions_plans_and_commands_are_inert(
    tmp_path: Path,
) -> None:
    markdown = (
        f"# {EVIL}\n\n[{EVIL}](http://a/{EVIL})\n\n```sh\n{EVIL}\n```\n\n| {EVIL} |\n|---|\n| {EVIL} |\n\n`{EVIL}` end"
    )
    question = {
        "question": f"Which {EVIL}?",
        "header": "Which",
        "multiSelect": False,
        "options": [{"label": f"one {EVIL}", "description": EVIL}, {"label": "two", "description": EVIL}],
    }
    todo = {"content": f"Do {EVIL}", "activeForm": f"Doing {EVIL}", "status": "in_progress"}
    async with app_with(
        tmp_path,
        reply(call("Bash", command=f"touch '{BIDI}'", description=EVIL)),
        reply(call("TodoWrite", todos=[todo])),
        reply(call("AskUserQuestion", questions=[question])),
        reply(think(EVIL), say(markdown, chunk=7)),
        fails(400, EVIL),
        fails(529, EVIL, headers={"retry-after": "30"}),
    ) as (app, _server):
        await app.ready()
        await app.submit("go")
        await app.wait_for("Run this command?")
        assert "202E" in app.text.upper(), "what turns the writing round is spelled out"
        await app.answer("n")
        await app.wait_for("two")
        await app.press("escape")
        await app.wait_for("Interrupted")
        await app.submit("/clear")
        await app.wait_for("Interrupted", gone=True)

        await app.submit("answer")
        await app.wait_for("x<U+2069>>> end")
        await app.press("ctrl+o")
        await app.wait_for("<<")
        await app.submit("a mistake")
        await app.wait_for("✗")
        await app.submit("a wait")
        await app.wait_for("next in")
        await app.press("escape")
        await app.wait_for("Interrupted")
        assert await app.leave() == 0
        assert_inert(app)


async def test_control_sequences_in_tool_output_and_file_names_are_inert(tmp_path: Path) -> None:
    name = f"evil{EVIL}.txt".replace("/", "").replace("\x00", "")
    async with app_with(
        tmp_path,
        reply(
            call("Bash", command="cat evil*"),
            call("Glob", pattern="*"),
            call("Grep", pattern="<<", output_mode="content"),
            call("Read", file_path=name),
        ),
        reply(call("Write", file_path=name, content=f"new\n{EVIL}\n1\n2\n3\nnew")),
        reply("all done"),
        arguments=["--allowedTools", "Bash"],
    ) as (app, server):
        (app.work / name).write_text(f"old\n{EVIL}\n1\n2\n3\nold\n".replace("\x00", ""))
        (app.work / "evil-looking.txt").touch()
        await app.ready()
        await app.submit("go")
        await app.wait_for("Review hunk by hunk")
        await app.answer("h")
        await app.wait_for("Which of these hunks?")
        await app.wait_for("1✓")
        await app.press("escape")
        await app.wait_for("Review hunk by hunk")
        await app.press("end")
        await app.wait_for("scroll to the end", gone=True)
        await app.press("y")
        await app.wait_for("all done")
        assert len(server.bodies) == 3
        await app.press("ctrl+o")
        await app.submit("/clear")
        await app.wait_for("evil<<", gone=True)
        await app.type("@evil")
        await app.wait_for("evil-looking.txt")
        assert "evil<<" not in app.text, "what nobody could type is not offered"
        assert await app.leave() == 0
        assert_inert(app)


async def test_control_sequences_in_folder_and_branch_names_and_in_pasted_and_resumed_text_are_inert(
    tmp_path: Path,
) -> None:
    name, pasted = EVIL.replace("/", "").replace("\x00", ""), EVIL.replace("\x1b[201~", "")
    branch = tmp_path / name / ".git"
    branch.mkdir(parents=True)
    (branch / "HEAD").write_text(f"ref: refs/heads/{name}\n")
    async with app_with(tmp_path, reply("an answer"), project=name, columns=160) as (app, _server):
        await app.ready()
        await app.paste(f"pasted {pasted}")
        await app.wait_for("pasted <<")
        await app.press("enter")
        await app.wait_for("◆ an answer")
        assert await app.leave() == 0
        assert_inert(app)
    async with app_with(tmp_path, project=name, arguments=["--resume"]) as (app, _server):
        await app.wait_for("an answer")
        await app.press("escape")
        await app.ready()
        assert await app.leave() == 0
        assert_inert(app)
    async with app_with(tmp_path, project=name, arguments=["-c"]) as (app, _server):
        await app.wait_for("an answer")
        await app.press("up")
        await app.wait_for(lambda: "pasted" in app.box)
        assert await app.leave() == 0
        assert_inert(app)
