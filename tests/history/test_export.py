"""Exports of recorded sessions: what stands in each format, what is replaced, and how files are written."""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from agentcli.config.themes import load_themes, theme_folders
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.looks import Rgb, contrast, parse_colour
from agentcli.core.messages import ImageBlock, Json, Message, Origin
from agentcli.core.text.secret_text import redact_values
from agentcli.history.export import page
from agentcli.history.export.document import describe, read_document
from agentcli.history.export.files import (
    ExportContext,
    choose_format,
    export_bundle,
    export_document,
    read_context,
    write_new,
)
from agentcli.history.export.page_theme import choose_themes, theme_css
from agentcli.history.export.redaction import Redactor
from agentcli.history.sent_requests import open_step
from agentcli.session.base import Rewind
from agentcli.session.load import load_session, read_records
from agentcli.session.timeline import Timeline, read_timeline
from agentcli.tools.base import Output
from tests.support.fakes import FakeTool
from tests.support.recorded import recorded, recorded_again, session_file
from tests.support.scripts import call, reply, say, think

pytestmark = pytest.mark.virtual

KEY = "sk-ant-api03-" + "a1B2" * 12
PASSWORD = "hunter2-Tiger"


def shows(text: str) -> FakeTool:
    return FakeTool(output=Output(text))


def context(folder: Path, **rest: Any) -> ExportContext:
    return ExportContext({"HOME": str(folder)}, ["model"], choose_themes("auto", theme_folders(None)), **rest)


def export(folder: Path, format: str, *, keeps_secrets: bool = False, **rest: Any) -> tuple[str, str]:
    """The text and the sentence about what was replaced."""
    document = read_document(session_file(folder), **rest)
    data, redactions = export_document(document, format, context(folder, keeps_secrets=keeps_secrets))
    return data.decode(), redactions


async def record(folder: Path, *replies: Json | str, prompts: tuple[str, ...] = ("go",), **rest: Any) -> None:
    b = recorded(folder, *replies, **rest)
    async with b.engine:
        for prompt in prompts:
            await b.run(prompt)


async def record_with_secrets(folder: Path) -> None:
    env = f"DB_PASSWORD={PASSWORD}\nANTHROPIC_API_KEY={KEY}\nPOSTGRES_PASSWORD=postgres\nDEBUG=1\n"
    replies = (
        reply(think("A key."), "Thank you."),
        reply(call("Look", what="cat .env")),
        reply(f"The password is {PASSWORD}, of postgres. Your key is {KEY}."),
    )
    await record(folder, *replies, prompts=(f"use {KEY}", "what is in .env?"), tools=[shows(env)])


# ----------------------------------------------------------------------------------------------------------- document


async def test_the_json_has_prompts_with_requests_calls_costs_and_answers(tmp_path: Path) -> None:
    look = reply(think("Hm."), "I look.", call("Look", what="a"), call("Look", what="b"))
    await record(tmp_path, look, "It is fine.", "Bye.", prompts=("is it fine?", "thanks"), tools=[shows("all good")])
    document = json.loads(export(tmp_path, "json")[0])
    assert (document["format"], document["version"], document["redactions"]) == ("agentcli session", 1, [])
    assert (document["session"]["prompts"], document["session"]["calls"]) == (2, 2)
    first, second = document["prompts"]
    assert (first["number"], first["text"], first["answer"], first["finished"]) == (
        1,
        "is it fine?",
        "It is fine.",
        True,
    )
    assert [item["type"] for item in first["items"]] == ["text", "call", "call", "text"]
    one, two = (item for item in first["items"] if item["type"] == "call")
    assert (one["number"], one["title"], one["output"], one["outcome"]) == (1, "Look a", "all good", "done")
    steps = list(read_timeline(session_file(tmp_path)).prompts.values())
    assert [prompt["cost_usd"] for prompt in (first, second)] == [pytest.approx(step.cost_usd) for step in steps]
    assert two["number"] == 2
    assert document["session"]["cost_usd"] == pytest.approx(first["cost_usd"] + second["cost_usd"])
    with_thinking = json.loads(export(tmp_path, "json", thinking=True)[0])
    assert with_thinking["prompts"][0]["items"][0] == {"type": "thinking", "text": "Hm."}


