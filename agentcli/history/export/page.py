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
from string import Template

from agentcli.core.messages import Json
from agentcli.core.text.format import counted, duration, local_time, money, token_count
from agentcli.core.text.plaintext import plain_line, plain_text, spell_hidden
from agentcli.core.text.unified_diff import parse
from agentcli.core.usage import Usage
from agentcli.history.export.code_tokens import language_of
from agentcli.history.export.markdown import command_of, describe_outcome, title_of_document
from agentcli.history.export.page_markdown import COPY_BUTTON, code_block, code_lines, markdown_html, safe
from agentcli.history.export.page_theme import PageThemes, theme_css

MAX_OUTPUT = 400_000
"""Characters shown of one output; the middle of a longer one is left out."""
MAX_IMAGES = 20 * 1024 * 1024
"""Bytes of all images together, encoded."""
_OPEN_DIFF_LINES = 60
_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=\s]+")
_KINDS = {"+": "added", "-": "removed"}
_MARKS = {"done": "✓", "failed": "✗", "denied": "⊘", "interrupted": "◼", "unfinished": "…"}


def to_html(document: Json, themes: PageThemes, redactions: str) -> str:
    folder = Path(__file__).parent
    style = "\n".join([(folder / "page.css").read_text("utf-8"), theme_css(themes.active), theme_css(themes.other)])
    script = (folder / "page.js").read_text("utf-8")
    images, prompts = _Images(), document["prompts"]
    return Template((folder / "page.html").read_text("utf-8")).substitute(
        theme="dark" if themes.active.dark else "light",
        follows="data-auto" if themes.follows_reader else "",
        style=style,
        style_digest=_digest(style),
        script=script,
        script_digest=_digest(script),
        program=escape(document["program"]),
        title=escape(title_of_document(document)),
        facts=_facts(document["session"]),
        entries="\n".join(_entry(prompt) for prompt in prompts if prompt["number"]),
        prompts="\n".join(part for prompt in prompts for part in _prompt(prompt, images)),
        redactions=safe(redactions),
    )


