"""Convert an HTML page to Markdown for a model.

Keeps headings, lists, tables, code and links; drops scripts, hidden elements and navigation. Runs in a worker process
(`tools/worker.py`): imports nothing of this package, opens no file.
"""

from __future__ import annotations

import re
import warnings
from typing import Any
from urllib.parse import urljoin

from bs4 import BeautifulSoup, Tag
from markdownify import MarkdownConverter

MAX_SOURCE = 1_500_000
"""Maximum characters of a page that are parsed, not counting its scripts and styles."""
_MAX_WRITTEN = 400_000
_MAX_DEPTH = 100
_MAX_TAGS = 50_000
_SCANT = 200
"""In characters: a page with less text outside its navigation is shown with the navigation."""
_ENOUGH = 500
"""Minimum characters in `main` for dropping the rest of the page."""
_DROPPED = re.compile(
    r"<(script|style)\b.*?(?:</\1\b[^>]{0,500}>|\Z)|<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<[!?][^>]*>?",
    re.IGNORECASE | re.DOTALL,
)
_SKIPPED = set(
    "noscript template iframe svg math object canvas audio video map select datalist button textarea dialog noembed "  # noqa: SIM905
    "xmp title".split()
)
_NOISE = {"nav", "footer", "menu"}
_NOISY_ROLES = {"navigation", "contentinfo", "search", "banner"}
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight-source)-([\w+#.-]{1,30})")
_PERMALINKS = ("#", "§", "¶", "🔗")
"""Texts of a link from a heading to itself."""
_CONVERTED_AS = {
    **dict.fromkeys(("tt", "var"), "code"),
    **dict.fromkeys("main header aside figure address details summary fieldset form".split(), "div"),  # noqa: SIM905
    **dict.fromkeys("body hgroup center legend nav footer option".split(), "div"),  # noqa: SIM905
}
_PARAGRAPH_ENDS = "p div ul ol dl table pre h1 h2 h3 h4 h5 h6 blockquote hr section article form".split()  # noqa: SIM905
_BLOCKS = "li dd td th div blockquote section article table".split()  # noqa: SIM905
_IMPLIED_ENDS: dict[str, tuple[list[str], list[str]]] = {
    **dict.fromkeys(_PARAGRAPH_ENDS, (["p"], _BLOCKS)),
    "li": (["li"], ["ul", "ol"]),
    **dict.fromkeys(("dt", "dd"), (["dt", "dd"], ["dl"])),
    **dict.fromkeys(("td", "th"), (["td", "th"], ["table"])),
    "tr": (["tr"], ["table"]),
    **dict.fromkeys(("tbody", "tfoot"), (["thead", "tbody"], ["table"])),
}
"""For each start tag: the elements it implicitly closes, and the elements at which that stops."""


class _Soup(BeautifulSoup):
    """A tree of bounded size and depth: of tags beyond the limits, only the text is kept."""

    started = 0

    def handle_starttag(self, name: str, *arguments: Any, **options: Any) -> Tag | None:
        self.started += 1
        closed, outside = _IMPLIED_ENDS.get(name, ([], []))
        for opened in self.tagStack[:0:-1] if closed else ():
            if opened.name in closed:
                self.endData()
                self._popToTag(opened.name)
                break
            if opened.name in outside:
                break
        if self.started > _MAX_TAGS or len(self.tagStack) > _MAX_DEPTH:
            return None
        return super().handle_starttag(name, *arguments, **options)


class _Converter(MarkdownConverter):
    """`base`: the URL that relative links are resolved against."""

    def __init__(self, base: str) -> None:
        super().__init__(
            heading_style="atx",
            bullets="-",
            wrap=True,
            wrap_width=None,
            escape_asterisks=False,
            escape_underscores=False,
            table_infer_header=True,
        )
        self.base = base

    def convert_a(self, element: Tag, text: str, parent_tags: set[str]) -> str:
        inner = text.strip()
        href = resolve_link(self.base, str(element.get("href") or ""))
        if not href and inner in _PERMALINKS:
            return ""
        if not href or not inner or "_noformat" in parent_tags:
            return text
        # Around block elements, such as a card with a heading, only the first line becomes the link.
        linked = re.sub(r"(?m)^(#* *)(.+)$", lambda found: f"{found[1]}[{found[2]}]({href})", inner, count=1)
        return text.replace(inner, linked, 1)

    def convert_br(self, element: Tag, text: str, parent_tags: set[str]) -> str:
        return " " if "_inline" in parent_tags else "\n"

    def convert_img(self, element: Tag, text: str, parent_tags: set[str]) -> str:
        alt = " ".join(str(element.get("alt") or "").split())[:200]
        return f"[image: {alt}]" if alt else ""

    def convert_pre(self, element: Tag, text: str, parent_tags: set[str]) -> str:
        text = text.replace("\r\n", "\n").strip("\n")
        if not text.strip():
            return ""
        classes = (" ".join(tag.get_attribute_list("class")) for tag in (element, *element.find_all("code", limit=1)))
        language = next((found[1] for each in classes if (found := _LANGUAGE.search(each))), "")
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
        return f"\n\n{fence}{language}\n{text}\n{fence}\n\n"

    def convert_td(self, element: Tag, text: str, parent_tags: set[str]) -> str:
        return str(super().convert_td(element, text.replace("|", "\\|"), parent_tags))  # type: ignore[misc]

    convert_th = convert_td

    def get_conv_fn(self, tag_name: str) -> Any:
        return super().get_conv_fn(_CONVERTED_AS.get(tag_name, tag_name))  # type: ignore[misc]


def work(data: bytes, base: str) -> dict[str, str]:
    return to_markdown(data.decode("utf-8", "replace"), base)


def to_markdown(source: str, base: str = "") -> dict[str, str]:
    """The page's `title` and `markdown`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        title, markdown, noisy = _convert(source, base, with_noise=False)
        if noisy and len(markdown) < _SCANT:
            _title, whole, _noisy = _convert(source, base, with_noise=True)
            markdown = whole if len(whole) > 2 * len(markdown) else markdown
    return {"title": title, "markdown": markdown[:_MAX_WRITTEN]}


def _convert(source: str, base: str, *, with_noise: bool) -> tuple[str, str, bool]:
    """The title, the Markdown, and whether navigation was left out."""
    source = _DROPPED.sub("", source)[:MAX_SOURCE]
    if not re.search("</title", source, re.IGNORECASE):
        source = re.sub("<title", "<p", source, flags=re.IGNORECASE)
    soup = _Soup(source, "html.parser")
    title = " ".join(soup.title.get_text().split())[:300] if soup.title else ""
    if (named := soup.find("base", href=True)) is not None:
        base = resolve_link(base, str(named["href"])) or base
    noise = [] if with_noise else soup.find_all(_is_noise)
    for element in (*soup.find_all(_is_left_out), *noise):
        element.decompose()
    for table in soup.find_all("table"):
        _flatten_layout(table)
    mains = soup.find_all("main")
    root = mains[0] if len(mains) == 1 and len(mains[0].get_text()) > _ENOUGH else soup
    markdown = re.sub("[\xa0\u200b\ufeff]", " ", _Converter(base).convert_soup(root))
    markdown = re.sub(r"\n{3,}", "\n\n", re.sub(r"(?m) +$", "", markdown))
    return title, markdown.strip(), bool(noise)


def _is_left_out(element: Tag) -> bool:
    hidden = "hidden" in element.attrs or _HIDDEN.search(str(element.get("style") or ""))
    return element.name in _SKIPPED or bool(hidden and element.name not in ("html", "body"))


def _is_noise(element: Tag) -> bool:
    is_noise = element.name in _NOISE or str(element.get("role") or "").lower() in _NOISY_ROLES
    return is_noise and element.name not in ("main", "article", "html", "body")


def _flatten_layout(table: Tag) -> None:
    """Replace a layout table by blocks: one with a single column, or with a nested table."""
    parts = [part for part in table.find_all(True) if part.find_parent("table") is table]
    rows = [part for part in parts if part.name == "tr"]
    if table.find("table") is None and any(len(row.find_all(["td", "th"])) > 1 for row in rows):
        return
    table.name = "div"
    for part in parts:
        # A table in it is decided on separately, with its own rows.
        if part.name in ("thead", "tbody", "tfoot", "tr", "td", "th"):
            part.name = "div"


def resolve_link(base: str, href: str) -> str:
    """The absolute URL of a link; empty if it cannot be fetched or stays within the page."""
    href = href.strip()
    if not href or href.startswith("#") or len(href) > 2000:
        return ""
    try:
        url = urljoin(base, href)
    except ValueError:
        return ""
    if not url.lower().startswith(("http://", "https://", "mailto:")) and base:
        return ""
    return re.sub(r"[\s()<>]", lambda found: f"%{ord(found[0]):02X}", url)
