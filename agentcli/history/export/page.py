"""A session as one HTML file that needs nothing else, not even a network.

Everything untrusted is escaped, and the page's own policy allows one script and one style sheet, by their digests:
nothing that a model or a file wrote can run or load anything.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html import escape
from pathlib import Path

from agentcli.core.messages import Json
from agentcli.core.text.format import counted, duration, money, token_count
from agentcli.core.text.plaintext import plain_line, plain_text, spell_hidden
from agentcli.core.usage import Usage
from agentcli.history.export.code_tokens import language_of, token_lines
from agentcli.history.export.markdown import branch_name, local_time, title_of_document
from agentcli.history.export.page_markdown import code_block, markdown_html, safe, token_html
from agentcli.history.export.page_theme import PageThemes, theme_css

MAX_OUTPUT = 400_000
"""Characters shown of one output; the middle of a longer one is left out."""
MAX_IMAGES = 20 * 1024 * 1024
"""Bytes of all images together, encoded."""
_OPEN_DIFF_LINES = 60
_IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]+")
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)")
_MARKS = {"done": "✓", "failed": "✗", "denied": "⊘", "interrupted": "◼", "unfinished": "…"}


def to_html(document: Json, themes: PageThemes, redactions: str) -> str:
    folder = Path(__file__).parent
    style = "\n".join([(folder / "page.css").read_text("utf-8"), theme_css(themes.active), theme_css(themes.other)])
    script = (folder / "page.js").read_text("utf-8")
    title = escape(title_of_document(document))
    prompts = [prompt for branch in document["branches"] for prompt in branch["prompts"]]
    images = _Images()
    policy = f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; img-src data:"
    theme = f'data-theme="{"dark" if themes.active.dark else "light"}"{" data-auto" if themes.follows_reader else ""}'
    parts = [
        f'<!doctype html>\n<html lang="en" {theme}>\n<head>',
        '<meta charset="utf-8">',
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}; base-uri 'none'; form-action 'none'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f'<meta name="generator" content="{escape(document["program"])}">',
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>",
        _top(title),
        '<nav id="list" aria-label="Prompts"><ol>',
        *map(_entry, (prompt for prompt in prompts if prompt["number"])),
        '</ol></nav>\n<main id="main">',
        *_facts(document["session"], title),
    ]
    for branch in document["branches"]:
        if len(document["branches"]) > 1:
            parts.append(f'<h2 class="branch">⑂ {safe(branch_name(branch))}</h2>')
        for prompt in branch["prompts"]:
            parts += _prompt(prompt, images)
    parts.append(f"<footer><p>Exported by {escape(document['program'])}. {safe(redactions)}</p></footer>")
    parts.append(f'</main>\n<div id="said" role="status"></div>\n<script>{script}</script>\n</body>\n</html>\n')
    return "\n".join(parts)


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _top(title: str) -> str:
    return f"""<header id="top">
<button id="menu" type="button" aria-label="List of prompts" aria-controls="list">☰</button>
<strong>{title}</strong>
<div id="finder" role="search"><input id="find" type="search" placeholder="Search" aria-label="Search"
 aria-keyshortcuts="/"><kbd>/</kbd><output id="hits" aria-live="polite"></output>
