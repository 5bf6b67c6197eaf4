"""The layers of the packages (see .github/CONTRIBUTING.md): who may import whom, checked on every import."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "agentcli"

RANK = {
    "core": 0,
    "config": 1,
    "providers": 2,
    "tools": 2,
    "shell": 2,
    "sandbox": 2,
    "permissions": 2,
    "hooks": 2,
    "session": 2,
    "context": 2,
    "workspace": 2,
    "mcp": 2,
    "memory": 2,
    "definitions": 2,
    "plugins": 2,
    "agent": 3,
    "assemble": 4,
    "doctor": 5,
    "history": 5,
    "commands": 6,
    "interactive": 7,
    "demo": 8,
    "cli": 9,
    "headless": 9,
    "acp": 9,
    "plain": 9,
    "tui": 9,
    "sdk": 9,
    "public": 10,
}
USED_BY_SIBLINGS = {("sandbox", "shell"), ("permissions", "shell"), ("permissions", "sandbox")}
"""The only imports between packages of one layer: what a command does, what contains it, whether it may run."""
CHOOSERS = {"cli", "assemble"}
"""They pick implementations of their own or a lower layer: `cli` imports exactly one front end."""

ONLY_IN = {
    "textual": ("tui/",),
    "rich": ("tui/", "plain/", "headless/text.py"),
    "prompt_toolkit": ("plain/",),
    "typer": ("cli/",),
    "anthropic": ("providers/transports/sdk.py",),
    "tree_sitter": ("shell/parser/",),
    "tree_sitter_bash": ("shell/parser/syntax_tree.py",),
    "h11": ("providers/transports/http11.py",),
    "httpx2": ("providers/", "tools/web/http_get.py", "mcp/"),
    "mcp": ("mcp/",),
    "PIL": ("tools/documents/image.py",),
    "pypdf": ("tools/documents/pdf_worker.py",),
    "bs4": ("tools/web/html_worker.py",),
    "markdownify": ("tools/web/html_worker.py",),
    "watchfiles": ("agent/file_changes.py",),
    "pygments": ("history/export/code_tokens.py",),
    "markdown_it": ("tui/blocks/", "plain/rendering.py", "history/export/"),
}


_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+(\S+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)|import[ \t]+(\S+))", re.MULTILINE)
"""Parsing everything would take seconds. ruff keeps every statement on a line of its own (E701, E702), and an import to
one module (E401)."""
_DEFINITION = re.compile(r"^( *)(?:async )?(def|class) ", re.MULTILINE)
_CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)
_MAX_FILE = 600
_MAX_FUNCTION = 80


@functools.cache
def source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@functools.cache
def imports(path: Path) -> tuple[tuple[str, int], ...]:
    """Every imported module with its line."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[str, int]]:
    text = source(path)
    for found in _IMPORT.finditer(text):
        module, names = found[1] or found[3], found[2] or ""
        line = text.count("\n", 0, found.start()) + 1
        assert not module.startswith("."), f"{path}:{line}: relative import"
        yield module, line
        if module == "agentcli":
            for name in re.findall(r"(\w+)(?: as \w+)?", names):
                yield f"agentcli.{name}", line


