"""Remove secrets from configuration files for commands in the sandbox. Text in, text out.

`~/.npmrc` contains the registry and its token: without the file a build uses the wrong server, with it the token is
readable. Whole entries are dropped, so that a program sees no credentials instead of incomplete ones. A file that
cannot be parsed is shown as empty.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agentcli.core.text.patterns import lazy_pattern
from agentcli.core.text.secret_text import holds_secret, is_random, is_secret_name, without_url_credentials

_MAX_BYTES = 262_144
_KEY = lazy_pattern(
    r"""(?:-\s+)?["']?(?P<key>[^\s=\[\]{}"'#;][^=\[\]{}"'\s]*)["']?(?:\s*[=:]\s*(?P<value>.*)|\s+(?P<quoted>["'].*["']))"""
)
_HARMLESS_VALUE = lazy_pattern(
    r"""["']?(?:true|false|yes|no|on|off|always|never|null|none|\d{1,6})["']?,?""", re.IGNORECASE
)
_XML_COMMENT = lazy_pattern(r"<!--.*?-->", re.DOTALL)
_XML_SECRET = lazy_pattern(
    r"<(servers|packageSourceCredentials|apikeys|config|password|passphrase|privateKey)\b[^>]*(?<!/)>.*?</\1\s*>",
    re.DOTALL | re.IGNORECASE,
)
_XML_LEFT = lazy_pattern(r"(?i)<[^<>/]*(?:password|passphrase|apikey|credentials|secret|token)")
_PUNCTUATION = lazy_pattern(r"[\[\]{}(),\s-]*")
_SECTION = lazy_pattern(r"\s*\[")
_GIT_SECRETS = lazy_pattern(r"(?i)^(?:helper|extraheader|askpass|sslkey|cookiefile|smtppass|proxy)$")


def filter_lines(text: str) -> str | None:
    """Filter INI, properties, TOML, YAML and npmrc: one entry per line, continued on lines that are indented deeper."""
    kept: list[str] = []
    dropped_at: int | None = None
    continued = False
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if continued or (dropped_at is not None and line.strip() and indent > dropped_at):
            continued = continued and line.endswith("\\")
            continue
        dropped_at = None
        cleaned = _clean_line(line)
        if cleaned is None:
            dropped_at, continued = indent, line.endswith("\\")
        else:
            kept.append(cleaned)
    return "\n".join(kept) + "\n"


def _clean_line(line: str) -> str | None:
    stripped = line.strip()
    if stripped[:1] in ("#", ";"):
        # Old tokens are often left in comments.
        return None
    cleaned = without_url_credentials(line)
    if cleaned is None or holds_secret(cleaned):
        return None
    if _SECTION.match(line):
        return cleaned
    found = _KEY.match(stripped)
    if found is None:
        belongs = line[:1].isspace() or stripped.startswith("- ") or _PUNCTUATION.fullmatch(stripped)
        return cleaned if belongs and not is_random(stripped.strip("\"', -")) else None
    value = (found["value"] or found["quoted"] or "").strip()
    # `npmRegistries: {"//x": {npmAuthToken: y}}` has several keys in one line. An empty value may continue below.
    secret = is_secret_name(found["key"]) or ("{" in value and is_secret_name(value))
    if secret and not _HARMLESS_VALUE.fullmatch(value):
        return None
    return None if is_random(value.strip("\"', ")) else cleaned


def filter_git(text: str) -> str | None:
    """Filter git's configuration; also removes credential helpers, which cannot work in the sandbox."""
    kept = []
    for line in text.splitlines():
        key = line.strip().partition("=")[0].strip()
        if not _GIT_SECRETS.match(key):
            kept.append(line)
        elif line.endswith("\\"):
            return None
    return filter_lines("\n".join(kept))


def filter_json(text: str) -> str | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return json.dumps(_clean_value(value, 0), indent=1) + "\n"


def _clean_value(value: Any, depth: int) -> Any:
    if depth > 32:
        return None
    if isinstance(value, dict):
        return {
            name: _clean_value(inner, depth + 1)
            for name, inner in value.items()
            if not (_drops(name, inner) or (isinstance(inner, str) and _clean_text(inner) is None))
        }
    if isinstance(value, list):
        return [_clean_value(inner, depth + 1) for inner in value if not isinstance(inner, str) or _clean_text(inner)]
    return _clean_text(value) if isinstance(value, str) else value


def _drops(name: str, value: Any) -> bool:
    if isinstance(value, bool | int | float) or value is None:
        return False
    return is_secret_name(name) or name.lower() in ("credsstore", "credhelpers", "httpheaders")


def _clean_text(text: str) -> str | None:
    cleaned = without_url_credentials(text)
    return None if cleaned is None or holds_secret(cleaned) or is_random(cleaned) else cleaned


def filter_xml(text: str) -> str | None:
    """Filter XML of Maven and NuGet: remove the elements that hold accounts."""
    if "<!" in _XML_COMMENT.sub("", text) or not text.lstrip("\ufeff \t\r\n").startswith("<"):
        return None
    cleaned = without_url_credentials(_XML_SECRET.sub("", _XML_COMMENT.sub("", text)))
    if cleaned is None or holds_secret(cleaned) or _XML_LEFT.search(cleaned):
        return None
    return cleaned


def no_object(_text: str) -> str | None:
    return "{}\n"


Filter = Callable[[str], str | None]

_LINES = (
    *(".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".pip/pip.conf", ".config/pip/pip.conf", ".config/uv/uv.toml"),
    *(".condarc", ".bunfig.toml", ".config/nix/nix.conf", ".cargo/config.toml", ".cargo/config"),
    ".gradle/gradle.properties",
)
FILTERS: Mapping[str, Filter] = {
    **dict.fromkeys(_LINES, filter_lines),
    **dict.fromkeys((".gitconfig", ".config/git/config"), filter_git),
    **dict.fromkeys((".m2/settings.xml", ".nuget/NuGet/NuGet.Config", ".config/NuGet/NuGet.Config"), filter_xml),
    ".docker/config.json": filter_json,
    **dict.fromkeys((".composer/auth.json", ".config/composer/auth.json"), no_object),
}
"""Filters by path relative to the home folder. A file of `secrets.EMPTY` without a filter is shown as empty."""


class FilteredCopies:
    """Filtered copies of files in a separate folder, rewritten when an original changes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._copies: dict[Path, tuple[tuple[int, ...], Path | None]] = {}

    def copy_of(self, path: Path, clean: Filter) -> Path | None:
        """The file to show instead: a filtered copy, the file itself if it has no secrets, or None."""
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            found = os.fstat(descriptor)
            signature = (found.st_ino, found.st_dev, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            known = self._copies.get(path)
            if known is not None and known[0] == signature:
                return known[1]
            usable = stat.S_ISREG(found.st_mode) and found.st_size <= _MAX_BYTES
            shown = self._write(path, file.read(_MAX_BYTES), clean) if usable else None
        self._copies[path] = (signature, shown)
        return shown

    def _write(self, path: Path, content: bytes, clean: Filter) -> Path | None:
        with contextlib.suppress(OSError, UnicodeError):
            text = content.decode()
            cleaned = clean(text)
            if cleaned is None:
                return None
            if [*map(str.rstrip, cleaned.splitlines())] == [*map(str.rstrip, text.splitlines())]:
                return path
            self._folder.mkdir(mode=0o700, exist_ok=True)
            copy = self._folder / f"{len(self._copies)}-{path.name}"
            copy.unlink(missing_ok=True)
            with os.fdopen(
                os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o444), "w", encoding="utf-8"
            ) as file:
                file.write(cleaned)
            return copy
        return None
