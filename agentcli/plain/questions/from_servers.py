"""Questions of MCP servers in plain mode: forms field by field, addresses to open, sampling requests."""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.agent.mcp.server_questions import CANCELLED
from agentcli.core import events as ev
from agentcli.core.errors import AgentError
from agentcli.core.messages import Json
from agentcli.core.permission import Answer
from agentcli.core.processes.shell import shown_command
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.core.text.plural import counted
from agentcli.interactive.sampling_price import sampling_price
from agentcli.mcp.input_form import FieldValue, FormField, FormOption, ValueRefused, parse_form
from agentcli.mcp.visit_address import parse_address
from agentcli.plain.output.pieces import TextLine, line, prose
from agentcli.plain.questions.asking import Asking, LetterChoice, QuestionClosed, ask_line, choose, head
from agentcli.plain.questions.subject import rows

_MOST_OPTIONS = 20
"""Most choices listed at once; longer lists are searched."""
_EMPTY = "-"
"""Typed to leave a field with a suggestion empty."""


async def answer_server(event: ev.PermissionRequested, asking: Asking) -> Answer:
    """Ask a server's question. Closing it cancels the request but does not stop the work."""
    asking.show(head(shown_command(plain_line(event.title))))
    try:
        match event.display["kind"]:
            case "mcp_url":
                return await _address(event.display, asking)
            case "mcp_sampling":
                return await _sampling(event.display, asking)
        return await _form(event.display, asking)
    except QuestionClosed:
        return CANCELLED


def _show_message(display: Json, asking: Asking) -> None:
    asking.show(rows(plain_text(str(display.get("message", ""))), "  | "))


# ------------------------------------------------------------------------------------------------------------- forms


async def _form(display: Json, asking: Asking) -> Answer:
    form = parse_form(display["schema"])
    server = plain_line(str(display.get("server", "")), 80)
    _show_message(display, asking)
    text = f"Answers go to the MCP server {server}. Enter no passwords or keys."
    asking.show([prose(shown_command(text), "quiet", "  ")])
    content: dict[str, FieldValue] = form.defaults()
    choices = (LetterChoice("y", "yes, send the answers"), LetterChoice("c", "change them"), LetterChoice("n", "no"))
    first = (LetterChoice("f", "fill in the form"), LetterChoice("n", "no: decline"))
    letter, _rest = await choose(first, asking)
    while letter in ("f", "c"):
        for number, field in enumerate(form.fields, 1):
            value = await _field(field, f"{number} of {len(form.fields)}", content.get(field.name), asking)
            content.pop(field.name, None)
            if value is not None:
                content[field.name] = value
        asking.show(
            [
                line(_shown(field, content[field.name]), "text", f"  {_label(field)}: ")
                for field in form.fields
                if field.name in content
            ]
        )
        letter, _rest = await choose(choices, asking)
    return Answer("allow", updated_input={"content": content}) if letter == "y" else Answer("deny")


async def _field(field: FormField, count: str, now: FieldValue | None, asking: Asking) -> FieldValue | None:
    required = " (required)" if field.required else ""
    about = [plain_line(field.description, 1_000), plain_line(field.hint, 300)]
    asking.show([TextLine(((f"  {_label(field)}{required}", "strong"), (f"  {count}", "quiet")))])
    asking.show([prose(shown_command(each), "quiet", "    ") for each in about if each])
    if field.asks_for_secret:
        text = "It seems to ask for a secret. A server must not do that with a form."
        asking.show([prose(text, "warning", "  ! ", "warning")])
    while True:
        try:
            value = await _typed(field, now, asking)
            problem = field.problem(value)
        except ValueRefused as refused:
            problem = str(refused)
        if not problem:
            return value
        asking.show([prose(problem, "warning", "! ", "warning")])


async def _typed(field: FormField, now: FieldValue | None, asking: Asking) -> FieldValue | None:
    """Ask for the value of a field. An empty line keeps the present value. Raises `ValueRefused`."""
    if field.options:
        return await _options(field, now, asking)
    kept = _kept(field, now)
    if field.kind == "boolean":
        text = (await ask_line(asking, f"  yes or no{kept}: ")).strip().lower()
        known: dict[str, FieldValue | None] = {"y": True, "yes": True, "n": False, "no": False, "": now, _EMPTY: None}
        if text not in known:
            raise ValueRefused("Answer yes or no.")
        return known[text]
    how = "e opens your editor" if field.is_long else ""
    text = await ask_line(asking, f"  {f'({how}) ' if how else ''}value{kept}: ")
    if not text.strip():
        return now
    if text.strip() == _EMPTY:
        return None
    if how and text.strip() == "e":
        try:
            text = (await asking.edit(plain_text(str(now or "")))).rstrip("\n")
        except AgentError as error:
            raise ValueRefused(str(error)) from None
    return field.parse(plain_text(text))


