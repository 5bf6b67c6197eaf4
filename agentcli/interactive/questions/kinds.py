"""The question for each event that waits for an answer, and for a folder that is not trusted yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from agentcli.agent.mcp.requests import CANCELLED
from agentcli.config.trust import UNREADABLE, TrustedContent, TrustState
from agentcli.config.trust_effects import effects_of
from agentcli.core.events import CompactionProposed, PermissionRequested
from agentcli.core.frozen import frozen
from agentcli.core.messages import Json
from agentcli.core.permission import Answer, PermissionMode
from agentcli.core.text.format import about_money, counted, money, token_count
from agentcli.core.text.plaintext import plain_line, plain_text, show_name
from agentcli.interactive.questions.model import (
    AddressText,
    AnswerChoice,
    Detail,
    Heading,
    Labelled,
    LabelTable,
    Paragraph,
    Question,
    Spacer,
    Verbatim,
    Words,
    answer_of,
)
from agentcli.interactive.questions.permission import ask_permission
from agentcli.mcp.user_input import FieldValue, InputForm, parse_address, parse_form

MAX_LISTED = 12
"""Maximum number of kept and of dropped items that are listed, one per line; files may be many."""
_DENY = Answer("deny")


def question_for(event: PermissionRequested | CompactionProposed) -> Question:
    if isinstance(event, CompactionProposed):
        return _ask_about_summary(event)
    return _BY_KIND.get(str(event.display.get("kind")), ask_permission)(event)


# -------------------------------------------------------------------------------------------- texts that can be edited


@frozen(kw_only=True)
class TextQuestion(Question):
    """A question about a text that the user may edit before answering."""

    subject: str
    """What the text is; also its name in the answer's input."""
    text: str
    input: Json
    """The rest of the answer's input if the text was edited."""
    aside: str = ""
    """Short remark beside the title."""

    def choices_for(self, text: str) -> list[AnswerChoice]:
        """The choices while the text is `text`: an empty one cannot be accepted."""
        refused = "" if text.strip() else f"the {self.subject} is empty"
        found = [replace(choice, refused=refused) if choice.allows else choice for choice in self.choices]
        return [*found, _DISCARD] if text != self.text else found

    def answer(self, choice: AnswerChoice, text: str, words: str = "") -> Answer:
        answer = answer_of(choice, words)
        if not choice.allows or text == self.text:
            return answer
        return replace(answer, updated_input={**self.input, self.subject: text})


_DISCARD = AnswerChoice("original", "Discard your edits", "u")
_AFTER_PLAN = {
    PermissionMode.DEFAULT: "ask before each edit",
    PermissionMode.ACCEPT_EDITS: "accept edits automatically",
}
_PLAN_KEYS = {None: "y", PermissionMode.ACCEPT_EDITS: "a", PermissionMode.DEFAULT: "d"}


def _ask_about_plan(event: PermissionRequested) -> Question:
    choices = [
        AnswerChoice(
            f"yes {number}", f"Yes, and {words}", _PLAN_KEYS[mode], Answer("allow", mode=mode), f"Yes, {words}"
        )
        for number, (mode, words) in enumerate(_modes_after_plan(event))
    ]
    keep = AnswerChoice(
        "keep",
        "No, keep planning: say what to change",
        "n",
        _DENY,
        "No, keep planning",
        "no, keep planning (text after it goes to the model)",
        words=Words("What should change in the plan?", "keep planning"),
        takes_words=True,
    )
    edit = AnswerChoice("edit", "Edit the plan", "e", line="edit the plan first")
    return TextQuestion(
        title="Go ahead with this plan?",
        choices=(*choices, edit, keep),
        agent=event.agent,
        subject="plan",
        text=plain_text(str(event.input.get("plan", ""))),
        input=event.input,
    )


def _modes_after_plan(event: PermissionRequested) -> list[tuple[PermissionMode | None, str]]:
    """The modes in which an approved plan can be carried out, each with the rest of "Yes, and …". The first is None:
    the mode from which plan mode was entered."""
    returns_to = next((mode for mode in PermissionMode if mode.value == event.display.get("returns_to")), None)
    before = returns_to or PermissionMode.DEFAULT
    others = [(mode, words) for mode, words in _AFTER_PLAN.items() if mode is not before]
    return [(None, _AFTER_PLAN.get(before, f"continue in {before.label} mode")), *others]


