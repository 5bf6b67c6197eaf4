"""Questions about tool calls: what a call would do, and the rules that "always allow" can save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentcli.core.errors import UsageError
from agentcli.core.events import PermissionRequested
from agentcli.core.frozen import frozen
from agentcli.core.permission import Answer, PartFinding, PermissionMode, SaveTo
from agentcli.interactive.questions.model import (
    AnswerChoice,
    CommandText,
    Detail,
    DiffText,
    Heading,
    InputFields,
    Labelled,
    MarkdownText,
    Paragraph,
    Question,
    Spacer,
    Words,
)
from agentcli.interactive.wording import approval_findings, approval_reason, question_of, server_claims
from agentcli.permissions.command_grant import fits_project
from agentcli.permissions.rules import Rule, check_rule, describe_cover, parse_rule, risk_of

EDIT_TOOLS = ("Edit", "MultiEdit", "Write", "NotebookEdit")
MAX_PART = 60
"""Characters of a command part that are repeated with the finding about it."""


@frozen
class SavePlace:
    """Where "always allow" saves its rules."""

    save_to: SaveTo
    label: str
    where: str
    letter: str
    line: str
    """Label in plain mode, like `AnswerChoice.line`."""


SAVE_PLACES = (
    SavePlace("session", "this session", "until agentcli is closed", "a", "always, for this session"),
    SavePlace(
        "local",
        "this project",
        "in .agentcli/settings.local.json of this project, for you only",
        "p",
        "project: always, saved in .agentcli/settings.local.json of this project",
    ),
    SavePlace(
        "user",
        "all projects",
        "in your own settings, for every project",
        "u",
        "user: always and in every project, saved in your own settings",
    ),
)


@frozen
class AlwaysChoice:
    """Rules that are saved together."""

    rules: tuple[str, ...]
    covers: str
    note: str = ""
    edited: bool = False

    @property
    def fits_project(self) -> bool:
        """Whether the rules may be saved in a file of the project."""
        return all(fits_project(parse_rule(rule)) for rule in self.rules)

    @property
    def risk(self) -> str:
        """Why saving needs a confirmation; "" if it does not. Only for edited rules: offered ones are narrow."""
        return next((risk for rule in self.rules if self.edited and (risk := risk_of(parse_rule(rule)))), "")

    def answer(self, place: SavePlace) -> Answer:
        return Answer("allow", rules=self.rules, save_to=place.save_to)


@frozen(kw_only=True)
class PermissionQuestion(Question):
    event: PermissionRequested
    offered: tuple[AlwaysChoice, ...]
    """The rules that "always allow" offers, the most useful first; empty if no rule can cover the call."""

    @property
    def places(self) -> list[SavePlace]:
        fits_project = all(choice.fits_project for choice in self.offered)
        return [place for place in SAVE_PLACES if fits_project or place.save_to != "local"]


_INSTEAD = Words("What should the agent do instead?", "deny without a reason")
_NEXT = Words("What should the agent do next?", "only allow")
_ONCE = AnswerChoice("once", "Allow once", "y", Answer("allow"), line="yes, once")
_ALWAYS = AnswerChoice("always", "Always allow", "a", Answer("allow"), line=SAVE_PLACES[0].line)
_TELL = AnswerChoice(
    "tell",
    "Allow once and say what to do next",
    "t",
    Answer("allow"),
    "Allow and say more",
    "tell: yes, and say what to do next",
    words=_NEXT,
    takes_words=True,
)
_DENY = AnswerChoice("deny", "Deny", "n", Answer("deny"), line="no (text after it goes to the model)", takes_words=True)
_WHY = AnswerChoice(
    "why",
    "Deny and say what to do instead",
    "w",
    Answer("deny"),
    "Deny and say why",
    "explain why not",
    "e",
    words=_INSTEAD,
    takes_words=True,
)
_EDITS = AnswerChoice(
    "edits",
    "Allow all edits from now on (switches to accept edits mode)",
    "e",
    Answer("allow", mode=PermissionMode.ACCEPT_EDITS),
    "Allow all edits",
    "do all edits from now on without asking",
    "d",
)
_LOOP_CHOICES = (
    replace(_ONCE, label="Yes, continue", short="Yes", line="yes, continue"),
    replace(_DENY, label="No, stop this task", short="No"),
    replace(_WHY, label="No, and say what to do instead", short="No, and say why"),
)
"""Choices when a model repeats itself. No rule covers this, and "yes" grants no permission."""


def ask_permission(event: PermissionRequested) -> PermissionQuestion:
    offered, is_loop = _list_offered_rules(event), event.display.get("kind") == "loop"
    return PermissionQuestion(
        title=question_of(event),
        choices=_LOOP_CHOICES if is_loop else tuple(_choices(event, can_save=bool(offered))),
        details=(*call_details(event), *_reasons(event)),
        agent=event.agent,
        must_be_read=not is_loop,
        event=event,
        offered=offered,
    )


def _choices(event: PermissionRequested, *, can_save: bool) -> list[AnswerChoice]:
    # 1 and 2 always allow, 3 and 4 always deny: a digit must not allow one call and deny the next.
    alone = replace(_ONCE, detail="no rule can cover this call; you are asked each time")
    found = [_ONCE, _ALWAYS, _DENY, _WHY, _TELL] if can_save else [alone, _TELL, _DENY, _WHY]
    if event.name in EDIT_TOOLS and event.self_evident:  # another reason, such as a rule, applies in that mode too
        found.append(_EDITS)
    return found


# ------------------------------------------------------------------------------------------------------------- details


def call_details(event: PermissionRequested) -> list[Detail]:
    """What a call would do. Nothing is ever cut."""
    display = event.display
    match display.get("kind"):
        case "command":
            return _command(event)
        case "diff":
            return _diff(event)
        case "fetch":
            private: list[Detail] = [Paragraph("This address is in your own network.", "warning")]
            return [
                Paragraph(str(display.get("url", "")), "code"),
                Spacer(),
                Labelled("host", str(display.get("host", ""))),
                *(private if display.get("private") else []),
                Labelled("to find out", str(display.get("prompt", ""))),
            ]
        case "mcp":
            return _mcp(event)
        case "markdown" | "plan":
            return [MarkdownText(str(display.get("text") or display.get("plan") or ""))]
        case "text" | "loop":
            return [Paragraph(str(display.get("text", "")))]
        case _:
            return [Heading(event.title), Spacer(), InputFields(event.input)]


def _command(event: PermissionRequested) -> list[Detail]:
    found: list[Detail] = [CommandText(str(event.input.get("command") or event.display.get("command") or ""))]
    fields = (("in", str(event.display.get("folder", ""))), ("to", str(event.display.get("description", ""))))
    labelled = [Labelled(label, text) for label, text in fields if text]
    return [*found, Spacer(), *labelled] if labelled else found


def _diff(event: PermissionRequested) -> list[Detail]:
    display = event.display
    path, diff = str(display.get("path") or event.input.get("file_path") or ""), str(display.get("diff", ""))
    note = Paragraph("The diff is cut off here. The complete new content:", "title")
    whole: list[Detail] = [Spacer(), note, InputFields(event.input)]
    return [
        Heading(path, f"+{display.get('added', 0)} −{display.get('removed', 0)}"),
        DiffText(diff, path) if diff else Paragraph("Only line endings would change.", "muted"),
        *(whole if display.get("truncated") else []),
    ]


def _mcp(event: PermissionRequested) -> list[Detail]:
    display = event.display
    # Repeated here because the title may be cut.
    found: list[Detail] = [
        Heading(f"{display.get('server', '')} · {display.get('tool', '')}"),
        InputFields(event.input),
    ]
    description, claims = str(display.get("description", "")).strip(), server_claims(display)
    found += [Spacer()] if description or claims else []
    found += [Labelled("description:", description)] if description else []
    return [*found, Paragraph(claims, "muted")] if claims else found


def _reasons(event: PermissionRequested) -> list[Detail]:
    reason, findings = approval_reason(event), approval_findings(event)
    found: list[Detail] = [Paragraph(reason)] if reason else []
    if findings and not reason:
        found = [Paragraph("Parts of the command:", "muted")]
    found += [Paragraph(_shorten(finding), "item") for finding in findings]
    return [Spacer(), *found] if found else []


def _shorten(finding: PartFinding) -> str:
    """The finding with its command part shortened; the part is shown above in full."""
    part, *more = finding.part.split("\n")
    if more or len(part) > MAX_PART:
        finding = replace(finding, part=f"{part[:MAX_PART].rstrip()} …")
    first, *rest = finding.line.split("\n")
    return f"{first} … {rest[-1]}" if rest else first


# --------------------------------------------------------------------------------------------------------------- rules


def _list_offered_rules(event: PermissionRequested) -> tuple[AlwaysChoice, ...]:
    """The rules that "always allow" offers, the most useful first; empty if no rule can cover the call."""
    found = []
    for choice in event.rule_choices:
        rules = tuple(map(str, choice.get("rules") or ()))
        if rules:
            covers = str(choice.get("covers") or "") or describe_cover(rules)
            found.append(AlwaysChoice(rules, covers, str(choice.get("note") or "")))
    if not found and event.suggestions:
        found.append(AlwaysChoice(tuple(event.suggestions), describe_cover(event.suggestions)))
    return tuple(found)


def edit_rules(choice: AlwaysChoice, rules: Sequence[str], offered: Sequence[AlwaysChoice]) -> AlwaysChoice:
    """Replace the rules of one of the offered choices. Raises `UsageError`."""
    kept = tuple(dict.fromkeys(check_rule(rule).text for rule in rules if rule.strip()))
    if not kept:
        raise UsageError("At least one rule is needed.")
    made = replace(choice, rules=kept, covers=describe_cover(kept), note="", edited=True)
    exact = next((parse_rule(one.rules[0]) for one in offered if len(one.rules) == 1 and "*" not in one.rules[0]), None)
    if exact is not None and len(kept) == 1 and not _covers_rule(parse_rule(kept[0]), exact):
        made = replace(made, note="It does not match this call, so you would be asked again.")
    return made


def _covers_rule(rule: Rule, exact: Rule) -> bool:
    if exact.spec is None or not rule.names(exact.tool):
        return rule.names(exact.tool) and rule.spec is None
    if rule.spec is None or rule.spec == exact.spec:
        return True
    return rule.matches_command(exact.spec) if exact.tool == "Bash" else True
