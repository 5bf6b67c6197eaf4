"""What `agentcli sessions export` and `/export` share: formats, the content of the file, and how it is written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.config.paths import Paths
from agentcli.config.themes import ThemeError, theme_folders
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import json_for_terminal, plain_line
from agentcli.history.export.redaction import Redactor, redact_document

if TYPE_CHECKING:
    from agentcli.history.export.page_theme import PageThemes

SUFFIXES = {"md": ".md", "json": ".json", "html": ".html", "bundle": ".zip"}
FORMATS = tuple(SUFFIXES)
CHECK_IT = "Check the file before you share it: not every secret can be recognised."
_BY_SUFFIX = {**{suffix: name for name, suffix in SUFFIXES.items()}, ".markdown": "md", ".htm": "html"}
_KEPT = "Secrets were not replaced."


@frozen
class ExportContext:
    environ: Mapping[str, str]
    settings: Sequence[str]
    """Names of the settings that differ from the defaults."""
    theme: str
    """The theme of the settings."""
    wanted_theme: str | None = None
    """The theme that the user asked for."""
    keeps_secrets: bool = False

    def redactor(self, shown_home: str = "~") -> Redactor:
        return Redactor({} if self.keeps_secrets else self.environ, self.environ.get("HOME", ""), shown_home)

    def themes(self) -> PageThemes:
        from agentcli.history.export.page_theme import choose_themes

        folders = theme_folders(Paths.from_environ(self.environ).config_dir)
        try:
            return choose_themes(self.theme if self.wanted_theme is None else self.wanted_theme, folders)
        except ThemeError as error:
            if self.wanted_theme is not None:
                raise UsageError(f"{error}.") from None
            return choose_themes("auto", folders)  # The app reports the problem.


@frozen
class Exported:
    data: bytes
    redactions: str
    """A sentence about what was replaced."""


def choose_format(name: str, wanted: str | None) -> str:
    """The format, by its name or by the ending of the file. Raises `UsageError`."""
    if wanted is not None and wanted not in FORMATS:
        raise UsageError(f"{plain_line(wanted, 40)} is not a format: use {', '.join(FORMATS[:-1])} or {FORMATS[-1]}.")
    return wanted or _BY_SUFFIX.get(Path(name).suffix.lower(), "md")


def default_name(session_id: str, format: str, number: int = 1) -> str:
    return f"conversation-{session_id[:8]}{f'-{number}' if number > 1 else ''}{SUFFIXES[format]}"


def export_document(document: Json, format: str, context: ExportContext) -> Exported:
    """Blocking. Raises `UsageError` for an unknown theme."""
    redactor = context.redactor()
    if not context.keeps_secrets:
        redactor.search(document)
    document = redact_document(document, redactor)
    summary = _KEPT if context.keeps_secrets else redactor.summary()
    if format == "json":
        report = {**document, "redactions": redactor.report()}
        text = json_for_terminal(json.dumps(report, indent=1, ensure_ascii=False))
    elif format == "html":
        from agentcli.history.export.page import to_html

        text = to_html(document, context.themes(), summary)
    else:
        from agentcli.history.export.markdown import to_markdown

        text = to_markdown(document, summary if redactor.report() else "")
    return Exported(text.encode("utf-8", "replace"), summary)


def export_bundle(path: Path, context: ExportContext) -> Exported:
    """Blocking. Raises `AgentError`."""
    from agentcli.history.export.bundle import make_bundle

    # A path: the folder of the session must stay absolute.
    redactor = context.redactor(shown_home="/home/user")
    try:
        data = make_bundle(path, redactor, context.settings, keeps_secrets=context.keeps_secrets)
    except OSError as error:
        raise AgentError(f"The session file cannot be read: {error.strerror or error}.") from error
    return Exported(data, _KEPT if context.keeps_secrets else redactor.summary())


def write_new(path: Path, data: bytes, *, replaces: bool = False) -> None:
    """Write a file completely or not at all, readable as the umask says. Follows no link as the last part of the path.
    `replaces`: an existing file may be replaced. Raises `FileExistsError` and other `OSError`."""
    from agentcli.config.files import replace_in_place
    from agentcli.tools.files.replace import ChangedMeanwhile, replace_file

    target = Path(os.path.realpath(path.parent)) / path.name
    if replaces and os.path.lexists(target):
        replace_in_place(target, data, target.lstat().st_mode & 0o777 if not target.is_symlink() else 0o600)
        return
    try:
        replace_file(str(target), data, f".{target.name[:100]}.{os.urandom(6).hex()}", None)
    except ChangedMeanwhile:
        raise FileExistsError(path) from None