async def _options(field: FormField, now: FieldValue | None, asking: Asking) -> FieldValue | None:
    several = field.kind == "choices"
    found: Sequence[FormOption] = field.options
    while True:
        for number, option in enumerate(found[:_MOST_OPTIONS], 1):
            asking.show([prose(shown_command(plain_line(option.label)), "text", f"    {number}  ", "mark")])
        if len(found) > _MOST_OPTIONS:
            asking.show([prose(f"{counted(len(found) - _MOST_OPTIONS, 'more choice')}", "quiet", "    ")])
        how = "numbers with commas" if several else "a number"
        search = ", or text to search" if len(field.options) > _MOST_OPTIONS else ""
        text = (await ask_line(asking, f"  {how}{search}{_kept(field, now)}: ")).strip()
        if text in ("", _EMPTY):
            return now if not text else None
        picked = _numbers(text, min(len(found), _MOST_OPTIONS), several)
        if picked is not None:
            values = [found[place].value for place in picked]
            return values if several else values[0]
        if not search:
            raise ValueRefused(f"Type {how} from 1 to {len(found)}.")
        found = [option for option in field.options if text.lower() in option.label.lower()]


def _numbers(text: str, most: int, several: bool) -> list[int] | None:
    """Parse list positions, counted from 0; None if the text is something else."""
    words = [word.strip() for word in text.split(",")] if several else [text]
    if not all(word.isdecimal() and len(word) < 6 and 1 <= int(word) <= most for word in words):
        return None
    return [int(word) - 1 for word in dict.fromkeys(words)]


def _label(field: FormField) -> str:
    return shown_command(plain_line(field.label, 80))


def _kept(field: FormField, now: FieldValue | None) -> str:
    """Hint that names the value which Enter keeps."""
    if now is None:
        return ""
    empty = "" if field.required else f"; {_EMPTY}: empty"
    return f" (Enter: {_shown(field, now)}{empty})"


def _shown(field: FormField, value: FieldValue) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if field.options:
        picked = value if isinstance(value, list) else [value]
        value = ", ".join(option.label for option in field.options if option.value in picked) or "none"
    return shown_command(plain_line(str(value)))


# ------------------------------------------------------------------------------------------- addresses and sampling


async def _address(display: Json, asking: Asking) -> Answer:
    address = parse_address(str(display["url"]))
    _show_message(display, asking)
    before, after = address.text[: address.host_start], address.text[address.host_end :]
    asking.show([TextLine((("  ", "text"), (before, "quiet"), (address.host, "strong"), (after, "quiet")))])
    asking.show([prose(shown_command(each), "warning", "  ! ", "warning") for each in address.warnings])
    choices = (
        LetterChoice("y", "yes, open it in the browser"),
        LetterChoice("m", "manually: I open it"),
        LetterChoice("n", "no: decline"),
    )
    letter, _rest = await choose(choices, asking)
    return Answer("deny") if letter == "n" else Answer("allow", updated_input={"open": letter == "y"})


async def _sampling(display: Json, asking: Asking) -> Answer:
    parts = [("system prompt", str(display["system"]))] if display.get("system") else []
    parts += [(str(each["role"]), str(each["text"])) for each in display["messages"]]
    for name, text in parts:
        asking.show([line(plain_line(name), "quiet", "  "), *rows(plain_text(text), "  | ")])
    asking.show([line(plain_line(str(display["model"])), "text", "  model: ")])
    asking.show([prose(sampling_price(display), "text", "  cost: ")])
    choices = [LetterChoice("y", "yes, once")]
    if display["most_usd"] is not None:
        choices.append(LetterChoice("a", "always in this session, within its budget"))
    letter, _rest = await choose([*choices, LetterChoice("n", "no: decline")], asking)
    if letter == "n":
        return Answer("deny")
    return Answer("allow", updated_input={"scope": "session" if letter == "a" else "once"})
