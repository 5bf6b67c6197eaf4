"""What `agentcli sessions export` and `/export` share: formats, the content of the file, and how it is written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentcli.config.paths import Paths
from agentcli.config.themes import ThemeError, theme_folders
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import json_for_terminal, plain_line, show_name
from agentcli.history.export.page_theme import PageThemes, choose_themes
from agentcli.history.export.redaction import Redactor, redact_document
from agentcli.session.load import unreadable_lines

SUFFIXES = {"md": ".md", "json": ".json", "html": ".html", "bundle": ".zip"}
CHECK_IT = "Check the file before you share it: not every secret can be recognised."
_BY_SUFFIX = {**{suffix: name for name, suffix in SUFFIXES.items()}, ".markdown": "md", ".htm": "html"}
_KEPT = "Nothing was replaced."


@frozen
class ExportContext:
    environ: Mapping[str, str]
    settings: Sequence[str]
    """Names of the settings that differ from the defaults."""
    themes: PageThemes
    keeps_secrets: bool = False

    def redactor(self, shown_home: str) -> Redactor | None:
        return None if self.keeps_secrets else Redactor(self.environ, self.environ.get("HOME", ""), shown_home)


def read_context(
    cwd: Path, environ: Mapping[str, str], theme: str | None = None, *, keeps_secrets: bool = False
) -> ExportContext:
    """`theme`: instead of that of the settings. Blocking. Raises `UsageError` if there is no such theme."""
    from agentcli.assemble import Options, settings_for

    settings = settings_for(Options(cwd=cwd, environ=environ))
    folders = theme_folders(Paths.from_environ(environ).config_dir)
    try:
        themes = choose_themes(theme or settings.get("theme") or "auto", folders)
    except ThemeError as error:
        if theme:
            raise UsageError(f"{error}.") from None
        themes = choose_themes("auto", folders)  # The app reports the problem.
    changed = [row.key for row in settings.describe() if row.source != "default"]
    return ExportContext(environ, changed, themes, keeps_secrets)


def choose_format(name: str, wanted: str | None = None) -> str:
    """The format, by its name or by the ending of the file. Raises `UsageError`."""
    if wanted is not None and wanted not in SUFFIXES:
        raise UsageError(f"{plain_line(wanted, 40)} is not a format: use md, json, html or bundle.")
    return wanted or _BY_SUFFIX.get(Path(name).suffix.lower(), "md")


def default_name(session_id: str, format: str, number: int = 1) -> str:
    return f"conversation-{session_id[:8]}{f'-{number}' if number > 1 else ''}{SUFFIXES[format]}"


def export_document(document: Json, format: str, context: ExportContext) -> tuple[bytes, str]:
    """The file, and a sentence about what was replaced. Blocking."""
    redactor = context.redactor("~")
    if redactor is not None:
        document = redact_document(document, redactor)
    redactions = redactor.report() if redactor is not None else []
    summary = redactor.summary() if redactor is not None else _KEPT
    if skipped := document["session"]["skipped_lines"]:
        summary = f"{summary} {unreadable_lines(skipped)}"
    if format == "json":
        text = json_for_terminal(json.dumps({**document, "redactions": redactions}, indent=1, ensure_ascii=False))
    elif format == "html":
        from agentcli.history.export.page import to_html

        text = to_html(document, context.themes, summary)
    else:
        from agentcli.history.export.markdown import to_markdown

        text = to_markdown(document, summary if redactions or skipped else "")
    return text.encode("utf-8", "replace"), summary


def export_bundle(path: Path, context: ExportContext) -> tuple[bytes, str]:
    """The file, and a sentence about what was replaced. Blocking. Raises `AgentError`."""
    from agentcli.history.export.bundle import make_bundle

    # A path: the folder of the session must stay absolute.
    redactor = context.redactor("/home/user")
    try:
        data = make_bundle(path, redactor, context.settings)
    except OSError as error:
        raise AgentError(f"The session file cannot be read: {error.strerror or error}.") from error
    return data, redactor.summary() if redactor is not None else _KEPT


def write_new(path: Path, data: bytes, *, replaces: bool = False) -> None:
    """Write a file completely or not at all, readable as the umask says. Follows no link as the last part of the path.
    `replaces`: an existing file may be replaced. Raises `FileExistsError`, and `AgentError` for other problems."""
    from agentcli.config.files import replace_in_place
    from agentcli.tools.files.replace import ChangedMeanwhile, replace_file

    try:
        target = Path(os.path.realpath(path.parent)) / path.name
        if not replaces or not os.path.lexists(target):
            replace_file(str(target), data, f".{target.name[:100]}.{os.urandom(6).hex()}", None)
        elif target.is_symlink() or target.is_file():
            replace_in_place(target, data, 0o600 if target.is_symlink() else target.stat().st_mode & 0o777)
        else:
            raise AgentError(f"{show_name(str(path))} is no file, so it was not replaced.")
    except ChangedMeanwhile:
        raise FileExistsError(path) from None
    except OSError as error:
        raise AgentError(f"{show_name(str(path))} was not written: {error.strerror or error}.") from error