def _ask_about_summary(event: CompactionProposed) -> Question:
    freed = event.tokens_before - event.tokens_after
    change = f"{freed:,} fewer" if freed >= 0 else f"{-freed:,} more"
    rows = [
        ("Tokens", f"about {event.tokens_before:,} become {event.tokens_after:,}, {change}"),
        ("Price", _prices(event)),
        *(("Stays", text) for text in _list(event.kept)),
        *(("Goes", text) for text in _list(event.dropped)),
        *(("New", text) for text in (_list(event.added) if event.added else ())),
    ]
    return TextQuestion(
        title="Replace the conversation with this summary?",
        choices=(
            AnswerChoice("accept", "Yes, continue with the summary", "y", Answer("allow"), "Yes"),
            AnswerChoice("edit", "Edit the summary", "e", line="edit the summary first"),
            AnswerChoice("cancel", "No, keep the conversation as it is", "n", _DENY, "No"),
        ),
        summary=(LabelTable(tuple(rows)),),
        closed=_DENY,
        closing="cancel",
        aside=f"{token_count(event.tokens_before)} → {token_count(event.tokens_after)} tokens",
        subject="summary",
        text=plain_text(event.summary),
        input={},
    )


def _prices(event: CompactionProposed) -> str:
    made = "the price of the summary is unknown"
    if event.cost_usd is not None:
        made = f"the summary has cost {money(event.cost_usd)}"
    if event.turn_usd_before is None or event.turn_usd_after is None:
        return made
    return f"{money(event.turn_usd_before)} a turn becomes {money(event.turn_usd_after)}; {made}"


def _list(lines: Sequence[str]) -> list[str]:
    shown = [plain_line(line, 300) for line in lines[:MAX_LISTED]] or ["nothing"]
    return [*shown, f"and {len(lines) - MAX_LISTED} more"] if len(lines) > MAX_LISTED else shown


# ----------------------------------------------------------------------------------------------- the model's questions


@frozen
class QuestionPage:
    key: str
    """Text exactly as the model wrote it; the tool finds the answer by it."""
    text: str
    header: str
    options: tuple[tuple[str, str], ...]
    """Label and description of each."""
    several: bool
    """Whether more than one may be picked."""


@frozen(kw_only=True)
class PagedQuestion(Question):
    """Several questions of the model, each with options and a free answer."""

    pages: tuple[QuestionPage, ...]
    other: str
    """What a free answer is for; "" if the model does not say."""
    input: Json

    def answer(self, given: Sequence[Sequence[str]]) -> Answer:
        """The answer with what was given for each page; pages without an answer are left out."""
        pairs = [(page, list(each)) for page, each in zip(self.pages, given, strict=True) if each]
        answers = {page.key: each if page.several else each[0] for page, each in pairs}
        return Answer("allow", updated_input={**self.input, "answers": answers})


def _ask_questions(event: PermissionRequested) -> Question:
    pages = [
        QuestionPage(
            page["question"],
            plain_text(page["question"]),
            plain_line(page["header"]),
            tuple(
                (plain_line(option["label"], limit=200), plain_text(option.get("description") or ""))
                for option in page["options"]
            ),
            bool(page.get("multiSelect")),
        )
        for page in event.input["questions"]
    ]
    other = plain_line(str(event.display.get("other") or ""))
    return PagedQuestion(title=event.title, agent=event.agent, pages=tuple(pages), other=other, input=event.input)


# --------------------------------------------------------------------------------------- questions of agentcli itself


def _confirm(event: PermissionRequested) -> Question:
    yes, no = (plain_line(str(event.display.get(name) or name.capitalize())) for name in ("yes", "no"))
    return Question(
        title=event.title,
        choices=(
            AnswerChoice("yes", yes, "y", Answer("allow"), line=f"yes: {yes}"),
            AnswerChoice("no", no, "n", _DENY, line=f"no: {no}"),
        ),
        details=(Paragraph(str(event.display.get("text") or event.reason)),),
        closed=_DENY,
        closing="cancel",
    )


