"""Recognise secrets in names, values and URLs, to keep them from commands.

A heuristic that can be wrong in both directions: a second check after allow lists, never the only one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

_NAME = r"""(?xi)
    token | secret | passw | passphrase | credential | cookie | oauth | bearer | extraheader
    | auth(?!or(?:$|[^i]))
    | api[_.-]?key | (?:private|access|secret|encryption|signing|master|license|account|deploy|ssh|gpg)[_.-]key
    | (?:private|access|secret|encryption|master|account)key
    | (?:^|[_.:-]) (?:pass|pwd|pat|jwt|key|keys|dsn|cred|creds|pin|otp|salt|sid|session) (?:$|[_.-])
    | (?:smtp|db|pg|proxy|mysql|user)pass(?:$|[_.-])
    """
_HARMLESS = r"(?i)tokeni[sz]er|max[_a-z]*tokens|keymap|keyboard"

_VALUE = r"""(?x)
    (?<![A-Za-z0-9])(?:
        gh[pousr]_[A-Za-z0-9]{16,} | github_pat_\w{16,} | gl(?:pat|ptt|dt|rt|soat|cbt|agent|imt|ffct)-[\w-]{16,}
      | sk-[\w-]{16,} | (?:sk|rk|pk|whsec)_(?:live|test)_\w{10,} | whsec_\w{16,}
      | (?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{12,} | AIza[\w-]{30,} | ya29\.[\w-]{16,} | GOCSPX-[\w-]{16,}
      | xox[abeoprs]-[\w-]{10,} | xapp-[\w-]{10,} | npm_[A-Za-z0-9]{20,} | pypi-[\w-]{16,}
      | hf_[A-Za-z0-9]{16,} | dop_v1_\w{16,} | do[or]_v1_\w{16,} | shp(?:at|ca|pa|ss)_\w{16,} | sq0\w{3}-[\w-]{16,}
      | SG\.[\w-]{16,}\.[\w-]{16,} | key-[0-9a-f]{32} | hv[sbr]\.[\w-]{16,} | dapi[0-9a-f]{32} | pul-[0-9a-f]{32,}
      | lin_api_\w{16,} | figd_[\w-]{16,} | glsa_\w{16,} | glc_\w{16,} | sntry[su]_\w{16,} | ntn_\w{16,}
      | secret_[A-Za-z0-9]{20,} | tskey-[\w-]{10,} | fo1_[\w-]{16,} | FlyV1\s\S{16,} | rnd_\w{16,} | sbp_\w{16,}
      | dckr_pat_[\w-]{16,} | oy2[a-z0-9]{40,} | CFPAT-[\w-]{16,} | ATATT[\w-]{16,} | EAAC?[A-Za-z0-9]{30,}
      | PMAK-[\w-]{16,} | r8_\w{30,} | gsk_\w{20,} | xai-[\w-]{20,} | AGE-SECRET-KEY-\w+
      | eyJ[\w-]{8,}\.[\w-]{4,}\.? | \d{8,10}:AA[\w-]{30,}
    )
    | -----BEGIN[ ][A-Z0-9 ]*PRIVATE\ KEY
    | (?i:\b(?:basic|bearer|token)\s+[\w+/=.~-]{12,})
    """
_MARKS = """
    gh github_pat_ gl sk- _live_ _test_ whsec_ AKIA ASIA ABIA ACCA AROA AIDA AIza ya29. GOCSPX- xox xapp- npm_ pypi- hf_
    _v1_ shp sq0 SG. key- hvs. hvb. hvr. dapi pul- lin_api_ figd_ sntry ntn_ secret_ tskey- fo1_ FlyV1 rnd_ sbp_
    dckr_pat_ oy2 CFPAT- ATATT EAA PMAK- r8_ gsk_ xai- AGE- eyJ :AA PRIVATE asic earer oken ASIC EARER OKEN
    """
"""Every match of `_VALUE` contains one of these. Compiling it takes 2 ms, which most starts avoid."""
_KEY_END = r"-----END[ ][A-Z0-9 ]*PRIVATE\ KEY-----"
_KEY_LINES = r"(?:-----)?(?:\s*[^\n]{0,12}[A-Za-z0-9+/=]{40,})*"
"""What follows the beginning of a private key that was cut: lines with data, perhaps numbered."""
_MIN_KEY, _MAX_KEY = 40, 20_000
_WRAPPED = r"""(?:(?:\r?\n|\\n)[ \t]*(?=[\w.-]*\d)(?=[\w.-]*[A-Za-z])[\w.-]{8,}[ \t]*(?=[\r\n\\"']|\Z)){0,3}"""
_REST_OF_JWT = rf"[\w.-]*{_WRAPPED}"
"""What follows the beginning of a token: lines that have nothing else."""
_OPAQUE = {"base64": "data", "thinking": "signature", "redacted_thinking": "data"}
"""Fields with encoded data, by the type of the block."""
_KINDS = {
    "sk-ant-": "Anthropic API key",
    "sk-": "API key",
    "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_": "GitHub token",
    "gl": "GitLab token",
    "AKIA ASIA ABIA ACCA AROA AIDA": "AWS access key",
    "AIza ya29. GOCSPX-": "Google API key",
    "xox xapp-": "Slack token",
    "npm_": "npm token",
    "pypi-": "PyPI token",
    "hf_": "Hugging Face token",
    "eyJ": "JSON web token",
}
"""What tokens are called, by their beginnings."""
_URL_USER = r"(?i)\b([a-z][a-z0-9+.-]*://)([^/?#\s\"'<>\\]*)@"
_AUTHORITY = r"(?i)\b(?:https?|socks\w*|ftps?)://([^/?#\s\"'<>\\,;|]*)"
_HOST = r"(?:\[[0-9A-Fa-f:.%]+\]|[^\s:@\[\]]*)(?::\d*)?"
_ONE_RUN = r"[\w+/=.~-]{32,}"
_OPTION = r"""(?:^|\s)["']?(?:--?[DP]?)?([A-Za-z][\w.-]*)=["']?([^\s"']+)"""
_SENSITIVE_OPTION = r"(?i)(?:passw(?:or)?d|passphrase|secret|token|api[_.-]?key|(?:^|[_.-])(?:pass|pwd))$"
_HARMLESS_OPTION = r"(?i)true|false|yes|no|on|off|none|null|\d{1,6}"

_compiled = functools.cache(re.compile)


@functools.cache
def _marks() -> tuple[str, ...]:
    return tuple(_MARKS.split())


def is_secret_name(name: str) -> bool:
    """Whether a variable or setting of this name usually holds a secret."""
    return _compiled(_NAME).search(_compiled(_HARMLESS).sub("", name)) is not None


def holds_secret(value: str) -> bool:
    """Whether a value contains something in the format of a known token, key or authorisation header."""
    return any(mark in value for mark in _marks()) and _compiled(_VALUE).search(value) is not None


def without_secrets(text: str) -> str:
    """The text without tokens, keys and authorisation headers of known formats, and without passwords in URLs."""
    return _compiled(_URL_USER).sub(r"\1…@", _compiled(_VALUE).sub("…", text))


def token_matches(text: str) -> Iterator[tuple[str, str, str]]:
    """Everything in the format of a known token or key, a private key with its body: its kind, the text as written, and
    the value, which differs where a terminal wrapped it."""
    if not any(mark in text for mark in _marks()):
        return
    for found in _compiled(_VALUE).finditer(text):
        value = found[0]
        if value.startswith("-----BEGIN"):
            near = text.find("-----END ", found.end(), found.end() + _MAX_KEY)
            end = _compiled(_KEY_END).match(text, near) if near > 0 else None
            end = end or _compiled(_KEY_LINES).match(text, found.end())
            if end is not None and end.end() > found.end() + _MIN_KEY:
                key = text[found.start() : end.end()]
                yield "private key", key, key
            continue
        is_header = len(value.split()) == 2 and value[:4] != "Fly"
        value = value.split()[-1] if is_header else value
        # Prose has such words too: "basic understanding".
        if not is_header or (any(map(str.isdigit, value)) and any(map(str.isalpha, value))):
            rest = _compiled(_REST_OF_JWT if value.startswith("eyJ") else _WRAPPED).match(text, found.end())
            written = value + (rest[0] if rest is not None else "")
            kinds = (kind for begin, kind in _KINDS.items() if value.startswith(tuple(begin.split())))
            kind = next(kinds, "authorization credential" if is_header else "access token")
            yield kind, written, _compiled(r"\s+|\\n").sub("", written)


def map_texts(value: Any, change: Callable[[str, str], str], name: str = "") -> Any:
    """A JSON value with `change(text, name)` for each text; `name`: of the field that has it. The names are changed
    too. Encoded data in a block stays: any pattern may match some of it by chance."""
    if isinstance(value, str):
        return change(value, name)
    if isinstance(value, dict):
        opaque = _OPAQUE.get(str(value.get("type")), "")
        return {change(key, ""): each if key == opaque else map_texts(each, change, key) for key, each in value.items()}
    return [map_texts(each, change, name) for each in value] if isinstance(value, list | tuple) else value


def redact_values(value: Any) -> Any:
    """A JSON value without secrets in its texts, as far as `without_secrets` finds them."""
    return map_texts(value, lambda text, _name: without_secrets(text) if "://" in text or holds_secret(text) else text)


def assigns_secret(value: str) -> bool:
    """Whether one of several options in a value sets a secret, such as `-Djavax.net.ssl.keyStorePassword=…`."""
    if "=" not in value:
        return False
    secret, harmless = _compiled(_SENSITIVE_OPTION), _compiled(_HARMLESS_OPTION)
    return any(
        secret.search(name) and not harmless.fullmatch(given) for name, given in _compiled(_OPTION).findall(value)
    )


def is_random(value: str) -> bool:
    """Whether a value is one long run of mixed characters, like a generated key; hashes in lower-case hex are not."""
    if len(value) < 32 or value.startswith(("/", "./", "~")) or value.count("/") > 3:
        return False
    if not _compiled(_ONE_RUN).fullmatch(value):
        return False
    kinds = (str.isdigit, str.islower, str.isupper)
    return all(any(map(kind, value)) for kind in kinds) and len(set(value)) >= 14


def without_url_credentials(text: str) -> str | None:
    """The text without `user:password@` in its URLs; None if a URL is ambiguous.

    A user name alone is kept for SSH hosts, where it is part of the address, and removed elsewhere: it is often a
    token.
    """

    def strip(found: re.Match[str]) -> str:
        scheme, user = found[1], found[2]
        keeps = scheme.lower() in ("ssh://", "git+ssh://", "sftp://") and ":" not in user and not holds_secret(user)
        return found[0] if keeps else scheme

    if "://" not in text:
        return text
    text = _compiled(_URL_USER).sub(strip, text)
    # An unescaped slash in a password ends the authority early: the rest then has no numeric port.
    if any(not _compiled(_HOST).fullmatch(found[1]) for found in _compiled(_AUTHORITY).finditer(text)):
        return None
    return text


def proxy_without_credentials(value: str) -> str:
    """A proxy's address without user and password, even if they contain unescaped characters."""
    scheme, separator, rest = value.rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"
