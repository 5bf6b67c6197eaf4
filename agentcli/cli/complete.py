"""Shell completion. Shells pass the words typed so far; flags come from the table without typer.

Candidates come from tables and from the user's files; names that a shell would have to quote are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentcli.cli import COMMANDS
from agentcli.cli.flags import BY_NAME, FLAGS, OF_COMMANDS, SHELLS, Flag
from agentcli.cli.output import write_bytes
from agentcli.core.frozen import frozen
from agentcli.core.text.plaintext import plain_line, spell_hidden

WANTS_FILES = 3
"""The exit code for file name completion by the shell."""

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@/+-]*")
_MAX_SESSIONS = 50


@frozen
class ShellCompletion:
    value: str
    text: str = ""


class FileNamesWanted(Exception):
    """Raised for file name completion by the shell."""


def answer(shell: str, words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Print the candidates in the shell's format. `words` ends with the word being typed, which may be empty."""
    joined, is_split = _join_split_words(words) if shell == "bash" else (list(words), False)
    try:
        found = list(offers(joined, environ, Path.cwd()))
    except FileNamesWanted:
        return WANTS_FILES
    if is_split:
        found = [ShellCompletion(offer.value.partition("=")[2], offer.text) for offer in found]
    text = "".join(f"{_line(shell, offer)}\n" for offer in found)
    write_bytes(spell_hidden(text).encode("utf-8", "replace"))
    return 0


def offers(words: Sequence[str], environ: Mapping[str, str], cwd: Path) -> Iterator[ShellCompletion]:
    """The candidates. Raises `FileNamesWanted`."""
    *before, current = words or [""]
    source = FlagValues(environ, cwd)
    if before and before[0] in COMMANDS:
        yield from _of_command(before, current, source)
        return
    if "--" in before:
        raise FileNamesWanted
    flag = BY_NAME.get(before[-1]) if before else None
    if flag is not None and flag.kind not in ("switch", "equals"):
        yield from matching(source.of_flag(flag), current)
        return
    name, equals, part = current.partition("=")
    if equals and (flag := BY_NAME.get(name)) is not None:
        for offer in matching(source.of_flag(flag), part):
            yield ShellCompletion(f"{name}={offer.value}", offer.text)
    elif current.startswith("-"):
        shown = (
            ShellCompletion(name, flag.help)
            for flag in FLAGS
            for name in flag.names
            if name.startswith("--") or current == "-"
        )
        yield from matching(shown, current)
    elif not before:
        yield from matching((ShellCompletion(name, text) for name, text in COMMANDS.items()), current)
    else:
        raise FileNamesWanted


def matching(found: Iterable[ShellCompletion], current: str) -> Iterator[ShellCompletion]:
    """Candidates that begin with `current`; in a comma-separated list, with its last item."""
    head, comma, last = current.rpartition(",")
    for offer in found:
        if offer.value.startswith(last):
            yield ShellCompletion(f"{head}{comma}{offer.value}", offer.text)