<button id="before" type="button" aria-label="Previous match">↑</button>
<button id="after" type="button" aria-label="Next match">↓</button></div>
<button id="fold" type="button" aria-label="Open or close all calls" title="Open or close all calls">⇕</button>
<button id="theme" type="button" aria-label="Light or dark" title="Light or dark">◐</button>
</header>"""


def _entry(prompt: Json) -> str:
    text = plain_line(prompt["text"], 120) or "(no text)"
    facts = [money(prompt["cost_usd"])] if prompt["cost_usd"] else []
    calls = [item for item in prompt["items"] if item["type"] == "call"]
    facts += [counted(len(calls), "call")] if calls else []
    return (
        f'<li><a href="#{_anchor(prompt)}"><b>{prompt["number"]}</b><div><span>{escape(text)}</span>'
        f"<small>{' · '.join(facts)}</small></div></a></li>"
    )


def _anchor(prompt: Json) -> str:
    return f"p{sha256(str(prompt['id']).encode('utf-8', 'replace')).hexdigest()[:12]}"


def _facts(session: Json, title: str) -> Iterator[str]:
    yield f"<h1>{title}</h1>"
    rows = [
        ("When", local_time(session["began"])),
        ("Folder", plain_line(session["folder"], 300)),
        ("Model", ", ".join(map(plain_line, session["models"]))),
        ("Size", f"{counted(session['prompts'], 'prompt')}, {counted(session['calls'], 'tool call')}"),
        ("Cost", money(session["cost_usd"]) if session["cost_usd"] is not None else ""),
    ]
    shown = "".join(f"<div><dt>{name}</dt><dd>{safe(value)}</dd></div>" for name, value in rows if value)
    yield f'<dl class="facts">{shown}</dl>'


def _prompt(prompt: Json, images: _Images) -> Iterator[str]:
    yield f'<section class="prompt" id="{_anchor(prompt)}">'
    if prompt["number"]:
        yield from _typed(prompt, f"Prompt {prompt['number']}", local_time(prompt["at"]), images)
    for item in prompt["items"]:
        yield from _item(item, images)
    if facts := _describe_cost(prompt):
        yield f'<p class="cost">{escape(facts)}</p>'
    yield "</section>"


def _typed(prompt: Json, label: str, at: str, images: _Images) -> Iterator[str]:
    files = "".join(f"<li>{safe(plain_line(name))}</li>" for name in prompt.get("attached", ()))
    yield f'<article class="user"><header><b>{label}</b><time>{escape(at)}</time>{_copy_button()}</header>'
    yield f'<div class="typed">{safe(prompt["text"].strip())}</div>'
    if files:
        yield f'<ul class="files">{files}</ul>'
    yield from map(images.show, prompt["images"])
    yield "</article>"


def _item(item: Json, images: _Images) -> Iterator[str]:
    kind = item["type"]
    if kind == "call":
        yield from _call(item, images)
    elif kind == "queued":
        yield from _typed(item, "Sent meanwhile", "", images)
    elif kind == "text":
        source = escape(spell_hidden(plain_text(item["text"].strip("\n"))))
        yield f'<article class="answer">{_copy_button(source)}{markdown_html(item["text"])}</article>'
    elif kind in ("thinking", "summary"):
        label = "Thinking" if kind == "thinking" else "Summary of the conversation so far"
        inner = markdown_html(item["text"])
        yield f'<details class="thinking"><summary>{label}</summary><div>{inner}</div></details>'
    else:
        yield f'<p class="notice">{safe(item.get("text") or "Interrupted")}</p>'


def _copy_button(source: str = "") -> str:
    """`source`: the escaped text to copy, where it is not the one that is shown."""
    data = f' data-source="{source}"' if source else ""
    return f'<button class="copy" type="button"{data}>Copy</button>'


def _call(call: Json, images: _Images) -> Iterator[str]:
    outcome, diff = call["outcome"], plain_text(call["diff"]).strip("\n")
    name, _blank, subject = plain_line(call["title"], 300).partition(" ")
    facts = [plain_line(call["summary"], 120)]
    if outcome != "done":
        by = f" by {call['denied_by']}" if call["denied_by"] else ""
        facts.insert(0, f"{'no result' if outcome == 'unfinished' else outcome}{by}")
    if call["added"] or call["removed"]:
        facts.append(f"+{call['added']} −{call['removed']}")
    elif call["files"]:
        facts.append(f"{counted(call['files'], 'file')} changed")
    facts += [duration(call["duration_ms"] / 1_000)] if call["duration_ms"] >= 100 else []
    shown = " · ".join(fact for fact in dict.fromkeys(facts) if fact)
    is_open = " open" if diff and diff.count("\n") < _OPEN_DIFF_LINES else ""
    yield (
        f'<details class="call {outcome}"{is_open}><summary><i>{_MARKS.get(outcome, "")}</i>'
        f'<span class="title"><b>{escape(name)}</b> {escape(subject)}</span><small>{safe(shown)}</small></summary><div>'
    )
    command = str(call["input"].get("command") or "") if call["name"] == "Bash" else ""
    if command and command not in subject:
        yield code_block(command, "bash")
    elif not command and not diff and not call["output"]:
        fields = (f"{key}: {value}" for key, value in call["input"].items())
        yield f"<pre>{safe(_cut('; '.join(fields)))}</pre>"
    if diff:
        yield diff_html(diff, call["path"])
    output = _cut(call["output"].strip("\n"))
    if output and not (diff and outcome == "done" and "\n" not in output):
        yield f'<div class="code output">{_copy_button()}<pre>{safe(output)}</pre></div>'
    yield from map(images.show, call["images"])
    yield "</div></details>"


def _cut(text: str) -> str:
    hidden = len(text) - MAX_OUTPUT
    if hidden <= 0:
        return text
    half = MAX_OUTPUT // 2
    return f"{text[:half]}\n\n… {counted(hidden, 'character')} left out …\n\n{text[-half:]}"


def diff_html(diff: str, path: str) -> str:
    """A unified diff with line numbers, coloured by language; its signs can be read without colour."""
    lines = [spell_hidden(line) for line in diff.split("\n")]
    bodies = [line[1:] if line[:1] in ("+", "-", " ") else "" for line in lines]
    language = language_of(path)
    tokens = {
        # Each side is read as one text: strings and comments may span lines.
        signs: dict(zip(found, token_lines("\n".join(bodies[at] for at in found), language) or (), strict=False))
        for signs in ("+ ", "- ")
        for found in ([at for at, line in enumerate(lines) if line[:1] in signs],)
    }
    old = new = 0
    rows = []
    for at, line in enumerate(lines):
        sign = line[:1]
        if (hunk := _HUNK.match(line)) is not None:
            old, new = int(hunk[1]), int(hunk[2])
            rows.append(f'<span class="hunk">{escape(line)}\n</span>')
        elif sign in ("+", "-", " ") and sign:
            runs = tokens["- " if sign == "-" else "+ "].get(at)
            body = escape(bodies[at]) if runs is None else token_html(runs)
            number = (old if sign == "-" else new) or ""
            kind = {"+": "added", "-": "removed"}.get(sign, "same")
            rows.append(f'<span class="{kind}" data-line="{number}">{sign}{body}\n</span>')
            old, new = old + (sign != "+" and old > 0), new + (sign != "-" and new > 0)
        else:
            rows.append(f'<span class="same" data-line="">{escape(line)}\n</span>')
    return f'<div class="code diff">{_copy_button()}<pre>{"".join(rows)}</pre></div>'


def _describe_cost(prompt: Json) -> str:
    usage, turns = Usage.from_wire(prompt["usage"]), [one for one in prompt["requests"] if one["purpose"] == "turn"]
    parts = [", ".join(map(plain_line, prompt["models"]))]
    if turns:
        parts.append(counted(len(turns), "request"))
    if usage.context_tokens:
        parts.append(f"{token_count(usage.prompt_tokens)} tokens in, {token_count(usage.output_tokens)} out")
    if usage.cache_read_input_tokens:
        parts.append(f"{token_count(usage.cache_read_input_tokens)} from the cache")
    if prompt["cost_usd"] is not None:
        parts.append(money(prompt["cost_usd"]))
    if not prompt["finished"]:
        parts.append("not finished")
    return " · ".join(filter(None, parts))


class _Images:
    """Shows images as part of the page, as long as there is room."""

    def __init__(self) -> None:
        self._room = MAX_IMAGES

    def show(self, image: Json) -> str:
        data, kind = image["data"], image["media_type"]
        if kind not in _IMAGE_TYPES or not _BASE64.fullmatch(data):
            return '<p class="notice">[image of another kind]</p>'
        if len(data) > self._room:
            return '<p class="notice">[image left out: too large for this page]</p>'
        self._room -= len(data)
        return f'<img alt="" src="data:{kind};base64,{escape(data)}">'
