"""Questions to the user and the meaning of their answers: permissions, the model's questions, plans, summaries, trust.

The user answers with a letter or a digit and Enter. Any other line repeats the question, so that a user who was typing
something else does not answer by accident. Esc and Ctrl+C stop the work, as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentcli.config.trust import UNREADABLE, TrustedContent, TrustState
from agentcli.config.trust_effects import effects_of
from agentcli.core import events as ev
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.messages import Json
from agentcli.core.permission import Answer, PermissionMode, SaveTo
from agentcli.core.processes.shell import shown_command, shown_name
from agentcli.core.text.format import money, token_count
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.core.text.plural import counted
from agentcli.interactive.modes import modes_after_plan
from agentcli.interactive.rule_choices import AlwaysChoice, edited, rule_choices
from agentcli.interactive.wording import approval_findings, approval_reason, question_of
from agentcli.permissions.rules.rule import shown_rule
from agentcli.plain.output.pieces import Piece, TextLine, line, prose
from agentcli.plain.questions.asking import Asking, LetterChoice, QuestionClosed, ask_line, choose, head
from agentcli.plain.questions.subject import rows, subject

Question = ev.PermissionRequested | ev.CompactionProposed
_EDITS = ("Edit", "MultiEdit", "Write", "NotebookEdit")
_MOST_LISTED = 12


async def answer_to(event: Question, asking: Asking) -> Answer | None:
    """None: the user closed the question, which stops the work."""
    if isinstance(event, ev.PermissionRequested) and ev.is_of_server(event):
        from agentcli.plain.questions.from_servers import answer_server

        return await answer_server(event, asking)
    try:
        if isinstance(event, ev.CompactionProposed):
            return await _summary(event, asking)
        match event.display.get("kind"):
            case "questions":
                return await _questions(event, asking)
            case "plan":
                return await _plan(event, asking)
            case "confirm":
                return await _confirm(event, asking)
            case "undo":
                return await _undo(event, asking)
        return await _permission(event, asking)
    except QuestionClosed:
        # A question of agentcli itself: closing it declines, and no work needs to be stopped.
        own = isinstance(event, ev.CompactionProposed) or event.display.get("kind") in ("confirm", "undo")
        return Answer("deny") if own else None


# --------------------------------------------------------------------------------------------------- permissions


async def _permission(event: ev.PermissionRequested, asking: Asking) -> Answer:
    offered = rule_choices(event)
    always = offered[0] if offered else None
    asking.show([*head(question_of(event), event.agent), *subject(event), *_reasons(event)])
    while True:
        asking.show(_saved(always))
        letter, rest = await choose(_permission_choices(event, offered), asking)
        places: dict[str, SaveTo] = {"a": "session", "p": "local", "u": "user"}
        if letter == "r" and always is not None:
            always = await _other_rule(offered, always, asking)
        elif letter in places and always is not None:
            if (
                not always.risk
                or (await ask_line(asking, f"{always.risk} Type yes to save it: ")).strip().lower() == "yes"
            ):
                return Answer("allow", rules=always.rules, save_to=places[letter])
        else:
            break
    match letter:
        case "y":
            return Answer("allow")
        case "d":
            return Answer("allow", mode=PermissionMode.ACCEPT_EDITS)
        case "t":
            rest = rest or await ask_line(asking, "What should be done next? ")
            return Answer("allow", message=plain_text(rest).strip())
        case "e" if not rest:
            rest = await ask_line(asking, "What should be done instead? ")
    return Answer("deny", message=plain_text(rest).strip())


def _permission_choices(event: ev.PermissionRequested, offered: Sequence[AlwaysChoice]) -> list[LetterChoice]:
    """The choices for a permission. As in the app, 1 and 2 always allow, 3 and 4 always deny."""
    tell = LetterChoice("t", "tell: yes, and say what to do next", words=True)
    choices = [
        LetterChoice("y", "yes, once"),
        LetterChoice("a", "always, for this session") if offered else tell,
        LetterChoice("n", "no (text after it goes to the model)", words=True),
        LetterChoice("e", "explain why not", words=True),
        *([tell] if offered else []),
    ]
    if event.name in _EDITS and event.self_evident:  # another reason, such as a rule, applies in that mode too
        choices.append(LetterChoice("d", "do all edits from now on without asking"))
    if offered and all(choice.fits_project for choice in offered):
        choices.append(LetterChoice("p", "project: always, saved in .agentcli/settings.local.json of this project"))
    if offered:
        choices += [
            LetterChoice("u", "user: always and in every project, saved in your own settings"),
            LetterChoice("r", "rule: choose another rule for always, or edit it"),
        ]
    return choices


def _saved(always: AlwaysChoice | None) -> list[Piece]:
    """Show in full what "always" would save."""
    if always is None:
        return []
    pieces: list[Piece] = [
        line(shown_command(shown_rule(rule)), "text", "  rule for always: ") for rule in always.rules
    ]
    pieces.append(prose(shown_command(always.covers), "quiet", "  covers: "))
    pieces += [prose(shown_command(always.note), "quiet", "  note: ")] if always.note else []
    pieces += [prose(shown_command(always.risk), "warning", "  ! ", "warning")] if always.risk else []
    return pieces


async def _other_rule(offered: Sequence[AlwaysChoice], always: AlwaysChoice, asking: Asking) -> AlwaysChoice:
    """Let the user pick another offered rule or edit the current one. Esc keeps the current one."""
    for number, choice in enumerate(offered, 1):
        rules = ", ".join(shown_command(shown_rule(rule)) for rule in choice.rules)
        said = f"{rules}  (covers {shown_command(choice.covers)})"
        asking.show([prose(said, "text", f"  {number}  ", "mark")])
    while True:
        text = await asking.ask("A number, e to edit, or Enter to keep it: ")
        if text is None or not text.strip():
            return always
        if text.strip().isdecimal() and 1 <= int(text) <= len(offered):
            return offered[int(text) - 1]
        if text.strip().lower() == "e":
            return await _edited_rule(always, offered, asking)
        asking.show([prose(f"Type a number from 1 to {len(offered)}, e, or only Enter.", "warning", "! ", "warning")])


async def _edited_rule(always: AlwaysChoice, offered: Sequence[AlwaysChoice], asking: Asking) -> AlwaysChoice:
    while True:
        typed: list[str] = []
        for rule in always.rules:
            text = await asking.ask(f"New rule instead of {shown_command(rule)} (Enter keeps it): ")
            if text is None:
                return always
            typed.append(text if text.strip() else rule)
        try:
            return edited(always, typed, offered)
        except UsageError as error:
            asking.show([prose(shown_command(str(error)), "warning", "! ", "warning")])


def _reasons(event: ev.PermissionRequested) -> list[Piece]:
    reason = approval_reason(event)
    pieces: list[Piece] = [prose(shown_command(reason), "quiet", "  ")] if reason else []
    return [*pieces, *(prose(shown_command(each.line), "quiet", "  - ") for each in approval_findings(event))]


# ------------------------------------------------------------------------------------------- the model's questions


async def _questions(event: ev.PermissionRequested, asking: Asking) -> Answer:
    answers: Json = {}
    questions = event.input["questions"]
    for number, question in enumerate(questions, 1):
        count = f" {number} of {len(questions)}" if len(questions) > 1 else ""
        asking.show([*head(f"Question{count}: {shown_command(plain_text(question['question']))}", event.agent)])
        several = bool(question.get("multiSelect"))
        given = await _options(question["options"], several, asking, str(event.display.get("other") or ""))
        if given:
            answers[question["question"]] = given if several else given[0]
    return Answer("allow", updated_input={**event.input, "answers": answers})


async def _options(options: Sequence[Json], several: bool, asking: Asking, other: str = "") -> list[str]:
    labels = [plain_line(option["label"], limit=200) for option in options]
    for number, (label, option) in enumerate(zip(labels, options, strict=True), 1):
        about = plain_line(str(option.get("description") or ""), 1_000)
        said = f"{shown_command(label)}: {shown_command(about)}" if about else shown_command(label)
        asking.show([prose(said, "text", f"  {number}  ", "mark")])
    how = "Numbers with commas, your own answer, or both" if several else "A number, or your own answer"
    if other:
        how = f"{'Numbers with commas' if several else 'A number'}, or {other[0].lower()}{other[1:]}"
    letter = ""
    while True:
        text = (await ask_line(asking, f"{how}: ")).strip()
        words = [word.strip() for word in text.split(",")] if several else [text]
        numbers = [int(word) for word in words if word.isdecimal()]
        own = text if not numbers else ", ".join(word for word in words if word and not word.isdecimal())
        if not all(1 <= number <= len(labels) for number in numbers):
            asking.show([prose(f"{counted(len(labels), 'answer')} to choose from.", "warning", "! ", "warning")])
        elif len(text) == 1 and not numbers and text != letter:
            # It may be meant for a question about a permission.
            letter = text
            asking.show([prose("One letter: type it again to send it as your answer.", "warning", "! ", "warning")])
        else:
            picked = [labels[number - 1] for number in dict.fromkeys(numbers)]
            return [*picked, plain_text(own)] if own else picked


# ---------------------------------------------------------------------------------------- questions of agentcli itself


async def _confirm(event: ev.PermissionRequested, asking: Asking) -> Answer:
    text = str(event.display.get("text") or event.reason)
    paragraphs = [prose(shown_command(one), "text", "  ") for one in plain_text(text).split("\n")]
    asking.show([*head(shown_command(plain_line(event.title))), *paragraphs])
    yes, no = (plain_line(str(event.display.get(name) or name)) for name in ("yes", "no"))
    letter, _rest = await choose((LetterChoice("y", f"yes: {yes}"), LetterChoice("n", f"no: {no}")), asking)
    return Answer("allow" if letter == "y" else "deny")


async def _undo(event: ev.PermissionRequested, asking: Asking) -> Answer:
    """Ask which version to keep of lines that both the user and the prompt have changed."""
    display = event.display
    asking.show(
        [*head(shown_command(plain_line(event.title))), prose(shown_command(plain_text(event.reason)), "text", "  ")]
    )
    for clash in display.get("clashes", ()):
        where = f"line {clash['line']}, " if clash.get("line") else ""
        for label, text in ((display["now_label"], clash["now"]), (display["other_label"], clash["other"])):
            asking.show([prose(f"{where}{plain_line(str(label))}:", "quiet", "  ")])
            asking.show(
                rows(plain_text(str(text)).removesuffix("\n"), "  | ") if text else [line("(none)", "quiet", "  | ")]
            )
    replace = "replace my lines with the other version" if display.get("exists") else "remove the file"
    choices = (
        LetterChoice("k", "keep my lines"),
        LetterChoice("r", replace),
        LetterChoice("l", "leave the whole file as it is"),
    )
    letter, _rest = await choose(choices, asking)
    return Answer("deny") if letter == "l" else Answer("allow", updated_input={"choice": CHOICES[letter]})


CHOICES = {"k": "keep", "r": "replace"}


# -------------------------------------------------------------------------------------------------------- plans


async def _plan(event: ev.PermissionRequested, asking: Asking) -> Answer:
    plan = original = str(event.input.get("plan", ""))
    letters = {None: "y", PermissionMode.ACCEPT_EDITS: "a", PermissionMode.DEFAULT: "d"}
    modes = {letters[mode]: (mode, words) for mode, words in modes_after_plan(event)}
    choices = (
        *(LetterChoice(letter, f"yes, and {words}") for letter, (_mode, words) in modes.items()),
        LetterChoice("e", "edit the plan first"),
        LetterChoice("n", "no, keep planning (text after it goes to the model)", words=True),
    )
    while True:
        asking.show([*head("Go ahead with this plan?", event.agent), *rows(plain_text(plan), "  | ")])
        letter, rest = await choose(choices, asking)
        match letter:
            case "e":
                plan = await _edited(plan, asking)
            case "n":
                rest = rest or await ask_line(asking, "What should change in the plan? ")
                return Answer("deny", message=plain_text(rest).strip())
            case _:
                changed = {**event.input, "plan": plan} if plan != original else None
                return Answer("allow", updated_input=changed, mode=modes[letter][0])


async def _edited(text: str, asking: Asking) -> str:
    try:
        return plain_text(await asking.edit(plain_text(text)))
    except AgentError as error:
        asking.show([prose(str(error), "error", "! ", "error")])
        return text


# ----------------------------------------------------------------------------------------------------- summaries


async def _summary(event: ev.CompactionProposed, asking: Asking) -> Answer:
    text = original = plain_text(event.summary)
    choices = (
        LetterChoice("y", "yes, continue with the summary"),
        LetterChoice("e", "edit the summary first"),
        LetterChoice("n", "no, keep the conversation as it is"),
    )
    while True:
        asking.show([*head("Replace the conversation with this summary?"), *rows(text, "  | "), *_effects(event)])
        letter, _rest = await choose(choices, asking)
        if letter == "n":
            return Answer("deny")
        if letter == "e":
            text = await _edited(text, asking)
        elif text.strip():
            return Answer("allow", updated_input={"summary": text} if text != original else None)
        else:
            asking.show([line("The summary is empty.", "warning", "! ", "warning")])


def _effects(event: ev.CompactionProposed) -> list[Piece]:
    cost = "not known" if event.cost_usd is None else money(event.cost_usd)
    before, after = token_count(event.tokens_before), token_count(event.tokens_after)
    words = f"about {before} tokens become {after}; the summary has cost: {cost}"
    pieces: list[Piece] = [prose(words, "quiet", "  tokens: ")]
    for label, listed in (("stays", event.kept), ("goes", event.dropped), ("new", event.added)):
        pieces += [line(plain_line(each, 300), "quiet", f"  {label}: ") for each in listed[:_MOST_LISTED]]
        if len(listed) > _MOST_LISTED:
            pieces.append(line(f"and {len(listed) - _MOST_LISTED} more", "quiet", f"  {label}: "))
    return pieces


# --------------------------------------------------------------------------------------------------------- trust


async def may_continue(state: TrustState, asking: Asking, trust: Callable[[TrustState], None]) -> bool:
    """Ask whether to trust a folder with settings of its own, all of which are shown; False: the user wants to quit."""
    letter = await ask_about_trust(state, asking, may_leave=True)
    if letter == "t":
        trust(state)
    return letter != "x"


async def ask_about_trust(state: TrustState, asking: Asking, *, may_leave: bool) -> str:
    """Ask whether to trust a folder. Returns `t` for trust, `r` for restricted, `x` for exit."""
    count = len(state.changed)
    files = counted(count, "file")
    said = f"{files} changed since you trusted it" if state.known else f"It brings {files}"
    pieces = head("Changed settings: still trust this folder?" if state.known else "Trust this folder?")
    pieces.append(line(shown_name(str(state.root)), "strong", "  "))
    pieces.append(
        prose(f"{said}. Such files can make agentcli run programs, or let them run without asking.", mark="  ")
    )
    for part in sorted(state.parts, key=lambda part: part.name not in state.changed):
        pieces += _part(part, state)
    for title, found in effects_of(state).titled():
        pieces += [prose(title, "warning", "  ")] if found else []
        for text, _name in found:
            pieces += rows(text, "  | ")
    asking.show(pieces)
    choices = (
        *(() if state.unshowable else (LetterChoice("t", "trust it: all of this takes effect"),)),
        LetterChoice("r", "restricted: continue without it; only its deny and ask rules apply"),
        *((LetterChoice("x", "exit"),) if may_leave else ()),
    )
    try:
        letter, _rest = await choose(choices, asking)
    except QuestionClosed:
        return "x"
    return letter


def _part(part: TrustedContent, state: TrustState) -> list[Piece]:
    what = "new or changed" if part.name in state.changed else "known, unchanged"
    head: list[Piece] = [TextLine(((f"  {shown_name(part.name)}", "strong"), (f"  ({what})", "quiet")))]
    if part.digest == UNREADABLE:
        text = (
            "It cannot be shown: not a regular file inside the folder, or too large. The folder cannot be trusted "
            "until it is removed."
        )
        return [*head, prose(text, "warning", "  ! ", "warning")]
    return [*head, *rows(part.text.replace("\r\n", "\n"), "  | ")]