def long_functions(path: Path) -> Iterator[str]:
    """Parses only a module in which the next definition at the same depth or further out is that far away."""
    text = source(path)
    ends = {0: text.count("\n")}
    """Line of the next definition, by its depth."""
    for found in reversed(list(_DEFINITION.finditer(text))):
        line, depth = text.count("\n", 0, found.start()), len(found[1])
        end = min(at for other, at in ends.items() if other <= depth)
        if found[2] == "def" and end - line >= _MAX_FUNCTION:
            break
        ends[depth] = line
    else:
        return
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and (node.end_lineno or 0) - node.lineno >= _MAX_FUNCTION
        ):
            yield node.name


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def layer(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def test_imports_never_go_up_and_siblings_never_import_one_another() -> None:
    crossed = []
    for path in modules():
        here = layer(path)
        for name, line in imports(path):
            parts = name.split(".")
            there = parts[1] if parts[0] == "agentcli" and len(parts) > 1 else None
            if there is None or there == here or here not in RANK or there not in RANK:
                continue
            upward = RANK[there] > RANK[here]
            sideways = RANK[there] == RANK[here] and here not in CHOOSERS and (here, there) not in USED_BY_SIBLINGS
            if upward or sideways:
                crossed.append(f"{path.relative_to(PACKAGE)}:{line}: {here} -> {there}")
    assert crossed == []


def test_every_package_has_a_layer() -> None:
    top = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert top - {"__init__", "__main__", "__pycache__", "py.typed", "data"} <= set(RANK)


def test_the_core_needs_nothing_but_the_standard_library() -> None:
    for path in (PACKAGE / "core").rglob("*.py"):
        for name, line in imports(path):
            top = name.split(".")[0]
            assert top in ("agentcli", *sys.stdlib_module_names), f"{path}:{line}: {name}"
            assert not name.startswith("agentcli.") or name.startswith("agentcli.core"), f"{path}:{line}: {name}"


def test_each_library_is_imported_and_only_where_it_belongs() -> None:
    used = set()
    for path in modules():
        where = path.relative_to(PACKAGE).as_posix()
        for name, line in imports(path):
            used.add(library := name.split(".")[0])
            homes = ONLY_IN.get(library)
            assert homes is None or where.startswith(homes), f"{where}:{line}: {name}"
    assert used >= {*ONLY_IN, "aiofiles"} - {"pygments"}, "pygments is imported by name"


def test_tasks_do_not_depend_on_the_task_factory_of_the_event_loop() -> None:
    """A task that starts eagerly runs before its caller has stored it: `start_task` in `core/aio.py` never does so."""
    by_factory = re.compile(r"(?:asyncio|loop|\(\))\.(?:create_task|ensure_future|TaskGroup)\(")
    found = {path.relative_to(PACKAGE).as_posix() for path in modules() if by_factory.search(source(path))}
    assert found == {"core/aio.py"}, "its `ensure_future` gets futures"


LIGHT = ["agentcli", "agentcli.agent.loop.run_loop", "agentcli.assemble", "agentcli.cli.main"]
HEAVY = {
    "anthropic",
    "textual",
    "rich",
    "typer",
    "pydantic",
    "mcp",
    "jsonschema",
    "prompt_toolkit",
    "h11",
    "httpx2",
    "watchfiles",
    "tree_sitter",
    "tree_sitter_bash",
    "PIL",
    "pypdf",
    "bs4",
    "markdownify",
}


def test_importing_them_imports_no_heavy_library() -> None:
    """One after the other in one process: what one of them imports is still there after the next."""
    code = f"""
import importlib, sys
for module in {LIGHT}:
    importlib.import_module(module)
    print(module, *{{name.split('.')[0] for name in sys.modules}})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    loaded = {module: set(names) for module, *names in map(str.split, done.stdout.splitlines())}
    assert list(loaded) == LIGHT
    assert {module: names & HEAVY for module, names in loaded.items() if names & HEAVY} == {}


def test_the_first_frame_of_the_app_does_not_wait_for_the_agent() -> None:
    """Importing it takes 50 ms, which a thread does while the user types."""
    code = "import sys, agentcli.tui.app, agentcli.tui.chat; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent)
    agent = ("agentcli.agent", "agentcli.assemble", "agentcli.tools", "agentcli.providers.provider")
    assert [name for name in done.stdout.split() if name.startswith(agent)] == []


def test_no_file_and_no_function_has_grown_too_large() -> None:
    for path in modules():
        length = source(path).count("\n")
        assert length <= _MAX_FILE, f"{path} has {length} lines: move one of its subjects to a module of its own"
        too_long = list(long_functions(path))
        assert not too_long, f"{path}: {', '.join(too_long)} has {_MAX_FUNCTION} lines or more: split it"
    assert source(PACKAGE / "agent" / "loop" / "run_loop.py").count("\n") <= 150


def test_the_search_for_imports_and_long_functions_finds_them(tmp_path: Path) -> None:
    body = "    x = 1\n" * 40
    module = tmp_path / "module.py"
    module.write_text(
        "import os.path\nfrom agentcli import (\n    core as c,\n    tools,\n)\n"
        f"def outer():\n{body}    def inner():\n        from a.b import c\n{body}\n"
        f"class A:\n{body}    def short(self): ...\n"
    )
    expected = [("os.path", 1), ("agentcli", 2), ("agentcli.core", 2), ("agentcli.tools", 2), ("a.b", 48)]
    assert list(imports(module)) == expected
    assert list(long_functions(module)) == ["outer"]


def test_no_two_public_classes_have_the_same_name() -> None:
    modules_of: dict[str, list[str]] = {}
    for path in modules():
        for name in _CLASS.findall(source(path)):
            modules_of.setdefault(name, []).append(path.relative_to(PACKAGE).as_posix())
    assert len(modules_of) > 500
    assert {name: where for name, where in modules_of.items() if len(where) > 1} == {}


def test_the_sub_packages_of_a_package_have_no_import_cycle() -> None:
    """Modules at the root of a package may import its sub-packages and be imported by them."""
    for package in PACKAGE.iterdir():
        graph: dict[str, set[str]] = {}
        for path in package.glob("*/**/*.py") if package.is_dir() else ():
            own = path.relative_to(package).parts[0]
            for name, _line in imports(path):
                parts = name.split(".")
                if parts[:2] == ["agentcli", package.name] and len(parts) > 2 and (package / parts[2]).is_dir():
                    graph.setdefault(own, set()).update({parts[2]} - {own})
        # Raises CycleError.
        order = tuple(TopologicalSorter(graph).static_order())
        assert package.name != "tui" or len(order) > 5


def test_the_modules_and_packages_of_the_agent_have_no_import_cycle() -> None:
    agent = PACKAGE / "agent"
    graph: dict[str, set[str]] = {}
    for path in agent.rglob("*.py"):
        own = path.relative_to(agent).with_suffix("").parts[0]
        # Every stage gets the session and names its type; only the session imports what it consists of.
        only_types = re.findall(r"^    from (agentcli\.agent\.session) ", source(path), re.MULTILINE)
        for name, _line in imports(path):
            if name.startswith("agentcli.agent.") and name not in only_types:
                graph.setdefault(own, set()).add(name.split(".")[2])
    for own, imported in graph.items():
        imported.discard(own)
    assert len(tuple(TopologicalSorter(graph).static_order())) > 20
