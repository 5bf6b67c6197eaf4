"""An exported page in a real Chromium: it can be searched and copied from, and nothing of it runs or loads anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcli.tools.base import Output
from agentcli.tools.files.diff import diff_display
from tests.history.test_export import export, record, record_hostile
from tests.support.browser import CHROMIUM, Browser
from tests.support.fakes import FakeTool
from tests.support.scripts import call, reply, think

pytestmark = [
    pytest.mark.virtual,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
]

ANSWER = "It **adds**.\n\n```python\ndef add(a, b):\n    return a + b\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


async def page_of(folder: Path) -> Path:
    replies = (
        reply(think("Where is the needle?"), "I look.", call("Look", what="around"), call("Look", what="edit")),
        ANSWER,
        "You are welcome.",
    )
    lines = "\n".join(f"line {number}" for number in range(500))
    edited = Output("Edited.", display=diff_display("calc.py", "a = 1\n", "a = 2\n"))
    tool = FakeTool(output=lambda given: edited if given["what"] == "edit" else Output(f"{lines}\nneedle"))
    await record(folder, *replies, prompts=("what does it do?", "thanks"), tools=[tool])
    return written(folder)


def written(folder: Path) -> Path:
    path = folder / "talk.html"
    path.write_text(export(folder, "html", thinking=True)[0])
    return path


async def test_a_search_filters_the_prompts_marks_what_it_found_and_opens_folds(
    tmp_path: Path, browser: Browser
) -> None:
    page = browser.open(await page_of(tmp_path))
    assert page.run("document.querySelectorAll('.prompt').length") == 2
    page.press("/")
    assert page.run("document.activeElement.id") == "find"
    page.type("needle")
    page.until("document.getElementById('hits').textContent === '2 found'")
    assert page.run("[...document.querySelectorAll('.prompt')].map((one) => one.hidden)") == [False, True]
    assert page.run("[...document.querySelectorAll('#list li')].map((one) => one.hidden)") == [False, True]
    assert page.run("CSS.highlights.get('found').size") == 2
    assert page.run("document.querySelector('.thinking').open") is False
    page.press("Enter")
    assert page.run("document.querySelector('.thinking').open") is True
    page.press("Enter")
    assert page.run("document.getElementById('hits').textContent") == "2 of 2"
    assert page.run("document.querySelector('.call').open") is True
    assert page.run("[...CSS.highlights.get('current')][0].toString()") == "needle"
    page.press("Escape")
    assert page.run("document.querySelectorAll('[hidden]').length") == 0
    page.press("/")
    page.type("def add(")
    page.until("document.getElementById('hits').textContent === '1 found'")
    assert page.run("[...CSS.highlights.get('found')][0].toString()") == "def add(", "it spans coloured words"


async def test_prompts_answers_and_code_can_be_copied_as_they_were_written(tmp_path: Path, browser: Browser) -> None:
    page = browser.open(await page_of(tmp_path))
    browser.send("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])

    def copied(button: str) -> str:
        page.run("document.getElementById('said').textContent = ''")
        page.run(f"document.querySelector({button!r}).click()")
        page.until("document.getElementById('said').textContent === 'Copied'")
        return str(page.run("navigator.clipboard.readText()"))

    assert copied(".user .copy") == "what does it do?"
    assert copied(".answer:has(table) > .copy") == ANSWER
    assert copied(".answer .code .copy") == "def add(a, b):\n    return a + b"
    assert copied(".diff .copy") == "@@ -1,1 +1,1 @@\n-a = 1\n+a = 2", "without line numbers"


async def test_copy_buttons_are_shown_to_a_mouse_or_the_keyboard_and_always_on_touch(
    tmp_path: Path, browser: Browser
) -> None:
    path = await page_of(tmp_path)
    shown = "getComputedStyle(document.querySelector('.answer > .copy')).opacity"
    page = browser.open(path)
    assert page.run(shown) == "0"
    page.run("document.querySelector('.answer > .copy').focus({ focusVisible: true })")
    assert page.run(shown) == "1"
    page.run("document.activeElement.blur()")
    middle = "(({ x, y }) => [x + 5, y + 5])(document.querySelector('.answer').getBoundingClientRect())"
    x, y = page.run(middle)
    page.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    page.until(f"{shown} === '1'")
    assert browser.open(path, width=390, height=800).run(shown) == "1"


async def test_the_theme_follows_the_reader_and_can_be_switched(tmp_path: Path, browser: Browser) -> None:
    path = await page_of(tmp_path)
    background = "getComputedStyle(document.body).backgroundColor"
    dark, light = "rgb(20, 22, 27)", "rgb(252, 252, 252)"
    page = browser.open(path)
    assert page.run(background) == dark
    page.run("document.getElementById('theme').click()")
    assert page.run(background) == light
    assert browser.open(path, wants_light=True).run(background) == light


async def test_a_phone_needs_no_sideways_scrolling_and_gets_the_prompts_as_a_menu(
    tmp_path: Path, browser: Browser
) -> None:
    page = browser.open(await page_of(tmp_path), width=390, height=800)
    page.run("for (const one of document.querySelectorAll('details')) one.open = true")
    assert page.run("document.documentElement.scrollWidth") == 390
    assert page.run("getComputedStyle(document.getElementById('list')).visibility") == "hidden"
    page.run("document.getElementById('menu').click()")
    page.until("getComputedStyle(document.getElementById('list')).visibility === 'visible'")
    page.run("document.querySelectorAll('#list a')[1].click()")
    assert page.run("document.body.className") == ""
    second = page.run("document.querySelectorAll('.prompt')[1].id")
    assert page.run("location.hash") == f"#{second}"


async def test_hostile_text_runs_nothing_and_asks_for_nothing(tmp_path: Path, browser: Browser) -> None:
    await record_hostile(tmp_path)
    path = written(tmp_path)
    page = browser.open(path)
    page.run("for (const one of document.querySelectorAll('details')) one.open = true")
    page.run("for (const one of document.querySelectorAll('a')) one.hash || one.href.startsWith('http') || one.click()")
    page.run("new Promise(requestAnimationFrame)")
    assert page.run("document.title") not in ("ran", "")
    assert page.requests == [path.as_uri()]
    assert page.complaints == []


async def test_even_injected_markup_could_neither_run_nor_load_anything(tmp_path: Path, browser: Browser) -> None:
    page = browser.open(await page_of(tmp_path))
    markup = "<img src=x:y onerror='window.ran = 2'><b id=x style='color: red' onclick='window.ran = 3'>x</b>"
    page.run("const made = document.createElement('script'); made.textContent = 'window.ran = 1'")
    page.run("document.body.append(made)")
    page.run(f"document.body.insertAdjacentHTML('beforeend', {markup!r})")
    page.run("document.getElementById('x').click()")
    page.run("new Promise(requestAnimationFrame)")
    assert page.run("window.ran") is None
    assert len([text for text in page.complaints if "Content Security Policy" in text]) >= 3
    refused = "fetch('https://example.invalid/').then(() => 'loaded', () => 'refused')"
    assert page.run(refused) == "refused"
