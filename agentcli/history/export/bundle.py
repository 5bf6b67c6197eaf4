"""A session as a bundle for a bug report: a zip of the redacted session file, and a description of the installation.

    session.jsonl   the session file, in which only secrets and the home folder are replaced: it can be read and
                    replayed like the original
    about.json      format, version, program, python, platform, session, settings (names of those that differ from the
                    defaults, without values), redactions with their lines in session.jsonl

Nothing else is in it: no snapshots, no files of the project, no settings.
"""

from __future__ import annotations

import io
import json
import platform
import zipfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from agentcli import __version__
from agentcli.core.files.access import open_regular
from agentcli.core.messages import Json
from agentcli.history.export.redaction import Redactor
from agentcli.history.sent_requests import MessageDigests
from agentcli.session.base import encode_line
from agentcli.session.load import read_records

FORMAT, VERSION = "agentcli bundle", 1


def make_bundle(path: Path, redactor: Redactor | None, settings: Sequence[str]) -> bytes:
    """`redactor`: None keeps the session file as it is. Blocking. Raises `OSError`."""
    if redactor is None:
        with open_regular(path) as file:
            content = file.read()
    else:
        content = b"".join(_replace_lines(path, redactor))
    about: Json = {
        "format": FORMAT,
        "version": VERSION,
        "program": f"agentcli {__version__}",
        "python": platform.python_version(),
        "platform": platform.platform(),
        "session": path.stem,
        "settings": list(settings),
        "secrets_kept": redactor is None,
        "redactions": redactor.report() if redactor is not None else [],
    }
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in (("session.jsonl", content), ("about.json", json.dumps(about, indent=2).encode())):
            # Without the time of day, so that the same session makes the same file.
            archive.writestr(zipfile.ZipInfo(name), part, zipfile.ZIP_DEFLATED)
    return data.getvalue()


def _replace_lines(path: Path, redactor: Redactor) -> Iterator[bytes]:
    """The lines without secrets. A replay makes each request from them, and compares its digest with the recorded one:
    a digest that fits the original messages is replaced by that of the new ones."""
    searched = 0
    for record in read_records(path):
        redactor.search(record)
        searched += 1
    before, after = MessageDigests(path), MessageDigests(path)
    # Not the lines that another process has added meanwhile.
    for number, record in enumerate(islice(read_records(path), searched), 1):
        redacted = redactor.replace(record, f"line {number}")
        front, _dash, messages = str(_request_in(record).get("request", "")).partition("-")
        if messages and messages == before.digest():
            _request_in(redacted)["request"] = f"{front}-{after.digest()}"
        before.take(record)
        after.take(redacted)
        yield encode_line(redacted)


def _request_in(record: Json) -> Json:
    """The part of a record that has the digest of a request, if it has one."""
    event = record.get("event")
    return event if isinstance(event, dict) else record