def _digest(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _entry(prompt: Json) -> str:
    calls = sum(item["type"] == "call" for item in prompt["items"])
    facts = [money(prompt["cost_usd"]) if prompt["cost_usd"] else "", counted(calls, "call") if calls else ""]
    return (
        f'<li><a href="#p{prompt["number"]}"><b>{prompt["number"]}</b>'
        f"<div><span>{escape(plain_line(prompt['text'], 120)) or '(no text)'}</span>"
        f"<small>{' · '.join(filter(None, facts))}</small></div></a></li>"
    )


def _facts(session: Json) -> str:
    rows = [
        ("When", local_time(session["began"])),
        ("Folder", plain_line(session["folder"], 300)),
        ("Model", ", ".join(map(plain_line, session["models"]))),
        ("Size", f"{counted(session['prompts'], 'prompt')}, {counted(session['calls'], 'tool call')}"),
        ("Cost", money(session["cost_usd"]) if session["cost_usd"] is not None else ""),
    ]
    return "".join(f"<div><dt>{name}</dt><dd>{safe(value)}</dd></div>" for name, value in rows if value)


def _prompt(prompt: Json, images: _Images) -> Iterator[str]:
    yield f'<section class="prompt" id="p{prompt["number"]}">'
    if prompt["number"]:
        yield from _typed(prompt, f"Prompt {prompt['number']}", local_time(prompt["at"]), images)
    for item in prompt["items"]:
        yield from _item(item, images)
    if facts := _describe_cost(prompt):
        yield f'<p class="cost">{escape(facts)}</p>'
    yield "</section>"


def _typed(prompt: Json, label: str, at: str, images: _Images) -> Iterator[str]:
    files = "".join(f"<li>{safe(plain_line(name))}</li>" for name in prompt.get("attached", ()))
    yield f'<article class="user"><header><b>{label}</b><time>{escape(at)}</time>{COPY_BUTTON}</header>'
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
        source = safe(item["text"].strip("\n"))
        button = COPY_BUTTON.replace(">", f' data-source="{source}">', 1)
        yield f'<article class="answer">{button}{markdown_html(item["text"])}</article>'
    elif kind in ("thinking", "summary"):
        label = "Thinking" if kind == "thinking" else "Summary of the conversation so far"
        inner = markdown_html(item["text"])
        yield f'<details class="thinking"><summary>{label}</summary><div>{inner}</div></details>'
    else:
        yield f'<p class="notice">{safe(item.get("text") or "Interrupted")}</p>'


def _call(call: Json, images: _Images) -> Iterator[str]:
    outcome, diff = call["outcome"], plain_text(call["diff"]).strip("\n")
    name, _blank, subject = plain_line(call["title"], 300).partition(" ")
    changes = f"{counted(call['files'], 'file')} changed" if call["files"] else ""
    facts = [
        describe_outcome(call),
        plain_line(call["summary"], 120),
        f"+{call['added']} −{call['removed']}" if call["added"] or call["removed"] else changes,
        duration(call["duration_ms"] / 1_000) if call["duration_ms"] >= 100 else "",
    ]
    shown = " · ".join(filter(None, dict.fromkeys(facts)))
    is_open = " open" if diff and diff.count("\n") < _OPEN_DIFF_LINES else ""
    yield (
        f'<details class="call {outcome}"{is_open}><summary><i>{_MARKS.get(outcome, "")}</i>'
        f'<span class="title"><b>{escape(name)}</b> {escape(subject)}</span><small>{safe(shown)}</small></summary><div>'
    )
    command = command_of(call)
    if command not in subject:
        yield code_block(command, "bash")
    elif not command and not diff and not call["output"]:
        fields = (f"{key}: {value}" for key, value in call["input"].items())
        yield f"<pre>{safe(_cut('; '.join(fields)))}</pre>"
    if diff:
        yield diff_html(diff, call["path"])
    output = _cut(call["output"].strip("\n"))
    if output and not (diff and outcome == "done" and "\n" not in output):
        yield f'<div class="code output">{COPY_BUTTON}<pre>{safe(output)}</pre></div>'
    yield from map(images.show, call["images"])
    yield "</div></details>"


def _cut(text: str) -> str:
    hidden = len(text) - MAX_OUTPUT
    if hidden <= 0:
        return text
    half = MAX_OUTPUT // 2
    return f"{text[:half]}\n\n… {counted(hidden, 'character')} left out …\n\n{text[-half:]}"


def diff_html(diff: str, path: str) -> str:
    """A unified diff with line numbers; its signs can be read without colour. As in the app, only lines that exist
    after the change are highlighted."""
    rows = []
    for hunk in parse(spell_hidden(diff)):
        if hunk.title:
            rows.append(f'<span class="hunk">{escape(hunk.title)}\n</span>')
        after = "\n".join(line.text for line in hunk.lines if line.sign in (" ", "+"))
        kept = iter(code_lines(after, language_of(path)))
        for line in hunk.lines:
            text = next(kept) if line.sign in (" ", "+") else escape(line.text)
            kind, number = _KINDS.get(line.sign, "same"), line.old if line.sign == "-" else line.new
            rows.append(f'<span class="{kind}" data-line="{number or ""}">{line.sign}{text}\n</span>')
    return f'<div class="code diff">{COPY_BUTTON}<pre>{"".join(rows)}</pre></div>'


def _describe_cost(prompt: Json) -> str:
    usage = Usage.from_wire(prompt["usage"])
    tokens = f"{token_count(usage.prompt_tokens)} tokens in, {token_count(usage.output_tokens)} out"
    cached = f"{token_count(usage.cache_read_input_tokens)} from the cache" if usage.cache_read_input_tokens else ""
    cost = money(prompt["cost_usd"]) if prompt["cost_usd"] is not None else ""
    parts = [*map(plain_line, prompt["models"]), tokens if usage.context_tokens else "", cached, cost]
    return " · ".join(filter(None, [*parts, "" if prompt["finished"] else "not finished"]))


class _Images:
    """Shows images as part of the page, as long as there is room."""

    def __init__(self) -> None:
        self._room = MAX_IMAGES

    def show(self, image: Json) -> str:
        address = f"data:{image['media_type']};base64,{image['data']}"
        if not _IMAGE.fullmatch(address):
            return '<p class="notice">[image of another kind]</p>'
        if len(address) > self._room:
            return '<p class="notice">[image left out: too large for this page]</p>'
        self._room -= len(address)
        return f'<img alt="" src="{escape(address)}">'
