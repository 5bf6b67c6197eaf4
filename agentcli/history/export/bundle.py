"""A session as a bundle for a bug report: a zip of the redacted session file, and a description of the installation.

    session.jsonl   the session file, in which only secrets and the home folder are replaced: it can be read and
                    replayed like the original
    about.json      format, version, program, python, platform, session, settings (names of those that differ from the
                    defaults, without values), redactions

Nothing else is in it: no snapshots, no files of the project, no settings.
"""

from __future__ import annotations

import io
import json
import platform
import zipfile
from collections.abc import Sequence
from pathlib import Path

from agentcli import __version__
from agentcli.core.messages import Json
from agentcli.history.export.document import read_document
from agentcli.history.export.redaction import Redactor, redact_document
from agentcli.session.base import encode_line
from agentcli.session.load import read_records

SESSION_NAME, ABOUT_NAME = "session.jsonl", "about.json"
FORMAT, VERSION = "agentcli bundle", 1


def make_bundle(path: Path, redactor: Redactor, settings: Sequence[str], *, keeps_secrets: bool = False) -> bytes:
    """Blocking. Raises `AgentError` and `OSError`."""
    document = read_document(path, every_branch=True, thinking=True)
    if not keeps_secrets:
        redactor.search(document)
        for record in read_records(path):
            redactor.search(record)
    redact_document(document, redactor)  # It knows the places.
    lines = b"".join(encode_line(redactor.replace(record)) for record in read_records(path))
    about: Json = {
        "format": FORMAT,
        "version": VERSION,
        "program": f"agentcli {__version__}",
        "python": platform.python_version(),
        "platform": platform.platform(),
        "session": path.stem,
        "settings": list(settings),
        "secrets_kept": keeps_secrets,
        "redactions": redactor.report(),
    }
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in ((SESSION_NAME, lines), (ABOUT_NAME, json.dumps(about, indent=2).encode())):
            # Without the time of day, so that the same session makes the same file.
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return data.getvalue()
