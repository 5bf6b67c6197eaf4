"""`agentcli plugins`: list Python plugins, and write an example of one."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated

import typer

from agentcli.cli.output import echo, echo_json
from agentcli.cli.permissions import AsJson, Trust
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.text.plaintext import show_name

_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_PLUGIN = '''"""NAME: a plugin for agentcli. It is loaded again when you save it."""

from collections.abc import Iterator

from agentcli import Engine, Plugin

plugin = Plugin()


@plugin.tool(safe=True)
def NAME_word_count(text: str) -> int:
    "Count the words of a text."
    return len(text.split())


@plugin.command("NAME", "Count the messages of this conversation")
def count_messages(engine: Engine, arguments: str) -> Iterator[str]:
    yield f"{len(engine.messages)} messages"
'''
_TEST = '''"""Run with: python -m pytest test_NAME.py"""

from NAME import NAME_word_count


def test_words_are_counted():
    assert NAME_word_count("one two  three") == 3
'''


def list_plugins(
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Load all plugins of this folder and list what they add, their load time and their problems.

    agentcli plugins list  plugins, what they add, load time, problems
    """
    from agentcli.agent.plugins import combine
    from agentcli.assemble import Options
    from agentcli.assemble.environment import Environment
    from agentcli.assemble.plugins import plugins_for
    from agentcli.commands.extensions import plugin_lines, problem_texts
    from agentcli.tools.registry import BUILTIN_NAMES

    plugins = plugins_for(Environment(Options(trust=trust)))
    if plugins is None:
        raise AgentError("Plugins are off: the setting `plugins` is false, or a settings file could not be read.")
    found = plugins.collection
    found.refresh()
    conflicts = combine(found.plugins, BUILTIN_NAMES).conflicts
    if not as_json:
        for line in plugin_lines(found.plugins, conflicts):
            echo(line)
        return
    echo_json(
        [
            {
                "name": each.source.name,
                "scope": each.source.scope,
                "source": each.source.label,
                "loaded": each.plugin is not None,
                "adds": each.plugin.parts.summary() if each.plugin is not None else [],
                "milliseconds": round(each.milliseconds, 1),
                "problems": problem_texts(each, conflicts),
            }
            for each in found.plugins
        ]
    )


def new_plugin(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Small letters, digits and _.")],
    project: Annotated[bool, typer.Option("--project", help="In .agentcli/plugins of this repository.")] = False,
    user: Annotated[bool, typer.Option("--user", help="In your own plugin folder; the default.")] = False,
) -> None:
    """Write a working example plugin and its test, and print where they are.

    agentcli plugins new notes            write an example and its test to your plugin folder
    agentcli plugins new notes --project  the same in this repository
    """
    from agentcli.config.paths import PROJECT_FOLDER, Paths
    from agentcli.config.trust import TrustStore, content_digest, trust_root
    from agentcli.plugins.collection import FOLDER

    if project and user:
        raise UsageError("Use --project or --user, not both.")
    files = example_files(name)
    cwd = Path.cwd()
    config_dir = Paths.from_environ(os.environ).config_dir
    if not project and config_dir is None:
        raise AgentError("There is no folder for your plugins: no home folder is known. Use --project.")
    folder = trust_root(cwd) / PROJECT_FOLDER / FOLDER if project or config_dir is None else config_dir / FOLDER
    trusts = TrustStore.of(os.environ)
    was_trusted = project and trusts.state(cwd).trusted
    for file, text in files.items():
        before = trusts.state(cwd)
        _write(folder / file, text)
        if was_trusted:
            trusts.trust_own_change(before, folder / file, None, content_digest(text.encode()))
    echo("\n".join(f"Wrote {show_name(str(folder / file))}" for file in files))
    echo(f"Run its test: python -m pytest {show_name(str(folder / f'test_{name}.py'))}")
    if project and not was_trusted:
        echo("It is loaded when you trust this project: run `agentcli trust`.")
    else:
        echo(f"It is loaded in running sessions too. Try /{name}, and see `agentcli plugins list`.")


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{show_name(str(path))} is already there. Choose another name, or remove it.") from None
    except OSError as error:
        raise AgentError(f"Cannot write {show_name(str(path))}: {error.strerror}.") from error


def example_files(name: str) -> dict[str, str]:
    """File names and contents. Raises `UsageError` for a name that cannot be a module."""
    if not _NAME.fullmatch(name) or name.startswith("test_"):
        raise UsageError(f"Not a plugin name: {name!r}. Use small letters, digits and _, starting with a letter.")
    return {f"{name}.py": _PLUGIN.replace("NAME", name), f"test_{name}.py": _TEST.replace("NAME", name)}