def _ask_for_version(event: PermissionRequested) -> Question:
    """Which version to keep of lines that both the user and the undone prompt changed. Closing keeps the file."""
    display = event.display
    versions: list[Detail] = []
    for clash in display.get("clashes", ()):
        where = f"Line {clash['line']}, " if clash.get("line") else ""
        versions += [Spacer(), *_version(f"{where}{display['now_label']}", str(clash["now"]), "- ")]
        versions += _version(str(display["other_label"]), str(clash["other"]), "+ ")
    replaces = bool(display.get("exists"))
    replacing = "Replace my lines with the other version" if replaces else "Remove the file"
    return Question(
        title=event.title,
        choices=(
            AnswerChoice("keep", "Keep my lines", "k", _version_answer("keep")),
            AnswerChoice("replace", replacing, "r", _version_answer("replace"), "Replace my lines" if replaces else ""),
            AnswerChoice("leave", "Leave the whole file as it is", "l", _DENY, "Leave the file"),
        ),
        summary=tuple(versions),
        details=(Paragraph(str(display.get("text") or event.reason)),),
        closed=_DENY,
        closing="leave the file",
    )


def _version(label: str, text: str, mark: str) -> list[Detail]:
    label = plain_line(label)
    shown = Verbatim(plain_text(text).removesuffix("\n"), mark) if text else Paragraph("  (none)", "muted")
    return [Paragraph(f"{label[:1].upper()}{label[1:]}:", "muted"), shown]


def _version_answer(choice: str) -> Answer:
    return Answer("allow", updated_input={"choice": choice})


# ------------------------------------------------------------------------------------------------ questions of servers


@frozen(kw_only=True)
class FormQuestion(Question):
    """A form of an MCP server. All text in it is untrusted."""

    form: InputForm

    def answer(self, content: dict[str, FieldValue]) -> Answer:
        return Answer("allow", updated_input={"content": content})


_DECLINE = AnswerChoice("decline", "Decline", "n", _DENY, line="no: decline")


def _ask_form(event: PermissionRequested) -> Question:
    server = plain_line(str(event.display.get("server", "")), 80)
    return FormQuestion(
        title=event.title,
        choices=(
            AnswerChoice("accept", "Accept: send the answers", "y", None, "Accept", "yes, send the answers"),
            _DECLINE,
        ),
        details=(
            *_message(event),
            Paragraph(f"Answers go to the MCP server {server}. Enter no passwords or keys.", "muted"),
        ),
        closed=CANCELLED,
        closing="cancel",
        form=parse_form(event.display["schema"]),
    )


def _ask_to_open(event: PermissionRequested) -> Question:
    address = parse_address(str(event.display["url"]))
    return Question(
        title=event.title,
        choices=(
            AnswerChoice(
                "open", "Open it in the browser", "y", _answer_opening(True), "Open", "yes, open it in the browser"
            ),
            AnswerChoice("self", "I open it myself", "m", _answer_opening(False), line="manually: I open it"),
            _DECLINE,
        ),
        summary=(
            AddressText(address.text[: address.host_start], address.host, address.text[address.host_end :]),
            *(Paragraph(warning, "warning") for warning in address.warnings),
        ),
        details=tuple(_message(event)),
        closed=CANCELLED,
        closing="cancel",
    )


def _answer_opening(open_it: bool) -> Answer:
    return Answer("allow", updated_input={"open": open_it})


def _message(event: PermissionRequested) -> list[Detail]:
    message = plain_text(str(event.display.get("message", "")))
    return [Paragraph(message, "quoted"), Spacer()] if message else []


