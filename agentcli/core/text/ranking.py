"""Rank tools and skills by how well they match a query: BM25 over names, descriptions and parameters.

Pure and deterministic: equal scores are ordered by name.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agentcli.core.frozen import frozen
from agentcli.core.messages import Json

_SATURATION = 1.2
_LENGTH_WEIGHT = 0.75
_NAME_WEIGHT = 4
_PARAMETER_WEIGHT = 2
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_MAX_DEPTH = 4
"""Number of schema levels whose parameters are read."""


@frozen
class RankedDocument:
    name: str
    """Name by which the model calls it."""
    description: str = ""
    schema: Json | None = None


def words_of(text: str) -> list[str]:
    """Words in lower case, without plural endings; `createIssue` and `create_issue` give the same."""
    return [_stem(word.lower()) for word in _WORD.findall(text)]


def rank(query: str, documents: Sequence[RankedDocument]) -> list[str]:
    """Names of the matching documents, best first. One whose name equals the query comes first."""
    wanted = sorted(set(words_of(query)))
    counts = {document.name: _count_words(document) for document in documents}
    if not counts:
        return []
    lengths = {name: sum(found.values()) for name, found in counts.items()}
    average = sum(lengths.values()) / len(lengths) or 1.0
    frequency = Counter(word for found in counts.values() for word in found)
    scores: dict[str, float] = {}
    for name, found in counts.items():
        longer = _SATURATION * (1 - _LENGTH_WEIGHT + _LENGTH_WEIGHT * lengths[name] / average)
        score = sum(
            math.log(1 + (len(counts) - frequency[word] + 0.5) / (frequency[word] + 0.5))
            * (found[word] * (_SATURATION + 1) / (found[word] + longer))
            for word in wanted
            if word in found
        )
        if _names(query, name):
            score += 1_000.0
        if score > 0:
            scores[name] = score
    return sorted(scores, key=lambda name: (-scores[name], name))


def _names(query: str, name: str) -> bool:
    """Whether the query is the tool's name, with or without that of its server."""
    said = query.strip().lower()
    return said in (name.lower(), name.lower().rpartition("__")[2], name.lower().split("__", 2)[-1])


def _count_words(document: RankedDocument) -> Counter[str]:
    counts: Counter[str] = Counter()
    for word in words_of(document.name.removeprefix("mcp__")):
        counts[word] += _NAME_WEIGHT
    counts.update(words_of(document.description))
    for parameter, description in _parameters(document.schema or {}, _MAX_DEPTH):
        for word in words_of(parameter):
            counts[word] += _PARAMETER_WEIGHT
        counts.update(words_of(description))
    return counts


def _parameters(schema: Mapping[str, Any], depth: int) -> Iterator[tuple[str, str]]:
    """Names of parameters with their descriptions, including nested ones."""
    properties = schema.get("properties")
    if depth and isinstance(properties, dict):
        for name, inner in properties.items():
            described = inner if isinstance(inner, dict) else {}
            text = described.get("description")
            yield str(name), text if isinstance(text, str) else ""
            for nested in _list_nested(described):
                yield from _parameters(nested, depth - 1)


def _list_nested(schema: Json) -> Iterable[Json]:
    return (inner for inner in (schema, schema.get("items")) if isinstance(inner, dict))


def _stem(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
