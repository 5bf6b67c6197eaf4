"""Pages as Markdown, whatever they consist of, in bounded time; bytes as text in the right encoding."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.core.aio import AbortController, Aborted, AbortReason
from agentcli.tools.web import webfetch as web_page
from agentcli.tools.web.html_worker import to_markdown
from agentcli.tools.web.webfetch import MAX_CHARACTERS, Binary, PageText, Unreadable
from tests.support.tables import each_row

BASE = "https://example.com/docs/page.html"


def markdown(source: str) -> str:
    return to_markdown(source, BASE)["markdown"]


@each_row(
    ("source", "expected"),
    [
        ("<h1>Big <em>deal</em></h1><p>Text", "# Big *deal*\n\nText"),
        ("<p>a <b> b </b>c<br>d", "a  **b** c\nd"),
        ('<a href="/x?a=1&amp;b=2">link</a>', "[link](https://example.com/x?a=1&b=2)"),
        ('<a href="other.html">x</a><a href="#top">y</a>', "[x](https://example.com/docs/other.html)y"),
        ('<a href="javascript:alert(1)">x</a> <a href="data:text/html,y">y</a>', "x y"),
        ("<ul><li>one<li>two<ul><li>in</ul><li>three</ul>", "- one\n- two\n  - in\n- three"),
        ("<ol start=3><li>c<li>d</ol>", "3. c\n4. d"),
        ("<pre class='language-py'><code>if a &lt; b:\n    pass\n</code></pre>", "```py\nif a < b:\n    pass\n```"),
        ("<pre>a ``` b</pre>", "````\na ``` b\n````"),
        ("<p>use <code>x = `y`</code> here", "use `` x = `y` `` here"),
        ("<blockquote><p>said</blockquote>after", "> said\n\nafter"),
        (
            "<table><tr><th>A<th>B<tr><td>1<td>2|3<tr><td><p>x<p>y<td></table>",
            "| A | B |\n| --- | --- |\n| 1 | 2\\|3 |\n| x  y |  |",
        ),
        ("<table><tr><td>only layout</td></tr></table>", "only layout"),
        (
            "<table><tr><td><table><tr><td>one</td></tr><tr><td>two</td></tr></table></td></tr><tr><td>end</table>",
            "one\n\ntwo\n\nend",
        ),
        (
            "<table><tr><td>menu</td><td><table><tr><td>a</td><td>b</td></tr></table></td></tr></table>",
            "menu\n\n| a | b |\n| --- | --- |",
        ),
        ("<img src=a.png alt='A cat'><img src=b.png>", "[image: A cat]"),
        ("a<script>var x = '</p>';</script>b<style>p{}</style>c<noscript>no</noscript>", "abc"),
        ("a<!-- <p>hidden --> b <![CDATA[ x ]]> c <?php y ?> d", "a b c d"),
        ("<p hidden>secret</p><div style='display : none'>inject<div>more</div></div>seen", "seen"),
        ("x &lt;b&gt; &amp;amp; &eacute;&#8212;&#x41;", "x <b> &amp; é—A"),
        ("1 < 2 and 3 > 2", "1 < 2 and 3 > 2"),
        ("<a href=/c><h3>Card</h3><p>text</p></a>", "### [Card](https://example.com/c)\n\ntext"),
        ("<dl><dt>Term<dd>Meaning</dl><hr>end", "Term\n:   Meaning\n\n---\n\nend"),
        ("<h2>Usage<a href='#usage'>¶</a></h2>", "## Usage"),
        ("", ""),
        ("<title>never closed <p>text", "never closed\n\ntext"),
    ],
)
def test_html_becomes_markdown(source: str, expected: str) -> None:
    assert markdown(source) == expected


def test_the_title_and_the_base_are_found() -> None:
    source = "<head><title> A &amp;\n B </title><base href='https://cdn.example.org/x/'></head><a href=y>y</a>"
    assert to_markdown(source, BASE) == {"title": "A & B", "markdown": "[y](https://cdn.example.org/x/y)"}


def test_navigation_is_removed_unless_there_is_nothing_else() -> None:
    nav = "<nav><a href=/a>Menu</a></nav><footer>Imprint</footer><div role=navigation>More</div>"
    text = "<p>" + "Real text. " * 40
    assert "Menu" not in markdown(nav + text)
    assert "Imprint" not in markdown(nav + text)
    assert "Menu" in markdown(nav)


def test_the_main_part_is_preferred_when_it_has_the_text() -> None:
    source = "<div>Cookie banner</div><main><p>" + "The article. " * 60 + "</main><div>Related</div>"
    assert "Cookie" not in markdown(source)
    assert "Related" not in markdown(source)
    assert "Cookie" in markdown("<div>Cookie banner</div><main><p>short</main>")


UNCLOSED = "<div> <title> < <!-- <a/b=\"'> &amp <b>x<a/href=y> <table><tr><td>x </a> <svg> <script> <![CDATA["


@pytest.mark.parametrize("piece", UNCLOSED.split())
def test_tags_that_are_never_closed_take_little_time(piece: str) -> None:
    source = piece * 4_000
    began = time.process_time()
    to_markdown(source, BASE)
    assert time.process_time() - began < 2.5


@pytest.mark.anyio
async def test_a_page_is_converted_by_a_worker_process() -> None:
    assert await text_of("<html><meta charset=utf-8><p>日本語".encode(), "text/html") == "日本語"


@pytest.mark.anyio
async def test_a_page_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_page, "SECONDS", 0.3)
    page = b"".join(piece * 100_000 for piece in (b"<a ", b"<p a='", b"<p =", b"<p / / /"))
    assert await read_page(page, "text/html") == Unreadable("it took longer than 0.3 seconds")


@pytest.mark.anyio
async def test_an_abort_ends_the_conversion() -> None:
    with AbortController() as controller:
        asyncio.get_running_loop().call_later(0.2, controller.abort, AbortReason.USER_CANCEL)
        async with asyncio.timeout(5):
            with pytest.raises(Aborted):
                await web_page.read_page(b"<a " * 100_000, "text/html", BASE, controller.signal)


@given(st.text(alphabet="<>/!-\"'= abpliuldtrhscn&;#[]?\n", max_size=300))
def test_any_text_can_be_converted(source: str) -> None:
    assert isinstance(markdown(source), str)


async def read_page(body: bytes, content_type: str) -> PageText | Binary | Unreadable:
    return await web_page.read_page(body, content_type, BASE, AbortController().signal)


async def text_of(body: bytes, content_type: str) -> str:
    page = await read_page(body, content_type)
    assert isinstance(page, PageText)
    return page.text


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        ("Größe".encode(), "text/plain; charset=utf-8"),
        ("Größe".encode("latin-1"), "text/plain; charset=ISO-8859-1"),
        ("Größe".encode("cp1252"), 'text/plain; charset="windows-1252"'),
        ("Größe".encode("cp1252"), "text/plain"),
        ("Größe".encode("utf-8-sig"), "text/plain; charset=latin-1"),
        ("Größe".encode("utf-16"), "text/plain"),
        ("Größe".encode(), "text/plain; charset=nonsense"),
        ("Größe".encode(), "text/plain; charset=base64"),
        ("Größe".encode(), "text/plain; charset=unicode_escape"),
        ("Größe".encode(), ""),
    ],
)
async def test_the_encoding_is_found(body: bytes, content_type: str) -> None:
    assert await text_of(body, content_type) == "Größe"


@pytest.mark.anyio
@pytest.mark.usefixtures("html_in_process")
async def test_a_page_may_declare_its_encoding() -> None:
    page = "<html><head><meta charset='Shift_JIS'></head><p>日本語".encode("cp932")
    assert await text_of(page, "text/html") == "日本語"
    page = "<html><meta http-equiv=Content-Type content='text/html; charset=gb2312'><p>中文".encode("gb18030")
    assert await text_of(page, "text/html") == "中文"
    assert await text_of("<html><meta charset=utf-16><p>é".encode(), "text/html") == "é"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("body", "content_type", "what"),
    [
        (b"%PDF-1.7 ...", "application/pdf", "a PDF document"),
        (b"%PDF-1.7 ...", "text/html", "a PDF document"),
        (b"\x89PNG\r\n\x1a\n", "image/png", "an image (image/png)"),
        (b"RIFF....WEBP", "image/webp", "an image (image/webp)"),
        (b"\x00\x01\x02" * 100, "application/octet-stream", "binary data (application/octet-stream)"),
        (b"\x00\x01\x02" * 100, "", "binary data"),
        (b"PK\x03\x04", "application/zip", "binary data (application/zip)"),
        (b"x", "video/mp4", "a video (video/mp4)"),
    ],
)
async def test_binary_content_is_named(body: bytes, content_type: str, what: str) -> None:
    assert await read_page(body, content_type) == Binary(what)


@pytest.mark.anyio
@pytest.mark.usefixtures("html_in_process")
async def test_text_kinds_stay_as_they_are_and_html_is_found_without_a_header() -> None:
    assert await text_of(b'{"a": "<b>"}', "application/json") == '{"a": "<b>"}'
    assert await text_of(b"<a>x</a>", "application/xml") == "<a>x</a>"
    assert await text_of(b"# Title\n<b>x</b>", "text/markdown") == "# Title\n<b>x</b>"
    assert await text_of(b"plain", "application/octet-stream") == "plain"
    assert await text_of(b"<!DOCTYPE html><p>x", "") == "x"
    assert await text_of(b"<!DOCTYPE html><p>x", "text/plain") == "x"


@pytest.mark.anyio
async def test_a_long_page_is_cut_and_control_sequences_are_removed() -> None:
    page = await read_page(b"x" * (MAX_CHARACTERS + 5), "text/plain")
    assert isinstance(page, PageText)
    assert (len(page.text), page.cut) == (MAX_CHARACTERS, 5)
    assert await text_of(b"a\x1b]0;title\x07b\x1b[31mc", "text/plain") == "abc"