async def test_the_current_branch_is_exported(tmp_path: Path) -> None:
    await record(tmp_path, "One.", "Two.", prompts=("first", "second"))
    second = list(read_timeline(session_file(tmp_path)).prompts)[1]
    b = recorded_again(tmp_path, "Three.", rewind=Rewind(before=second))
    async with b.engine:
        await b.run("instead")
    prompts = json.loads(export(tmp_path, "json")[0])["prompts"]
    assert [(prompt["number"], prompt["text"]) for prompt in prompts] == [(1, "first"), (2, "instead")]


# ------------------------------------------------------------------------------------------------------------ secrets


async def test_secrets_are_replaced_the_same_everywhere_and_listed_with_their_places(tmp_path: Path) -> None:
    await record_with_secrets(tmp_path)
    for format in ("md", "json", "html"):
        text, redactions = export(tmp_path, format, thinking=True)
        assert redactions == (
            "3 secrets were replaced: 1 Anthropic API key in prompt 1, prompt 2 and call 1 `Look cat .env`, 2 "
            "suspected passwords in prompt 2 and call 1 `Look cat .env`."
        )
        assert KEY not in text
        assert PASSWORD not in text
        assert text.count("[secret 1: Anthropic API key]") >= 3
        assert "DB_PASSWORD=[secret 2: suspected password]" in text
        assert "The password is [secret 2: suspected password], of postgres." in text
        assert "POSTGRES_PASSWORD=postgres" not in text
        assert "DEBUG=1" in text
    assert redactions in text, "a page and a Markdown file have the list too"
    kept, about = export(tmp_path, "md", keeps_secrets=True)
    assert (KEY in kept, PASSWORD in kept, about) == (True, True, "Nothing was replaced.")


async def test_a_bundle_is_a_session_file_that_can_be_read_and_a_description(tmp_path: Path) -> None:
    await record_with_secrets(tmp_path)
    path = session_file(tmp_path)
    made, redactions = export_bundle(path, context(tmp_path))
    archive = zipfile.ZipFile(io.BytesIO(made))
    assert archive.namelist() == ["session.jsonl", "about.json"]
    copy = tmp_path / "session.jsonl"
    copy.write_bytes(archive.read("session.jsonl"))
    for secret in (KEY, PASSWORD, str(tmp_path)):
        assert secret.encode() not in copy.read_bytes()
    before, after = list(read_records(path)), list(read_records(copy))
    assert [one["type"] for one in before] == [one["type"] for one in after]
    assert [one.get("uuid") for one in before] == [one.get("uuid") for one in after]
    assert after[0]["cwd"] == "/home/user"
    loaded, original = load_session(copy), load_session(path)
    assert (loaded.skipped, loaded.torn) == (0, False)
    assert [message.id for message in loaded.messages] == [message.id for message in original.messages]
    assert "[secret 1: Anthropic API key]" in loaded.messages[-1].text
    about = json.loads(archive.read("about.json"))
    lines = copy.read_text().splitlines()
    places = [f"line {number}" for number, line in enumerate(lines, 1) if "[secret 1:" in line]
    assert (about["format"], about["session"], about["settings"]) == ("agentcli bundle", path.stem, ["model"])
    assert about["redactions"][0] == {
        "placeholder": "[secret 1: Anthropic API key]",
        "kind": "Anthropic API key",
        "places": places,
    }
    assert f"1 Anthropic API key in {places[0]}" in redactions
    assert export_bundle(path, context(tmp_path))[0] == made
    kept, _redactions = export_bundle(path, context(tmp_path, keeps_secrets=True))
    assert zipfile.ZipFile(io.BytesIO(kept)).read("session.jsonl") == path.read_bytes()


async def test_a_bundle_of_an_open_session_has_only_lines_that_were_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await record_with_secrets(tmp_path)
    path, replace = session_file(tmp_path), Redactor.replace
    before = path.read_bytes()

    def replace_while_another_process_writes(redactor: Redactor, value: Any, place: str) -> Any:
        path.write_bytes(before + json.dumps({"type": "later", "key": f"npm_{'a1B2' * 10}"}).encode() + b"\n")
        return replace(redactor, value, place)

    monkeypatch.setattr(Redactor, "replace", replace_while_another_process_writes)
    data, _redactions = export_bundle(path, context(tmp_path))
    content = zipfile.ZipFile(io.BytesIO(data)).read("session.jsonl").decode()
    assert len(content.splitlines()) == len(before.splitlines())
    assert "npm_" not in content


