"""Every block, to be looked at by people: `python tests/tui/show_blocks.py [--expanded] [--width N] [--theme NAME]`.

With `--screen N` only the N-th screenful (of 40 rows) is printed, which is what a picture can hold.
"""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from agentcli.tui.agents import AgentItem
from agentcli.tui.blocks.base import Block
from agentcli.tui.blocks.make import make_block
from agentcli.tui.model import (
    AnswerItem,
    BoundaryItem,
    EndItem,
    Item,
    NoticeItem,
    OutputItem,
    PromptItem,
    ThinkingItem,
    ToolItem,
    WelcomeItem,
)
from agentcli.tui.presenter import Presenter
from agentcli.tui.theme.palette import Palette
from tests.support.agent_events import agent_end, agent_start, agent_work, question

DIFF = """\
@@ -1,9 +1,11 @@
 \"\"\"Reads configuration files.\"\"\"

 def head(text, end):
     \"\"\"First characters.\"\"\"
-    return text[0:end - 1]
+    # The end is exclusive.
+    return text[0:end]

-def tail(text, start):
-    return text[start:]
+def tail(text: str, start: int = 0) -> str:
+    return text[start:] or "nothing"
@@ -120,4 +122,3 @@ class Parser:
     def close(self):
         self.file.close()
-        self.file = None
         return True
\\ No newline at end of file"""
NEW_FILE = "@@ -0,0 +1,40 @@\n" + "\n".join(
    f"+{line}"
    for line in [
        "from pathlib import Path",
        "",
        "class Store:",
        '    """Keeps 日本語 and 👩‍👩‍👧 safe."""',
        "    def __init__(self, folder: Path) -> None:",
        "        self.folder = folder  # must exist",
        *(f"        self.field_{number} = {number}" for number in range(34)),
    ]
)
TODOS = [
    {"content": "Find the bug", "status": "completed", "activeForm": "Finding the bug"},
    {"content": "Fix the parser", "status": "in_progress", "activeForm": "Fixing the parser"},
    {"content": "Run the tests", "status": "pending", "activeForm": "Running the tests"},
]
MATCHES = [
    {"path": "src/parser.py", "line": 12, "text": "def head(text, end):", "match": True},
    {"path": "src/parser.py", "line": 13, "text": '    """First characters."""', "match": False},
    {"path": "src/parser.py", "line": 140, "text": "    return head(text, 12)", "match": True},
    *(
        {"path": "tests/test_parser.py", "line": line, "text": "assert head('abc', 2)", "match": True}
        for line in range(9)
    ),
]
PYTEST = "\n".join(f"tests/test_parser.py::test_case_{number} PASSED" for number in range(60)) + "\n60 passed in 1.41s"
PLAN = """\
## Plan
1. Read `parser.py`
2. Fix the **slice**

| file | change |
|---|---|
| parser.py | slice end |
"""
TRACEBACK = """\
Traceback (most recent call last):
  File "app.py", line 3, in <module>
    main()
ZeroDivisionError: division by zero"""


def tool(id: str, title: str, **values: object) -> ToolItem:
    name = str(values.pop("name", title.split(" ")[0]))
    return ToolItem(id=id, name=name, title=title, status=values.pop("status", "done"), **values)  # type: ignore[arg-type]


def agents() -> list[Item]:
    """One in each state."""
    presenter = Presenter()
    for number, name in enumerate(("explore-1", "general-1", "plan-1", "explore-2"), 1):
        presenter.show(agent_start(name, f"t{number}", "Find the callers of parse_header", background=number == 4), 1.0)
        for event in agent_work(name):
            presenter.show(event, 2.0)
    shown = {name: run.progress for name, run in presenter.agents._runs.items()}
    presenter.show(agent_end("general-1", "t2"), 3.0)
    presenter.show(agent_end("plan-1", "t3", "failed", text="The model was overloaded."), 3.0)
    presenter.show(question("explore-1"), 3.0)
    return [AgentItem(id=name, progress=progress) for name, progress in shown.items()]


