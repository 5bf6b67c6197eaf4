"""Files are read through `core.files.access`: a FIFO or an endless file would keep the program waiting."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "agentcli"

ALLOWED = {
    "core/files/access.py": "the one place",
    "core/processes/exit_cleanup.py": "/proc of our own children",
    "sandbox/linux/processes.py": "/proc of our own children",
    "sandbox/linux/probe.py": "/proc/sys",
    "sandbox/linux/mounts.py": "/proc/net/unix, all of it: a socket that is left out could be reached",
    "doctor/machine.py": "/proc/sys",
    "core/processes/orphan_processes.py": "/proc of our own children, read in one piece",
    "tools/files/replace.py": "opens a folder in order to sync it",
    "tools/files/numbered_lines.py": "uses the opener of core/files/access.py",
    "tools/shell/bashoutput.py": "the output file of our own background command",
    "config/credentials.py": "opens without following links, regular files only, checks the owner",
    "shell/git_config.py": "regular files only, with a limit of its own",
    "interactive/drafts.py": "rewrites the descriptor that it has locked",
    "interactive/editor.py": "the file that the user's editor wrote for us, size checked",
    "tui/terminal/instant.py": "the first paint imports nothing; reads one bounded piece of our own state file",
    "plain/terminal.py": "the user's ~/.inputrc, a bounded piece",
    "plain/front_end_choice.py": "the user's own settings, before anything is imported",
    "cli/invocation.py": "a file that the user names on the command line, which may be a pipe",
    "providers/script.py": "a file that the user names in AGENTCLI_SCRIPT",
    "sandbox/filtered_files.py": "opens without following links, regular files only, with its own limit",
    "sandbox/limits.py": "/proc of our own children, and the machine's memory",
    "sandbox/quarantine/store.py": "our own state folder",
    "tools/base.py": "files of the package itself",
    "context/prompt.py": "files of the package itself",
    "commands/memory.py": "files of the package itself",
    "cli/complete.py": "files of the package itself",
    "cli/reference.py": "the reference in the source tree",
    "history/export/page.py": "files of the package itself",
    "demo/words.py": "files of the package itself",
    "demo/project.py": "the tour's own folder",
}

_MENTIONED = re.compile(r"\b(?:open|read_text|read_bytes)\(")
"""Parsing everything would take seconds."""


def _reads(source: str) -> Iterator[ast.Call]:
    if not _MENTIONED.search(source):
        return
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Attribute):
            if function.attr in ("read_text", "read_bytes"):
                yield node
            elif function.attr == "open" and ast.unparse(function.value) == "os":
                flags = ast.unparse(node)
                if "O_RDONLY" in flags and "O_DIRECTORY" not in flags:
                    yield node
            elif function.attr == "open" and node.args and ast.unparse(node.args[0]) in ("'r'", "'rb'", "'rt'"):
                yield node
            elif function.attr == "open" and any(word.arg in ("encoding", "buffering") for word in node.keywords):
                mode = ast.unparse(node.args[0]) if node.args else ""
                if not set(mode) & set("wax"):
                    yield node
        elif isinstance(function, ast.Name) and function.id == "open":
            mode = ast.unparse(node.args[1]) if len(node.args) > 1 else ""
            if not set(mode) & set("wax"):
                yield node


def test_no_file_is_read_without_bounds() -> None:
    found = {
        f"{path.relative_to(PACKAGE)}:{call.lineno}: {ast.unparse(call)[:80]}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if str(path.relative_to(PACKAGE)) not in ALLOWED
        for call in _reads(path.read_text(encoding="utf-8"))
    }
    assert not found, "use agentcli.core.files.access"


def test_every_exception_is_still_needed() -> None:
    unused = {name for name in ALLOWED if not any(_reads((PACKAGE / name).read_text(encoding="utf-8")))}
    assert not unused


def test_a_read_is_found_where_there_is_one() -> None:
    source = "p.read_text(); open(p); open(p, 'rb'); p.open('rb'); os.open(p, os.O_RDONLY); p.open(encoding='utf-8')"
    assert len(list(_reads(source))) == 6
    assert not list(_reads("open(p, 'w'); page.open('title'); os.open(p, os.O_RDONLY | os.O_DIRECTORY)"))