class FlagValues:
    """Values of flags. Looked up only for the requested flag."""

    def __init__(self, environ: Mapping[str, str], cwd: Path) -> None:
        self._environ = environ
        self._cwd = cwd

    def of_flag(self, flag: Flag) -> Iterator[ShellCompletion]:
        """Candidates for a flag's value. Raises `FileNamesWanted`."""
        if flag.choices:
            return (ShellCompletion(choice) for choice in flag.choices)
        match flag.key:
            case "resume":
                return self.sessions()
            case "model" | "fallback_model" | "advisor":
                return self.models()
            case "theme":
                return self.themes()
            case "tool" | "tools" | "allowed_tools" | "disallowed_tools":
                return self.tools()
        if flag.kind == "paths" or "FILE" in flag.metavar:
            raise FileNamesWanted
        return iter(())

    def sessions(self) -> Iterator[ShellCompletion]:
        from agentcli.config.paths import Paths
        from agentcli.session.find import list_sessions

        state = Paths.from_environ(self._environ).state_dir
        for session in list_sessions(state, self._cwd)[:_MAX_SESSIONS] if state else ():
            label = plain_line(session.label, 60)
            yield ShellCompletion(session.session_id, label)
            if _PLAIN.fullmatch(session.title):
                yield ShellCompletion(session.title, f"session {session.session_id[:8]}")

    def models(self) -> Iterator[ShellCompletion]:
        from agentcli.providers.catalog import ALIASES, Catalog

        yield from (ShellCompletion(alias, model) for alias, model in ALIASES.items())
        yield from (ShellCompletion(model) for model in Catalog().list_ids())

    def themes(self) -> Iterator[ShellCompletion]:
        from agentcli.config.paths import Paths
        from agentcli.config.themes import load_themes, theme_folders

        yield ShellCompletion("auto", "as light or dark as the terminal")
        for name, theme in load_themes(theme_folders(Paths.from_environ(self._environ).config_dir)).items():
            if _PLAIN.fullmatch(name):
                yield ShellCompletion(name, plain_line(theme.description, 60))

    def tools(self) -> Iterator[ShellCompletion]:
        from agentcli.assemble import Options, rights_for

        options = Options(cwd=self._cwd, environ=self._environ)
        yield from (ShellCompletion(tool.name) for tool in rights_for(options).registry)

    def servers(self) -> Iterator[ShellCompletion]:
        from agentcli.assemble import Options
        from agentcli.assemble.environment import Environment
        from agentcli.assemble.mcp import find_servers

        found = find_servers(Environment(Options(cwd=self._cwd, environ=self._environ)))
        yield from (ShellCompletion(config.name, config.origin) for config in found.configs)


def _of_command(before: Sequence[str], current: str, source: FlagValues) -> Iterator[ShellCompletion]:
    from agentcli.cli.app import command_tree, commands_in

    path = [word for word in before if not word.startswith("-")]
    command = _deepest(command_tree(), path)
    if current.startswith("-"):
        rows = [(name, param.help) for param in command.params for name in (*param.opts, *param.secondary_opts)]
        flags = [ShellCompletion(name, text or "") for name, text in rows if name.startswith("-")]
        yield from matching([*flags, ShellCompletion("--help", "Show the help of this command.")], current)
    elif (flag := OF_COMMANDS.get(before[-1])) is not None and flag.kind != "switch":
        yield from matching(source.of_flag(flag), current)
    elif path[0] == "help":
        yield from matching(_subcommands(_deepest(command_tree(), path[1:])), current)
    elif commands_in(command):
        yield from matching(_subcommands(command), current)
    elif path == ["completion"]:
        yield from matching(map(ShellCompletion, SHELLS), current)
    elif path[0] == "mcp" and path[1:] in (["get"], ["test"], ["remove"], ["login"], ["logout"]):
        yield from matching(source.servers(), current)
    elif path == ["trust"] or (path[:2] == ["mcp", "add"] and "--" in before):
        raise FileNamesWanted


def _deepest(command: Any, words: Sequence[str]) -> Any:
    """The sub-command that the first words name."""
    from agentcli.cli.app import commands_in

    for word in words:
        if word not in commands_in(command):
            break
        command = commands_in(command)[word]
    return command


def _subcommands(command: Any) -> Iterator[ShellCompletion]:
    from agentcli.cli.app import commands_in, summary

    for name, one in commands_in(command).items():
        yield ShellCompletion(name, summary(one))


def _join_split_words(words: Sequence[str]) -> tuple[list[str], bool]:
    """bash splits `--effort=low` at the `=`; also returns whether the last word is such a part."""
    joined = re.sub(r"(--[^\0]*)\0=(?:\0|$)", r"\1=", "\0".join(words)).split("\0")
    return joined, len(joined) < len(words) and joined[-1] != words[-1]


def _line(shell: str, offer: ShellCompletion) -> str:
    text = plain_line(offer.text, 100)
    match shell:
        case "zsh":
            value = offer.value.replace("\\", "\\\\").replace(":", "\\:")
            return f"{value}:{text}" if text else value
        case "fish":
            return f"{offer.value}\t{text}" if text else offer.value
        case _:
            return offer.value


def shell_script(shell: str) -> str:
    """The script that makes a shell ask for completions."""
    return Path(__file__).with_name("completion").joinpath(f"agentcli.{shell}").read_text(encoding="utf-8")