def items() -> list[Item]:
    facts = ("claude-sonnet-5 · high · ~/work/demo", "/ commands · @ files · ! shell · ? keys")
    return [
        WelcomeItem(id="0", version="0.9.0", lines=facts),
        PromptItem(id="1", text="find and fix the bug in parser.py, then run the tests and say what was wrong"),
        ThinkingItem(id="2", text="The slice drops the last character. " * 12, seconds=None),
        ThinkingItem(id="3", text="The slice drops the last character.\n\nI should fix it.", seconds=4.2),
        ThinkingItem(id="4", text="", seconds=2.0),
        AnswerItem(id="5", text="I'll look at the **parser** and run the tests.", done=True),
        tool(
            "6",
            "Read src/parser.py",
            summary="214 lines",
            display={"kind": "code", "text": "import re\nx = 1", "path": "a.py"},
        ),
        tool("7", "Grep def head in src", summary="12 matches", display={"kind": "matches", "rows": MATCHES}),
        tool(
            "8",
            "Glob **/*.py",
            summary="2 files",
            display={"kind": "matches", "rows": [{"path": "a.py"}, {"path": "b.py"}]},
        ),
        tool("9", "Bash pytest -q", summary="exit code 0", duration_ms=1410, display={"kind": "text", "text": PYTEST}),
        tool(
            "10",
            "Bash python app.py",
            status="failed",
            summary="exit code 1",
            display={"kind": "text", "text": TRACEBACK},
        ),
        tool("11", "Bash make -j2 all", status="running", output=PYTEST, began=1.0),
        tool(
            "12", "Edit src/parser.py", summary="+4 −4", display={"kind": "diff", "diff": DIFF, "path": "src/parser.py"}
        ),
        tool("13", "Write src/store.py", summary="+40 −0", display={"kind": "diff", "diff": NEW_FILE, "path": "s.py"}),
        tool(
            "14",
            "Todos: 1 of 3 done",
            name="TodoWrite",
            summary="1 of 3 done",
            display={"kind": "todos", "todos": TODOS},
        ),
        tool("15", "Bash rm -rf build && " + "make all " * 30, status="waiting"),
        tool("16", "Write", status="writing"),
        tool("17", "Bash rm -rf /", status="denied", output="The person said no: use the clean target instead."),
        tool("18", "Bash sleep 100", status="interrupted", duration_ms=61_000),
        tool("19", "Read missing.py", status="failed", summary="no such file", output="missing.py does not exist."),
        tool(
            "20",
            "Search the web: textual line api",
            name="WebSearch",
            summary="2 sources, 1 search",
            display={"kind": "search", "results": [{"title": "Widgets", "url": "https://textual.textualize.io/guide"}]},
        ),
        tool(
            "21",
            "Question: Which database?",
            name="AskUserQuestion",
            summary="1 answer",
            display={"kind": "answers", "answers": [{"question": "Which database?", "answer": "SQLite"}]},
        ),
        tool(
            "36",
            "Fetch https://example.org/guide",
            name="WebFetch",
            summary="200 OK, 12 KB",
            display={"kind": "markdown", "title": "A guide", "text": PLAN * 3, "url": "https://example.org/guide"},
        ),
        tool(
            "37", "Plan for approval", name="ExitPlanMode", summary="approved", display={"kind": "plan", "plan": PLAN}
        ),
        NoticeItem(id="22", text="The model was told: src/parser.py was changed by somebody else since it was read."),
        NoticeItem(id="23", text="529 overloaded, attempt 3 of 10.", level="warning"),
        NoticeItem(id="24", text="The session file cannot be written: disk full.", level="error"),
        PromptItem(id="25", text="/cost"),
        OutputItem(id="26", text="Session  $0.42\nNext     ~$0.01"),
        PromptItem(id="27", text="!ls -la | head"),
        OutputItem(id="28", text="\n".join(f"file-{number}.txt" for number in range(80))),
        BoundaryItem(id="29", text="compacted: 84k → 6k tokens"),
        OutputItem(id="30", text="# What was done", kind="markdown", title="Summary of what came before"),
        EndItem(id="31", text="12 s · 3 turns"),
        EndItem(id="32", text="Interrupted. Partial output is kept. What should be done instead?", level="warning"),
        EndItem(id="33", text="The API refused the request.", level="error", errors=("invalid_request: too long",)),
        *agents(),
        PromptItem(id="34", text="\n".join(f"line {number} of a long prompt" for number in range(40)), images=2),
    ]


def blocks(expanded: bool = False) -> list[Block]:
    made = [make_block(item) for item in items()]
    for block in made:
        block.expanded = expanded
        block.tick(5.0)
    return made


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--expanded", action="store_true")
    parser.add_argument("--width", type=int, default=0)
    parser.add_argument("--screen", type=int, default=0)
    parser.add_argument("--theme", default="dark")
    parser.add_argument("--plain", action="store_true", help="without colours")
    options = parser.parse_args()
    palette = Palette()
    if options.theme:
        from agentcli.tui.theme.themes import load_theme, theme_folders

        palette = load_theme(options.theme, theme_folders(None)).palette(colours=not options.plain)
    console = Console(force_terminal=True, color_system="truecolor", highlight=False, markup=False)
    width = options.width or console.width
    rows = []
    for block in blocks(options.expanded):
        rows += [line.strip for line in block.layout(width, palette)]
        rows.append(None)
    if options.screen:
        rows = rows[(options.screen - 1) * 38 : options.screen * 38]
    for strip in rows:
        sys.stdout.write((strip.render(console) if strip else "") + "\n")


if __name__ == "__main__":
    main()