def _ask_for_sampling(event: PermissionRequested) -> Question:
    display = event.display
    texts = [("system prompt", str(display["system"]))] if display.get("system") else []
    texts += [(str(each["role"]), str(each["text"])) for each in display["messages"]]
    details: list[Detail] = []
    for name, text in texts:
        details += [Spacer(), Paragraph(f"{plain_line(name)}:", "muted"), Verbatim(plain_text(text), "  ")]
    choices = [AnswerChoice("once", "Allow once", "y", _scope("once"), line="yes, once")]
    if display["most_usd"] is not None:
        server, budget = plain_line(str(display["server"]), 40), money(float(display["budget_usd"]))
        choices.append(
            AnswerChoice(
                "session",
                f"Allow all of {server} in this session, up to {budget}",
                "a",
                _scope("session"),
                "Allow for this session",
                "always in this session, within its budget",
            )
        )
    return Question(
        title=event.title,
        choices=(*choices, _DECLINE),
        summary=(
            Labelled("model", plain_line(str(display["model"]))),
            Labelled("cost", _describe_price(display)),
        ),
        details=tuple(details),
        closed=CANCELLED,
        closing="cancel",
        must_be_read=True,
    )


def _scope(scope: str) -> Answer:
    return Answer("allow", updated_input={"scope": scope})


def _describe_price(display: Json) -> str:
    """Most that the reply can cost, and how much of its budget the server has used."""
    reply = f"at most {display['max_tokens']:,} tokens of reply"
    if display["most_usd"] is None:
        return f"not known; {reply}"
    used = f"{money(display['spent_usd'])} of {money(display['budget_usd'])} used"
    return f"{about_money(display['most_usd'], 'at most ')}; {reply}; {used}"


_BY_KIND: dict[str, Callable[[PermissionRequested], Question]] = {
    "plan": _ask_about_plan,
    "questions": _ask_questions,
    "confirm": _confirm,
    "undo": _ask_for_version,
    "mcp_form": _ask_form,
    "mcp_url": _ask_to_open,
    "mcp_sampling": _ask_for_sampling,
}
"""By the `kind` of the event's display; any other event asks for permission."""


# --------------------------------------------------------------------------------------------------------------- trust

TRUSTED = Answer("allow")
RESTRICTED = Answer("deny")
EXIT = Answer("deny", interrupt=True)
_RISK = "Such files can make agentcli run programs, or let them run without asking."
_UNSHOWN = (
    "It cannot be shown: not a regular file inside the folder, or too large. The folder cannot be trusted until it is "
    "removed."
)


def ask_for_trust(state: TrustState, *, can_exit: bool) -> Question:
    """Whether a folder's own settings may take effect, all of which are shown. `can_exit`: agentcli is starting."""
    files = counted(len(state.changed), "file")
    said = f"{files} changed since you trusted it" if state.known else f"It brings {files}"
    effects: list[Detail] = []
    for mark, (title, rows) in zip("$@=$", effects_of(state).list_titles(), strict=True):
        effects += [Spacer(), Paragraph(title, "title")] if rows else []
        for text, name in rows:
            effects += [Verbatim(text, f"  {mark} "), Paragraph(f"    from {show_name(name)}", "muted")]
    parts = sorted(state.parts, key=lambda part: part.name not in state.changed)
    refused = "a file cannot be shown" if state.unshowable else ""
    choices = (
        AnswerChoice("trust", "Trust it: all of this takes effect", "t", TRUSTED, "Trust this folder", refused=refused),
        AnswerChoice(
            "restricted",
            "Continue without it: only its deny and ask rules apply",
            "r",
            RESTRICTED,
            "Continue without it",
            "restricted: continue without it; only its deny and ask rules apply",
        ),
        AnswerChoice("exit", "Exit", "x", EXIT),
    )
    return Question(
        title="Changed settings: still trust it?" if state.known else "Trust this folder?",
        choices=choices if can_exit else choices[:2],
        summary=(Heading(show_name(str(state.root))), Spacer(), Paragraph(f"{said}. {_RISK}"), *effects),
        details=tuple(detail for part in parts for detail in (Spacer(), *_part(part, state))),
        closed=EXIT if can_exit else RESTRICTED,
        closing="close",
        # Enter alone must not allow programs of an unknown repository to run.
        first=1,
    )


def _part(part: TrustedContent, state: TrustState) -> list[Detail]:
    what = "known, unchanged"
    if part.name in state.changed:
        what = "new or changed" if state.known else "new"
    unshown = Paragraph(_UNSHOWN, "warning")
    shown = unshown if part.digest == UNREADABLE else Verbatim(part.text.replace("\r\n", "\n"))
    return [Heading(show_name(part.name), f"({what})"), shown]