async def test_digests_of_requests_in_a_bundle_are_right_if_and_only_if_they_were(tmp_path: Path) -> None:
    await record_with_secrets(tmp_path)
    path = session_file(tmp_path)
    records = list(read_records(path))
    wrong = next(record for record in records if record.get("event", {}).get("request"))
    wrong["event"]["request"] = "0123456789abcdef-0123456789abcdef"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    archive = zipfile.ZipFile(io.BytesIO(export_bundle(path, context(tmp_path))[0]))
    copy = tmp_path / "session.jsonl"
    copy.write_bytes(archive.read("session.jsonl"))
    steps = list(read_timeline(copy).requests())
    doubts = [open_step(read_timeline(copy), step, {}).sent.doubts for step in steps]
    assert ["the messages differ from what was sent" in each for each in doubts] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"curl -H 'x-api-key: {KEY}'", KEY),
        ("export STRIPE_KEY=abc123def456", "abc123def456"),
        ('"password": "s3cr3t-value"', "s3cr3t-value"),
        ("  db_password: s3cr3t-value", "s3cr3t-value"),
        ("login --password s3cr3t-value", "s3cr3t-value"),
        ("postgres://app:s3cr3t-value@db/x", "s3cr3t-value"),
        ("Authorization: Bearer abc123def456ghi", "abc123def456ghi"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3", ".dozjgNryP4J3"),
        (f"Authorization: Bearer {KEY}", KEY),
        (f"1\t-----BEGIN PRIVATE KEY-----\n2\t{'aB3+' * 16}\n3\t{'aB3+' * 16}\n4 rest", f"{'aB3+' * 16}\n3"),
        (f"-----BEGIN RSA PRIVATE KEY-----\n{'aB3+' * 16}\nxy=\n-----END RSA PRIVATE KEY-----", "xy="),
        ("the token of the shell is top4secret9", "top4secret9"),
        ("My password is s3cr3t-value, I think.", "s3cr3t-value"),
    ],
    ids=str,
)
def test_a_secret_is_recognised(text: str, secret: str) -> None:
    redactor = Redactor({"MY_TOKEN": "top4secret9", "PATH": "/usr/bin"})
    redactor.search({"text": text})
    assert secret not in redactor.replace(text, "prompt 1")
    assert redactor.summary().startswith("1 secret was replaced: 1 ")
    assert redactor.summary().endswith(" in prompt 1.")


@pytest.mark.parametrize(
    "text",
    [
        "token: str = parse_token(text2)",
        "--max-tokens=40960",
        "password: $DB_PASSWORD1 and --password ${PASS_1}",
        "a basic understanding of bearer authentication",
        "API_KEY=<your-key-1>",
        "find '-----BEGIN PRIVATE KEY-----' in the file",
        "tokenize(source1) = 'keyboard2'",
        "https://example.com/a:b@c",
        "SSH_AUTH_SOCK=/tmp/ssh-1a2b3c/agent.42",
        "const token2 = next(tokens1)",
        "the password is required, the secret: something like that",
        "token: Uint8Array, password: Optional[str]",
    ],
)
def test_code_and_prose_stay_as_they_are(text: str) -> None:
    redactor = Redactor()
    redactor.search(text)
    assert redactor.replace(text, "prompt 1") == text
    assert redactor.summary() == "No secrets were recognised."


def test_a_key_that_is_wrapped_over_lines_is_the_same_secret_and_text_below_a_key_stays() -> None:
    wrapped = f"key:\n  {KEY[:30]}\n  {KEY[30:]}\nDone.", f"{KEY[:40]}\r\n{KEY[40:]}", rf"'{KEY[:40]}\n{KEY[40:]}\n'"
    redactor = Redactor()
    redactor.search([*wrapped, f"KEY={KEY}\nDEBUG=1\nlonger_word"])
    shown = "[secret 1: Anthropic API key]"
    assert [redactor.replace(text, "") for text in wrapped] == [
        f"key:\n  {shown}\nDone.",
        shown,
        rf"'{shown}\n'",
    ]
    assert redactor.replace(f"KEY={KEY}\nDEBUG=1\nlonger_word", "") == f"KEY={shown}\nDEBUG=1\nlonger_word"


