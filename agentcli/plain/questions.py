"""Questions in plain mode: printed as lines, answered by a letter, a digit or a word and Enter.

Any other line repeats the question, so that a user who was typing something else does not answer by accident. Nothing
is ever cut. Characters that could deceive a reader (control, zero-width, direction) are spelled out; trailing spaces
are shown as dots, because they are part of the line but invisible.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from agentcli.core import events as ev
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.messages import Json
from agentcli.core.permission import Answer
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line, plain_text, show_command
from agentcli.interactive.questions import model as ask
from agentcli.interactive.questions.kinds import FormQuestion, PagedQuestion, QuestionPage, TextQuestion, question_for
from agentcli.interactive.questions.model import AnswerChoice, Question, answer_of
from agentcli.interactive.questions.permission import AlwaysChoice, PermissionQuestion, edit_rules
from agentcli.mcp.user_input import FieldValue, FormField, FormOption, ValueRefused
from agentcli.permissions.rules import show_rule
from agentcli.plain.pieces import Gap, Piece, TextLine, TextRuns, TextStyle, line, prose

if TYPE_CHECKING:
    from agentcli.plain.session import PlainSession

MAX_OPTIONS = 20
"""Maximum choices listed at once; longer lists are searched."""
_EMPTY = "-"
"""Typed to leave a field with a suggestion empty."""


class QuestionClosed(Exception):
    """Esc or Ctrl+C."""


async def answer_to(event: ev.PermissionRequested | ev.CompactionProposed, asking: PlainSession) -> Answer | None:
    """None: the user closed the question, which stops the work."""
    return await answer_question(question_for(event), asking)


async def answer_question(question: Question, asking: PlainSession) -> Answer | None:
    try:
        match question:
            case PermissionQuestion():
                return await _permission(question, asking)
            case TextQuestion():
                return await _text(question, asking)
            case PagedQuestion():
                return await _pages(question, asking)
            case FormQuestion():
                return await _form(question, asking)
        _show_question(question, asking)
        return answer_of(*await choose(question.choices, asking))
    except QuestionClosed:
        return question.closed


def _show_question(question: Question, asking: PlainSession) -> None:
    asking.write([*_head(question.title, question.agent), *_pieces((*question.details, *question.summary))])


def _head(title: str, agent: str) -> list[Piece]:
    whose = f" (asked by {plain_line(agent)})" if agent else ""
    return [Gap(), prose(f"{show_command(plain_line(title))}{whose}", "warning", "? ", "warning")]


def _warn(text: str, asking: PlainSession) -> None:
    asking.write([prose(show_command(text), "warning", "! ", "warning")])


# ------------------------------------------------------------------------------------------------------------- choosing


async def choose(choices: Sequence[AnswerChoice], asking: PlainSession) -> tuple[AnswerChoice, str]:
    """The choice that was made by its letter, number or first word, and the text typed after it."""
    offered = [choice for choice in choices if not choice.refused]
    for place, choice in enumerate(offered, 1):
        letter = choice.letter or choice.key or " "
        runs: TextRuns = ((f"  {place} ", "quiet"), (letter, "mark"), ("  ", "text"), (choice.typed_label, "text"))
        asking.write([TextLine(runs, prose=True)])
    while True:
        word, _blank, rest = (await _ask_line(asking, "Answer: ")).strip().partition(" ")
        for place, choice in enumerate(offered, 1):
            known = (choice.letter or choice.key, str(place), choice.typed_label.split(" ")[0].strip(",:"))
            if word and word.lower() in known and (choice.takes_words or not rest):
                return choice, rest.strip()
        letters = [letter for choice in offered if (letter := choice.letter or choice.key)]
        one = f"one of {', '.join(letters)}, or its digit," if letters else f"a number from 1 to {len(offered)}"
        _warn(f"Type {one} and Enter. Esc closes the question.", asking)


async def _words_for(choice: AnswerChoice, typed: str, asking: PlainSession) -> str:
    return typed if typed or choice.words is None else await _ask_line(asking, f"{choice.words.question} ")


async def _ask_line(asking: PlainSession, prompt: str) -> str:
    text = await asking.read(prompt)
    if text is None:
        raise QuestionClosed
    return text


async def _edit(text: str, asking: PlainSession) -> str:
    try:
        return plain_text(await asking.edit(plain_text(text)))
    except AgentError as error:
        asking.write([prose(str(error), "error", "! ", "error")])
        return text


# ---------------------------------------------------------------------------------------------------------- permissions


async def _permission(question: PermissionQuestion, asking: PlainSession) -> Answer:
    offered = question.offered
    always = offered[0] if offered else None
    choices, places = list(question.choices), {place.letter: place for place in question.places}
    if offered:
        choices += [AnswerChoice("always", place.line, place.letter) for place in question.places[1:]]
        choices.append(AnswerChoice("rule", "rule: choose another rule for always, or edit it", "r"))
    _show_question(question, asking)
    while True:
        asking.write(_rule_pieces(always))
        choice, words = await choose(choices, asking)
        if choice.name == "rule" and always is not None:
            always = await _other_rule(offered, always, asking)
        elif choice.name == "always" and always is not None:
            if not always.risk or await _confirm_risk(always.risk, asking):
                return always.answer(places[choice.key])
        else:
            return answer_of(choice, await _words_for(choice, words, asking))


async def _confirm_risk(risk: str, asking: PlainSession) -> bool:
    return (await _ask_line(asking, f"{risk} Type yes to save it: ")).strip().lower() == "yes"


def _rule_pieces(always: AlwaysChoice | None) -> list[Piece]:
    """Show in full what "always" would save."""
    if always is None:
        return []
    pieces: list[Piece] = [line(show_command(show_rule(rule)), "text", "  rule for always: ") for rule in always.rules]
    pieces.append(prose(show_command(always.covers), "quiet", "  covers: "))
    pieces += [prose(show_command(always.note), "quiet", "  note: ")] if always.note else []
    pieces += [prose(show_command(always.risk), "warning", "  ! ", "warning")] if always.risk else []
    return pieces


async def _other_rule(offered: Sequence[AlwaysChoice], always: AlwaysChoice, asking: PlainSession) -> AlwaysChoice:
    """Let the user pick another offered rule or edit the current one. Esc keeps the current one."""
    for number, choice in enumerate(offered, 1):
        rules = ", ".join(show_rule(rule) for rule in choice.rules)
        asking.write([prose(show_command(f"{rules}  (covers {choice.covers})"), "text", f"  {number}  ", "mark")])
    while True:
        text = await asking.read("A number, e to edit, or Enter to keep it: ")
        if text is None or not text.strip():
            return always
        if text.strip().isdecimal() and 1 <= int(text) <= len(offered):
            return offered[int(text) - 1]
        if text.strip().lower() == "e":
            return await _ask_edited_rule(always, offered, asking)
        _warn(f"Type a number from 1 to {len(offered)}, e, or only Enter.", asking)


async def _ask_edited_rule(always: AlwaysChoice, offered: Sequence[AlwaysChoice], asking: PlainSession) -> AlwaysChoice:
    while True:
        typed: list[str] = []
        for rule in always.rules:
            text = await asking.read(f"New rule instead of {show_command(rule)} (Enter keeps it): ")
            if text is None:
                return always
            typed.append(text if text.strip() else rule)
        try:
            return edit_rules(always, typed, offered)
        except UsageError as error:
            _warn(str(error), asking)


# ---------------------------------------------------------------------------------------------------------- other kinds


async def _text(question: TextQuestion, asking: PlainSession) -> Answer:
    text = question.text
    while True:
        # The source: rendered Markdown hides comments and link targets.
        asking.write([*_head(question.title, question.agent), *_rows(text), *_pieces(question.summary)])
        choices = question.choices_for(text)
        for reason in {choice.refused for choice in choices if choice.refused}:
            _warn(f"{reason[0].upper()}{reason[1:]}.", asking)
        choice, words = await choose(choices, asking)
        if choice.name == "edit":
            text = await _edit(text, asking)
        elif choice.name == "original":
            text = question.text
        else:
            return question.answer(choice, text, await _words_for(choice, words, asking))


async def _pages(question: PagedQuestion, asking: PlainSession) -> Answer:
    given = []
    for number, page in enumerate(question.pages, 1):
        count = f" {number} of {len(question.pages)}" if len(question.pages) > 1 else ""
        asking.write(_head(f"Question{count}: {page.text}", question.agent))
        given.append(await _page(page, question.other, asking))
    return question.answer(given)


async def _page(page: QuestionPage, other: str, asking: PlainSession) -> list[str]:
    labels = [label for label, _description in page.options]
    for number, (label, description) in enumerate(page.options, 1):
        said = f"{label}: {plain_line(description, 1_000)}" if description else label
        asking.write([prose(show_command(said), "text", f"  {number}  ", "mark")])
    how = "Numbers with commas, your own answer, or both" if page.several else "A number, or your own answer"
    if other:
        how = f"{'Numbers with commas' if page.several else 'A number'}, or {other[0].lower()}{other[1:]}"
    letter = ""
    while True:
        text = (await _ask_line(asking, f"{how}: ")).strip()
        words = [word.strip() for word in text.split(",")] if page.several else [text]
        numbers = [int(word) for word in words if word.isdecimal()]
        own = text if not numbers else ", ".join(word for word in words if word and not word.isdecimal())
        if not all(1 <= number <= len(labels) for number in numbers):
            _warn(f"{counted(len(labels), 'answer')} to choose from.", asking)
        elif len(text) == 1 and not numbers and text != letter:
            # It may be meant for a question about a permission.
            letter = text
            _warn("One letter: type it again to send it as your answer.", asking)
        else:
            picked = [labels[number - 1] for number in dict.fromkeys(numbers)]
            return [*picked, plain_text(own)] if own else picked


# ----------------------------------------------------------------------------------------------------- forms of servers


async def _form(question: FormQuestion, asking: PlainSession) -> Answer:
    form, decline = question.form, question.choice("decline")
    _show_question(question, asking)
    content: dict[str, FieldValue] = form.defaults()
    choice, _words = await choose((AnswerChoice("fill", "Fill in the form", "f"), decline), asking)
    while choice.name in ("fill", "change"):
        for number, field in enumerate(form.fields, 1):
            value = await _field(field, f"{number} of {len(form.fields)}", content.get(field.name), asking)
            content.pop(field.name, None)
            if value is not None:
                content[field.name] = value
        filled = [field for field in form.fields if field.name in content]
        asking.write([line(_show_value(one, content[one.name]), "text", f"  {_label(one)}: ") for one in filled])
        change = AnswerChoice("change", "Change them", "c")
        choice, _words = await choose((question.choice("accept"), change, decline), asking)
    return question.answer(content) if choice.name == "accept" else answer_of(choice)


async def _field(field: FormField, count: str, now: FieldValue | None, asking: PlainSession) -> FieldValue | None:
    required = " (required)" if field.required else ""
    about = [plain_line(field.description, 1_000), plain_line(field.hint, 300)]
    asking.write([TextLine(((f"  {_label(field)}{required}", "strong"), (f"  {count}", "quiet")))])
    asking.write([prose(show_command(each), "quiet", "    ") for each in about if each])
    if field.asks_for_secret:
        _warn("It seems to ask for a secret. A server must not do that with a form.", asking)
    while True:
        try:
            value = await _ask_value(field, now, asking)
            problem = field.problem(value)
        except ValueRefused as refused:
            problem = str(refused)
        if not problem:
            return value
        _warn(problem, asking)


async def _ask_value(field: FormField, now: FieldValue | None, asking: PlainSession) -> FieldValue | None:
    """Ask for the value of a field. An empty line keeps the present value. Raises `ValueRefused`."""
    if field.options:
        return await _ask_option(field, now, asking)
    kept = _keep_hint(field, now)
    if field.kind == "boolean":
        text = (await _ask_line(asking, f"  yes or no{kept}: ")).strip().lower()
        known: dict[str, FieldValue | None] = {"y": True, "yes": True, "n": False, "no": False, "": now, _EMPTY: None}
        if text not in known:
            raise ValueRefused("Answer yes or no.")
        return known[text]
    how = "(e opens your editor) " if field.is_long else ""
    text = await _ask_line(asking, f"  {how}value{kept}: ")
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


async def _ask_option(field: FormField, now: FieldValue | None, asking: PlainSession) -> FieldValue | None:
    several = field.kind == "choices"
    found: Sequence[FormOption] = field.options
    while True:
        for number, option in enumerate(found[:MAX_OPTIONS], 1):
            asking.write([prose(show_command(plain_line(option.label)), "text", f"    {number}  ", "mark")])
        if len(found) > MAX_OPTIONS:
            asking.write([prose(f"{counted(len(found) - MAX_OPTIONS, 'more choice')}", "quiet", "    ")])
        how = "numbers with commas" if several else "a number"
        search = ", or text to search" if len(field.options) > MAX_OPTIONS else ""
        text = (await _ask_line(asking, f"  {how}{search}{_keep_hint(field, now)}: ")).strip()
        if text in ("", _EMPTY):
            return now if not text else None
        picked = _parse_numbers(text, min(len(found), MAX_OPTIONS), several)
        if picked is not None:
            values = [found[place].value for place in picked]
            return values if several else values[0]
        if not search:
            raise ValueRefused(f"Type {how} from 1 to {len(found)}.")
        found = [option for option in field.options if text.lower() in option.label.lower()]


def _parse_numbers(text: str, count: int, several: bool) -> list[int] | None:
    """Parse list positions, counted from 0; None if the text is something else."""
    words = [word.strip() for word in text.split(",")] if several else [text]
    if not all(word.isdecimal() and len(word) < 6 and 1 <= int(word) <= count for word in words):
        return None
    return [int(word) - 1 for word in dict.fromkeys(words)]


def _label(field: FormField) -> str:
    return show_command(plain_line(field.label, 80))


def _keep_hint(field: FormField, now: FieldValue | None) -> str:
    """Hint that names the value which Enter keeps."""
    if now is None:
        return ""
    empty = "" if field.required else f"; {_EMPTY}: empty"
    return f" (Enter: {_show_value(field, now)}{empty})"


def _show_value(field: FormField, value: FieldValue) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if field.options:
        picked = value if isinstance(value, list) else [value]
        value = ", ".join(option.label for option in field.options if option.value in picked) or "none"
    return show_command(plain_line(str(value)))


# -------------------------------------------------------------------------------------------------------------- details

_STYLES: dict[str, TextStyle] = {"text": "text", "muted": "quiet", "code": "strong", "title": "warning"}


def _pieces(details: Iterable[ask.Detail]) -> list[Piece]:
    return [piece for detail in details for piece in _detail(detail)]


def _detail(detail: ask.Detail) -> list[Piece]:
    match detail:
        case ask.Paragraph():
            return _paragraph(detail)
        case ask.Heading(text, note):
            return [TextLine(((f"  {show_command(text)}", "strong"), (f"  {note}" if note else "", "quiet")))]
        case ask.Labelled(label, text):
            return [_label_row(label.removesuffix(":"), text)]
        case ask.LabelTable(rows):
            return [_label_row(label.lower(), text) for label, text in rows]
        case ask.CommandText(text) if "\n" not in text.strip("\n"):
            return [line(show_command(text), "strong", "  $ ", "mark")]
        case ask.CommandText(text) | ask.MarkdownText(text) | ask.Verbatim(text):
            return _rows(text)
        case ask.DiffText(text):
            return [_diff_row(row) for row in show_command(text).strip("\n").split("\n")]
        case ask.InputFields(input):
            return _input(input)
        case ask.AddressText(before, host, after):
            return [TextLine((("  ", "text"), (before, "quiet"), (host, "strong"), (after, "quiet")))]
    return []


def _paragraph(paragraph: ask.Paragraph) -> list[Piece]:
    text = show_command(paragraph.text)
    match paragraph.tone:
        case "quoted":
            return _rows(paragraph.text)
        case "item":
            return [prose(text, "quiet", "  - ")]
        case "warning":
            return [prose(text, "warning", "  ! ", "warning")]
        case tone:
            return [prose(row, _STYLES[tone], "  ") for row in text.split("\n")]


def _label_row(label: str, text: str) -> Piece:
    return line(show_command(text), "text", f"  {label}: ")


def _rows(text: str) -> list[Piece]:
    """Each line of the text behind a mark. Lines that the terminal wraps have none, so real line breaks can be told
    apart."""
    found = show_command(text).split("\n")
    if len(found) > 1 and not found[-1]:
        found.pop()
    return [_with_dots(row, mark="  | ") for row in found]


def _with_dots(row: str, look: TextStyle = "text", mark: str = "  ") -> TextLine:
    bare = row.rstrip(" ")
    return TextLine(((mark, "quiet"), (bare, look), ("·" * (len(row) - len(bare)), "quiet")))


def _diff_row(row: str) -> TextLine:
    if not row.startswith(("+", "-")):
        return line(f"  {row}", "quiet" if row.startswith("@@") else "text")
    return _with_dots(row, "added" if row.startswith("+") else "removed")


def _input(input: Json) -> list[Piece]:
    """The whole input, field by field: strings with their line breaks, everything else as JSON."""
    pieces: list[Piece] = []
    for name, value in input.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        label = show_command(plain_line(name))
        pieces += [line(f"  {label}:", "quiet"), *_rows(text)] if "\n" in text else [_label_row(label, text)]
    return pieces or [line("  (no input)", "quiet")]
