"""Settings from all layers, each value with its source.

    managed > flags > environment variables > .agentcli/settings.local.json > .agentcli/settings.json > user > default

No file content raises an error: problems are returned as values and the rest is used. Only invalid input of
`--settings` raises `UsageError`. If a file that might deny something cannot be used, `rights_uncertain` is set, and
every tool needs approval. No file is written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, cast

from agentcli.config.files import (
    MAX_PROBLEMS,
    InvalidValue,
    SettingsDocument,
    SettingsProblem,
    parse_document,
    parse_text,
    parse_value,
    read_document,
    short,
)
from agentcli.config.paths import Paths, project_folder
from agentcli.config.schema import BY_NAME, ENVIRONMENT, HOLD_WITHOUT_TRUST, KEYS, SECTIONS, Key
from agentcli.config.trust import content_digest, trust_root
from agentcli.core.errors import UsageError
from agentcli.core.files.access import real_path
from agentcli.core.frozen import frozen
from agentcli.core.git.repository import foreign_repository
from agentcli.core.text.format import counted, plural

_MAX_ENTRIES = 1_000
_MAX_ENTRY_CHARS = 65_536
"""Maximum entries (`_MAX_ENTRIES`) and total characters of one list setting."""
SOURCES = ("user", "project", "local")
SettingScope = Literal["user", "local"]
"""Settings files that the program writes to."""


class Layer(StrEnum):
    """Source layers of settings, from the strongest to the weakest."""

    MANAGED = "managed"
    FLAGS = "flags"
    ENVIRONMENT = "environment"
    LOCAL = "local"
    PROJECT = "project"
    USER = "user"
    DEFAULT = "default"

    @property
    def in_repository(self) -> bool:
        return self in (Layer.LOCAL, Layer.PROJECT)


@frozen
class Source:
    """Where a value came from: a file, a flag, `environment variable X`, or `default`."""

    layer: Layer
    label: str


DEFAULT_SOURCE = Source(Layer.DEFAULT, "default")


@frozen
class LayerValue:
    key: Key
    value: Any
    source: Source


@frozen
class SettingRow:
    """One line of `agentcli config`."""

    key: str
    value: Any
    source: str
    doc: str
    layer: Layer = Layer.DEFAULT
    inactive: str = ""
    """Why an open session does not use the value; "" if it does."""


@frozen(kw_only=True)
class SettingsRequest:
    paths: Paths
    cwd: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    flag_text: str | None = None
    """`--settings`: a JSON object, or the name of a file with one."""
    flag_values: Mapping[str, tuple[str, Any]] = field(default_factory=dict)
    """Single flags by setting: `{"model": ("--model", "x")}`. Stronger than `flag_text`."""
    sources: tuple[str, ...] | None = None
    """Any of user, project, local; None for all. Managed settings always apply."""
    trusted: bool = False
    trusted_digests: Mapping[str, str] | None = None
    """Hashes of the folder's files when their trust was checked; other content is untrusted. None: do not compare, as
    with --trust."""
    documents: dict[Path, SettingsDocument] = field(default_factory=dict)
    """The last usable content of each file, updated by reading. A file that was usable before and is not any more keeps
    that content, so that an error while it is edited changes no rights."""


class Settings:
    """The combined settings; immutable. Typed getters raise `KeyError` for an unknown key or one of another type."""

    def __init__(
        self, given: Iterable[LayerValue], problems: Sequence[SettingsProblem] = (), rights_uncertain: bool = False
    ) -> None:
        """`given`: values in any order; of two values from one layer the first wins."""
        self.problems: tuple[SettingsProblem, ...] = tuple(problems)
        self.rights_uncertain = rights_uncertain
        strength = list(Layer)
        by_key: dict[str, list[LayerValue]] = {}
        for item in sorted(given, key=lambda item: strength.index(item.source.layer)):
            by_key.setdefault(item.key.name, []).append(item)
        self._given: Mapping[str, list[LayerValue]] = by_key
        self._values: Mapping[str, Any] = {name: _combine(items) for name, items in by_key.items()}

    def get(self, name: str) -> Any:
        """The active value, or the default."""
        key = BY_NAME[name]
        return self._values.get(key.name, key.default)

    def text(self, name: str) -> str | None:
        return cast("str | None", self._of(name, "text"))

    def integer(self, name: str) -> int | None:
        return cast("int | None", self._of(name, "integer"))

    def number(self, name: str) -> float | None:
        return cast("float | None", self._of(name, "number"))

    def boolean(self, name: str) -> bool:
        return bool(self._of(name, "boolean"))

    def texts(self, name: str) -> tuple[str, ...]:
        return cast("tuple[str, ...]", self._of(name, "texts"))

    def mapping(self, name: str) -> Mapping[str, Any]:
        return cast("Mapping[str, Any]", self._of(name, "object", "text map", "list map"))

    def _of(self, name: str, *kinds: str) -> Any:
        if BY_NAME[name].kind not in kinds:
            raise KeyError(f"{name} is of kind {BY_NAME[name].kind}")
        return self.get(name)

    def where(self, name: str) -> Source:
        """Source of the strongest layer that sets this key."""
        items = self._given.get(BY_NAME[name].name)
        return items[0].source if items else DEFAULT_SOURCE

    def each(self, name: str) -> list[tuple[Any, Source]]:
        """The values of all layers, strongest first, with their sources."""
        return [(item.value, item.source) for item in self._given.get(BY_NAME[name].name, ())]

    def changed_since(self, before: Settings) -> list[str]:
        """Names of the settings with another value than before."""
        return [key.name for key in KEYS if self.get(key.name) != before.get(key.name)]

    def describe(self) -> list[SettingRow]:
        rows = []
        for key in KEYS:
            value = self.get(key.name)
            items = self._given.get(key.name, [])
            used = items if key.merge else items[:1]
            source = ", ".join(dict.fromkeys(item.source.label for item in used)) or DEFAULT_SOURCE.label
            # Values of variables and the entries of servers often contain secrets.
            is_secret = key.kind == "text map" or key.name == "mcpServers"
            layer = items[0].source.layer if items else Layer.DEFAULT
            shown = dict.fromkeys(value, "…") if is_secret else value
            rows.append(SettingRow(key.name, shown, source, key.doc, layer))
        return rows


def load_settings(request: SettingsRequest) -> Settings:
    """Read and combine all layers. Raises `UsageError` for `--settings` and single flags, nothing else."""
    reading = _Reading(request.trusted, request.trusted_digests, request.documents)
    reading.take_file(Layer.MANAGED, request.paths.managed_settings)
    reading.take_flags(request)
    reading.take_environment(request.environ)
    wanted = SOURCES if request.sources is None else request.sources
    folder = project_folder(request.cwd)
    if "local" in wanted:
        reading.take_file(Layer.LOCAL, folder / "settings.local.json")
    if "project" in wanted:
        reading.take_file(Layer.PROJECT, folder / "settings.json")
    if "user" in wanted and request.paths.user_settings is not None:
        reading.take_file(Layer.USER, request.paths.user_settings)
    reading.drop_what_a_repository_may_not_raise()
    reading.drop_what_lies_outside_of_a_repository(request.cwd)
    if (foreign := foreign_repository(real_path(request.cwd))) is not None:
        text = (
            f"{foreign} is a repository of another user, or anyone may write to it. Its settings and instructions are "
            f"ignored, and this folder counts as a project of its own. To use them, start agentcli in {foreign}."
        )
        reading.problems.append(SettingsProblem(text, foreign))
    return Settings(reading.given, reading.problems, rights_uncertain=reading.rights_uncertain)


class _Reading:
    """Collects the values of all layers."""

    def __init__(
        self, trusted: bool, digests: Mapping[str, str] | None, documents: dict[Path, SettingsDocument]
    ) -> None:
        self.given: list[LayerValue] = []
        self.problems: list[SettingsProblem] = []
        self.rights_uncertain = False
        self._trusted = trusted
        self._digests = digests
        self._documents = documents

    # ----------------------------------------------------------------------------------------------------- layers

    def take_file(self, layer: Layer, path: Path) -> None:
        document = read_document(path)
        if document is None:
            self._documents.pop(path, None)
            return
        if document.values is None and (last := self._documents.get(path)) is not None:
            kept = " Its last valid content stays active until it is fixed."
            self.problems += [replace(problem, text=problem.text + kept) for problem in document.problems]
            document = replace(last, problems=())
        if document.values is None:
            ignored = (
                " The file is ignored until it is fixed, and every tool needs approval, because the file may deny some."
            )
            self.problems += [replace(problem, text=problem.text + ignored) for problem in document.problems]
            self.rights_uncertain = True
            return
        self._documents[path] = document
        self.problems += document.problems
        if document.doubled & {"permissions", "deny", "ask"}:
            self.rights_uncertain = True
        expected = None if self._digests is None else self._digests.get(os.path.normpath(path), "")
        as_trusted = expected is None or expected == content_digest(document.raw)
        self._take_values(document.values, Source(layer, str(path)), as_trusted=as_trusted)

    def take_flags(self, request: SettingsRequest) -> None:
        before = len(self.problems)
        for name, (flag, value) in request.flag_values.items():
            self._take(BY_NAME[name], value, Source(Layer.FLAGS, flag))
        if request.flag_text is not None:
            document, label = _flag_document(request.flag_text, request.cwd)
            self.problems += document.problems
            if document.values is not None:
                self._take_values(document.values, Source(Layer.FLAGS, label))
        wrong = [problem for problem in self.problems[before:] if problem.level == "warning"]
        if wrong:
            raise UsageError(wrong[0].text)

    def take_environment(self, environ: Mapping[str, str]) -> None:
        taken: set[str] = set()
        for name, setting in ENVIRONMENT.items():
            if setting in taken or not environ.get(name):
                continue
            taken.add(setting)
            key = BY_NAME[setting]
            source = Source(Layer.ENVIRONMENT, f"environment variable {name}")
            try:
                self.given.append(LayerValue(key, parse_text(key, environ[name]), source))
            except InvalidValue as unfit:
                self.problems.append(SettingsProblem(f"The {source.label} must be {unfit}; it is ignored."))

    # ----------------------------------------------------------------------------------------------------- values

    def _take_values(self, values: Mapping[str, Any], source: Source, *, as_trusted: bool = True) -> None:
        untrusted = source.layer.in_repository and not (self._trusted and as_trusted)
        flat = self._flatten(values, source, quiet=untrusted)
        if untrusted:
            ignored = [name for name in flat if name not in HOLD_WITHOUT_TRUST]
            flat = {name: value for name, value in flat.items() if name in HOLD_WITHOUT_TRUST}
            if ignored:
                self._say(
                    source,
                    "this folder is not trusted, so only the deny and ask rules of its settings apply. "
                    "/trust or `agentcli trust` reviews them; --trust uses them once.",
                    note=True,
                )
        unknown = [name for name in flat if name not in BY_NAME]
        for name in unknown[:MAX_PROBLEMS]:
            self._say(source, f"unknown setting {short(name)}{_did_you_mean(name)}. It is ignored.")
        if (rest := len(unknown) - MAX_PROBLEMS) > 0:
            are, they = plural(rest, "is", "are"), plural(rest, "It is", "They are")
            self._say(source, f"{counted(rest, 'more setting')} {are} unknown. {they} ignored.")
        for name, value in flat.items():
            key = BY_NAME.get(name)
            if key is None:
                continue
            if source.layer.in_repository and key.repository == "no":
                self._say(source, f"{name!r} cannot be set by project settings. Put it into your user settings.")
            else:
                self._take(key, value, source)

    def _flatten(self, values: Mapping[str, Any], source: Source, *, quiet: bool) -> dict[str, Any]:
        """Flatten sections to dotted names, in file order."""
        flat: dict[str, Any] = {}
        for name, value in values.items():
            if name not in SECTIONS:
                if name != "$schema" and not (quiet and name not in BY_NAME):
                    # A dotted name must not reach into a section.
                    flat[name if "." not in name else repr(name)] = value
            elif isinstance(value, Mapping):
                flat.update({f"{name}.{inner}": item for inner, item in value.items()})
            else:
                self.rights_uncertain = True
                self._say(source, f"{name!r} must be an object. It is ignored, and every tool needs approval.")
        return flat

    def _take(self, key: Key, value: Any, source: Source) -> None:
        if value is None:
            return
        value = self._cut_list(key, value, source)
        try:
            self.given.append(LayerValue(key, parse_value(key, value), source))
        except InvalidValue as unfit:
            text = f"{key.name!r} must be {unfit}. It is ignored"
            if key.name not in HOLD_WITHOUT_TRUST:
                self._say(source, f"{text}.")
                return
            self.rights_uncertain = True
            if isinstance(value, list) and (usable := tuple(item for item in value if isinstance(item, str))):
                self.given.append(LayerValue(key, usable, source))
                text = f"{key.name!r} must be {unfit}. Only its strings are used"
            self._say(source, f"{text}, and every tool needs approval.")

    def _cut_list(self, key: Key, value: Any, source: Source) -> Any:
        """Cut an overlong list, because every rule is matched at each tool call."""
        if key.kind != "texts" or not isinstance(value, list):
            return value
        kept, size = 0, 0
        for item in value[:_MAX_ENTRIES]:
            size += len(item) if isinstance(item, str) else 1
            if size > _MAX_ENTRY_CHARS:
                break
            kept += 1
        if kept == len(value):
            return value
        consequence = ""
        if key.name in HOLD_WITHOUT_TRUST:
            self.rights_uncertain = True
            consequence = ", and every tool needs approval"
        self._say(source, f"only the first {kept:,} of {len(value):,} entries of {key.name!r} are used{consequence}.")
        return value[:kept]

    def drop_what_a_repository_may_not_raise(self) -> None:
        """Drop repository values that raise rights. Runs last, because it compares with weaker layers."""
        for key in KEYS:
            if key.repository != "stricter":
                continue
            of_user = (item.value for item in self.given if item.key is key and item.source.layer is Layer.USER)
            base = next(of_user, key.default)
            if base is None:
                continue
            for item in [item for item in self.given if item.key is key and item.source.layer.in_repository]:
                if key.strictness(item.value) > key.strictness(base):
                    self.given.remove(item)
                    self._say(
                        item.source,
                        f"{key.name!r} is {item.value!r} there, but a project can only lower it. It stays {base!r}.",
                    )

    def drop_what_lies_outside_of_a_repository(self, cwd: Path) -> None:
        """Drop repository paths outside the repository, after resolving links."""
        root = trust_root(cwd)
        for number, item in enumerate(self.given):
            if item.key.repository != "inside" or not item.source.layer.in_repository:
                continue
            outside = [text for text in item.value if not _leads_into(cwd / text, root)]
            if outside:
                self.given[number] = replace(item, value=tuple(text for text in item.value if text not in outside))
                self._say(
                    item.source,
                    f"of {item.key.name!r} {', '.join(map(repr, outside))} is ignored, because project settings "
                    f"can only name paths in {root}. Put it into your user settings, or use --add-dir.",
                )

    def _say(self, source: Source, text: str, *, note: bool = False) -> None:
        path = source.label if source.layer is not Layer.FLAGS else ""
        self.problems.append(SettingsProblem(f"{source.label}: {text}", path, level="note" if note else "warning"))


def _leads_into(path: Path, root: Path) -> bool:
    try:
        return Path(os.path.realpath(path)).is_relative_to(root)
    except ValueError:  # a null character
        return False


def _flag_document(text: str, cwd: Path) -> tuple[SettingsDocument, str]:
    if text.lstrip().startswith("{"):
        return parse_document(text.encode("utf-8", "surrogatepass"), "--settings"), "--settings"
    path = cwd / text
    document = read_document(path)
    if document is None:
        raise UsageError(f"--settings: there is no file {path}. Give a file, or a JSON object.")
    return document, f"--settings {path}"


def _combine(items: Sequence[LayerValue]) -> Any:
    """Combine the values of a key, strongest first."""
    key = items[0].key
    if not key.merge:
        return items[0].value
    if key.kind == "texts":
        return tuple(dict.fromkeys(text for item in items for text in item.value))
    merged: dict[str, Any] = {}
    if key.kind == "list map":
        for item in items:
            for name, entries in item.value.items():
                merged[name] = [*merged.get(name, ()), *entries]
        return merged
    for item in reversed(items):
        merged = _lay_over(merged, item.value)
    return merged


def _lay_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for name, value in above.items():
        old = result.get(name)
        result[name] = _lay_over(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result


def _did_you_mean(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, list(BY_NAME), n=1) if len(name) < 80 else ()
    return f"; did you mean {near[0]!r}?" if near else ""