def test_secrets_that_begin_alike_are_all_replaced_and_parts_of_words_stay() -> None:
    secrets = [f"ghp_{'a1B2' * 5}{'c' * number}" for number in range(40)]
    redactor = Redactor()
    redactor.search("\n".join(f"token {secret} ." for secret in secrets))
    shown = redactor.replace(" ".join(reversed(secrets)), "")
    assert shown.split("] ") == [f"[secret {number}: GitHub token" for number in range(1, 40)] + [
        "[secret 40: GitHub token]"
    ]
    assert redactor.replace(f"x{secrets[0]} {secrets[0]}z", "") == f"x{secrets[0]} {secrets[0]}z"


def test_the_name_of_a_field_says_that_its_text_is_a_password() -> None:
    given = {"password": "correcthorse", "user": "correcthorse", "compass": "north-east", "passphrase": "two words"}
    redactor = Redactor()
    redactor.search(given)
    shown = redactor.replace({**given, "args": [{"password": "$SECRET"}]}, "call 1")
    assert (shown["user"], shown["compass"], shown["args"]) == ("correcthorse", "north-east", [{"password": "$SECRET"}])
    assert shown["password"] == "[secret 1: suspected password]"
    assert shown["passphrase"] == "[secret 2: suspected password]"


def test_encoded_data_stays_as_it_is_and_the_home_folder_gets_short() -> None:
    image = {"type": "base64", "media_type": "image/png", "data": f"x {KEY}"}
    redactor = Redactor({}, "/home/anna")
    redactor.search([image, KEY])
    assert redactor.replace(image, "") == image
    shown = redactor.replace("/home/anna/x, /home/anna, /home/annabel, /mnt/home/anna, ~/home/anna", "")
    assert shown == "~/x, ~, /home/annabel, /mnt/home/anna, ~/home/anna"


def test_redacting_recorded_values_leaves_encoded_images_alone() -> None:
    image = {"type": "base64", "media_type": "image/png", "data": f"iVBORw0/EAA{'x1' * 20}"}
    assert redact_values({"image": image, "text": image["data"]}) == {"image": image, "text": "iVBORw0/…"}


# --------------------------------------------------------------------------------------------------------------- HTML

HOSTILE = (
    "<script>document.title = 'ran'</script><img src=x onerror=\"document.title='ran'\">",
    "</script></style></title></textarea></details><script>document.title='ran'</script>",
    "[link](javascript:document.title='ran') <javascript:alert(1)> [data](data:text/html,x) [x]: javascript:alert(1)",
    '![pixel](https://tracker.invalid/p.png) ![x](x" onerror="alert(1)) [q](https://a.invalid/"onclick="x)',
    "```html\n</code></pre><script>document.title='ran'</script>\n```",
    "```\"><script>alert(1)</script>\nx\n```",
    "\x1b[31mred\x1b]0;ran\x07 \x9b2J \u202egnp.exe\u202c \u2066x\u2069 a\u200bb \x00 \ud800",
    "<!-- --!> <svg/onload=alert(1)> &lt;b&gt; <a href='javascript:alert(1)'>x</a> ' \" `",
    "| a | b |\n|--:|:--|\n| <b onclick=alert(1)> | [x](vbscript:x) |",
    "> " * 60 + "deep",
)  # fmt: skip


class Tags(HTMLParser):
    """Everything in a page that a browser could load or run."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]


async def record_hostile(folder: Path) -> None:
    replies: list[Json | str] = []
    for text in HOSTILE:
        given = text.encode("utf-8", "replace").decode()
        replies += [reply(think(given), say(given), call("Look", what=given)), reply(say(given))]
    await record(folder, *replies, prompts=HOSTILE, tools=[shows("".join(HOSTILE).replace("\ud800", ""))])


async def test_nothing_that_a_model_or_a_tool_wrote_becomes_markup(tmp_path: Path) -> None:
    await record_hostile(tmp_path)
    page, _redactions = export(tmp_path, "html", thinking=True)
    tags = Tags(page)
    assert [tags.names.count(name) for name in ("script", "style", "title", "img", "svg", "iframe", "link")] == [
        *(1, 1, 1, 0, 0, 0, 0),
    ]
    ours = {"menu", "before", "after", "fold", "theme", "list", "find", "hits", "main", "said", "top", "finder"}
    for tag, name, value in tags.attributes:
        assert not name.startswith("on"), (tag, name, value)
        assert name not in ("style", "src", "srcdoc", "action", "formaction"), (tag, name, value)
        assert name != "href" or value.startswith(("#p", "https://")), (tag, name, value)
        assert name != "id" or value in ours or value.startswith("p"), (tag, name, value)
    hidden = {"\x1b", "\x9b", "\x07", "\x00", "\u202e", "\u2066", "\u200b"}
    assert not hidden & set(page)
    assert "&lt;U+202E&gt;gnp.exe" in page


async def test_the_policy_allows_only_the_script_and_the_style_of_the_page(tmp_path: Path) -> None:
    await record(tmp_path, "Hi.")
    page, _redactions = export(tmp_path, "html")
    [policy] = [value for tag, name, value in Tags(page).attributes if tag == "meta" and "default-src" in value]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules.keys() == {"default-src", "style-src", "script-src", "img-src", "base-uri", "form-action"}
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["img-src"] == "data:"
    for name in ("script-src", "style-src"):
        assert rules[name].startswith("'sha256-")
        assert "unsafe" not in rules[name]


async def test_a_very_long_output_is_cut_in_the_middle_and_does_not_take_long(tmp_path: Path) -> None:
    huge = "".join(f"<b>{number}</b>\n" for number in range(350_000))
    await record(tmp_path, reply(call("Look", what="x")), "Done.", tools=[shows(huge)])
    text, _redactions = export(tmp_path, "html")
    assert len(text) < 3 * page.MAX_OUTPUT
    assert "&lt;b&gt;0&lt;/b&gt;" in text
    assert "&lt;b&gt;349999&lt;/b&gt;" in text
    assert "characters left out" in text


def test_images_are_part_of_the_page_as_long_as_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_IMAGES", 100)
    sources = [
        {"type": "base64", "media_type": "image/png", "data": "a" * 40},
        {"type": "base64", "media_type": "image/svg+xml", "data": "PHN2Zz4="},
        {"type": "base64", "media_type": "image/png", "data": '" onerror="x'},
        {"type": "url", "url": "https://tracker.invalid/p.png"},
        {"type": "base64", "media_type": "image/png", "data": "b" * 80},
        {"type": "base64", "media_type": "image/gif", "data": "c="},
    ]
    prompt = Message("user", tuple(map(ImageBlock, sources)), "p", Origin.PROMPT)
    document = describe([prompt], Timeline("s", Path()))
    data, _redactions = export_document(document, "html", context(tmp_path))
    images = [value for tag, name, value in Tags(data.decode()).attributes if (tag, name) == ("img", "src")]
    assert images == [f"data:image/png;base64,{'a' * 40}", "data:image/gif;base64,c="]
    assert data.decode().count("[image of another kind]") == 3
    assert data.decode().count("[image left out: too large for this page]") == 1


def colour_in(css: str, name: str) -> Rgb:
    found = re.search(rf"{name}:(#[0-9a-f]{{6}});", css)
    assert found is not None, name
    colour = parse_colour(found[1])
    assert colour is not None
    assert colour.rgb is not None
    return colour.rgb


def test_every_theme_has_a_counterpart_and_gives_readable_colours() -> None:
    folders = theme_folders(None)
    themes = load_themes(folders)
    for name, theme in themes.items():
        both = choose_themes(name, folders)
        assert (both.active.dark, both.other.dark, both.follows_reader) == (theme.dark, not theme.dark, False)
        css = theme_css(both.active)
        assert "ansi" not in css
        background, foreground, surface, *others = (
            colour_in(css, f"--{name}")
            for name in ("background", "foreground", "surface", "t-muted", "t-link", "t-success", "t-error")
        )
        assert contrast(foreground, surface) > 4.5, theme.name
        assert all(contrast(other, background) > 3 for other in (foreground, *others)), theme.name
    pairs = {
        "solarized-dark": "solarized-light",
        "catppuccin-latte": "catppuccin-mocha",
        "nord": "light",
        "ansi": "light",
    }
    assert {name: choose_themes(name, folders).other.name for name in pairs} == pairs
    assert choose_themes("auto", folders).follows_reader


def test_an_unknown_theme_is_an_error_only_if_it_was_asked_for(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "AGENTCLI_CONFIG_DIR": str(tmp_path)}
    (tmp_path / "settings.json").write_text('{"theme": "gone"}')
    assert read_context(tmp_path, environ).themes.active.name == "dark"
    with pytest.raises(UsageError, match=r"there is no lost\.toml"):
        read_context(tmp_path, environ, "lost")


# -------------------------------------------------------------------------------------------------------------- files


def test_the_ending_of_the_file_decides_the_format() -> None:
    names = {"talk.HTML": "html", "a.htm": "html", "a.zip": "bundle", "a.json": "json", "a.md": "md", "a.txt": "md"}
    assert {name: choose_format(name, None) for name in names} == names
    assert choose_format("a.json", "html") == "html"
    with pytest.raises(UsageError, match="pdf is not a format: use md, json, html or bundle"):
        choose_format("", "pdf")


def test_a_file_is_written_completely_or_not_and_never_through_a_link(tmp_path: Path) -> None:
    target = tmp_path / "new" / "talk.html"
    write_new(target, b"one")
    assert target.read_bytes() == b"one"
    assert target.stat().st_mode & 0o400
    with pytest.raises(FileExistsError):
        write_new(target, b"two")
    write_new(target, b"two", replaces=True)
    assert target.read_bytes() == b"two"
    victim = tmp_path / "victim"
    victim.write_text("mine")
    link = tmp_path / "new" / "link.html"
    link.symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_new(link, b"three")
    write_new(link, b"three", replaces=True)
    assert (victim.read_text(), link.is_symlink(), link.read_bytes()) == ("mine", False, b"three")
    assert sorted(path.name for path in link.parent.iterdir()) == ["link.html", "talk.html"]
    os.mkfifo(pipe := tmp_path / "pipe")
    for other in (pipe, link.parent):
        with pytest.raises(AgentError, match="is no file, so it was not replaced"):
            write_new(other, b"four", replaces=True)


async def test_values_of_another_type_in_a_session_file_do_no_harm(tmp_path: Path) -> None:
    await record_with_secrets(tmp_path)
    path = session_file(tmp_path)
    records = list(read_records(path))
    for place, record in enumerate(records):
        inner = next((name for name in ("event", "message") if name in record), "")
        for name in [*record.get(inner, record), "timestamp"]:
            line: Json = json.loads(json.dumps(record))
            values = line if name == "timestamp" else line.get(inner, line)
            values[name] = 7 if isinstance(values.get(name), str) else "x"
            changed = [*records[:place], line, *records[place + 1 :]]
            path.write_text("".join(f"{json.dumps(one)}\n" for one in changed))
            assert export(tmp_path, "html")[0].endswith("</html>\n")


async def test_lines_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    await record(tmp_path, "Hi.")
    path = session_file(tmp_path)
    path.write_bytes(path.read_bytes() + b"noise\n[\n")
    for format in ("md", "html"):
        text, redactions = export(tmp_path, format)
        assert redactions == (
            "No secrets were recognised. 2 unreadable lines of this session were skipped; they stay in the file."
        )
        assert redactions in text


def test_a_session_that_is_gone_or_has_no_prompts_is_reported(tmp_path: Path) -> None:
    (tmp_path / "noise.jsonl").write_bytes(b"\xff\xfe\n[1]\n{")
    with pytest.raises(AgentError, match="nothing to export"):
        read_document(tmp_path / "noise.jsonl")
    with pytest.raises(AgentError, match="cannot be read: No such file"):
        read_document(tmp_path / "gone.jsonl")
