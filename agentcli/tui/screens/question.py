"""Dialogs for questions: the details above, the choices below; a page for each of the model's questions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from rich.style import Style

from agentcli.core.permission import Answer
from agentcli.interactive.questions import model as ask
from agentcli.interactive.questions.kinds import PagedQuestion
from agentcli.interactive.questions.model import AnswerChoice, Question, answer_of
from agentcli.tui.blocks.base import BlockLine, wrap
from agentcli.tui.blocks.rows import Runs
from agentcli.tui.screens.choices import SheetChoice
from agentcli.tui.screens.dialog import PAINTED, Dialog
from agentcli.tui.screens.sheet import Keys
from agentcli.tui.screens.subject import BLANK, detail_lines, paragraph
from agentcli.tui.screens.text import one_line, tab_row


class QuestionDialog(Dialog[Answer | None]):
    def __init__(self, asked: Question) -> None:
        super().__init__()
        self.asked = asked
        self.first = asked.first
        self._asked_words: AnswerChoice | None = None
        """Choice whose words are being entered."""
        self._unsent: dict[str, str] = {}
        """Unsent words by the name of their choice."""
        self._cost = sum(map(_layout_cost, (*asked.summary, *asked.details)))

    @property
    def question(self) -> str:
        return self.asked.title

    def asides(self) -> Sequence[str]:
        return (f"asked by {self.asked.agent}",) if self.asked.agent else ()

    def keys(self) -> Keys:
        return [("↑↓", "choose"), ("Enter", "confirm"), ("Esc", self.asked.closing)]

    def locked_keys(self) -> Keys:
        no = next(choice.label.lower() for choice in self.asked.choices if choice.key == "n")
        close = self.asked.closing.partition(" ")[0]
        return [("PgDn Space ↓", "scroll"), ("n", no), ("End", "go to the end"), ("Esc", close)]

    @property
    def size_of_body(self) -> int:
        return self._cost

    @property
    def gated(self) -> bool:
        return self.asked.must_be_read

    def body(self, width: int) -> list[BlockLine]:
        return detail_lines((*self.asked.summary, ask.Spacer(), *self.asked.details), width, self.palette)

    def choices(self) -> Sequence[SheetChoice]:
        return [self.show_choice(choice) for choice in self.asked.choices]

    def show_choice(self, choice: AnswerChoice) -> SheetChoice:
        locked = self.locked and choice.allows
        return SheetChoice(
            choice.name, choice.label, choice.key, choice.short, choice.detail, locked=locked, refused=choice.refused
        )

    def choose(self, name: str) -> None:
        choice = self.asked.choice(name)
        if choice.words is None:
            self.dismiss(self.answer(choice))
        else:
            self._asked_words = choice
            self.ask(choice.words.question, self._unsent.get(name, ""), f"empty: {choice.words.if_empty}")

    def submit(self, text: str) -> None:
        if self._asked_words is not None:
            self.dismiss(self.answer(self._asked_words, text))

    def answer(self, choice: AnswerChoice, words: str = "") -> Answer:
        return answer_of(choice, words)

    def keep_unsent(self, text: str) -> None:
        if self._asked_words is not None:
            self._unsent[self._asked_words.name] = text
            self._asked_words = None

    def leave(self) -> None:
        self.dismiss(self.asked.closed)


def _layout_cost(detail: ask.Detail) -> int:
    """In characters of plain text; see `Dialog.size_of_body`."""
    match detail:
        case ask.DiffText(text) | ask.MarkdownText(text):
            return PAINTED * len(text)
        case ask.InputFields(input):
            return sum(len(str(value)) for value in input.values())
        case ask.Paragraph(text) | ask.Verbatim(text) | ask.CommandText(text) | ask.Labelled(_, text):
            return len(text)
    return 0


_OTHER = "other"


class QuestionsDialog(QuestionDialog):
    """Asks the model's questions. A single question with one answer is answered by choosing it; otherwise the last page
    shows all answers first."""

    def __init__(self, asked: PagedQuestion) -> None:
        super().__init__(asked)
        self.paged = asked
        self.questions = asked.pages
        self.page = 0
        self._picked: list[set[int]] = [set() for _question in self.questions]
        self._said = [""] * len(self.questions)

    @property
    def question(self) -> str:
        if self._reviewing:
            return "Send these answers?"
        count = len(self.questions)
        return "A question for you" if count == 1 else f"Question {self.page + 1} of {count}"

    def keys(self) -> Keys:
        if self._reviewing:
            return [("←→", "back to a question"), ("Enter", "confirm"), ("Esc", "stop the work")]
        turn = [] if self._direct else [("←→", "question")]
        several = self.questions[self.page].several
        how = [("Space", "pick"), ("Enter", "continue")] if several else [("Enter", "pick")]
        return [("letters", "own answer"), ("↑↓ or a number", "choose"), *turn, *how, ("Esc", "stop the work")]

    @property
    def space_picks(self) -> bool:
        return not self._reviewing and self.questions[self.page].several

    def entry_keys(self) -> Keys:
        if self._direct:
            return super().entry_keys()
        several = self.questions[self.page].several
        return [("Enter", "back to the list" if several else "continue"), ("Esc", "back")]

    def extra_head(self, width: int) -> list[Runs]:
        if self._direct:
            return []
        tabs = []
        for number, name in enumerate([*(one_line(question.header) for question in self.questions), "Send"]):
            is_last = number == len(self.questions)
            here = number == self.page
            style = self.palette.accent + Style(reverse=True, bold=True) if here else self.palette.muted
            sign = "→" if is_last else "✓" if self._answers(number) else "○"
            tabs.append((f"{sign} {name}", style + Style(meta={"page": number})))
        return [tab_row(tabs, self.page, width)]

    @property
    def layout_key(self) -> Hashable:
        return self.body_width, self.compact

    def body(self, width: int) -> list[BlockLine]:
        palette = self.palette
        if self._reviewing:
            return self._review(width)
        question = self.questions[self.page]
        lines = paragraph(question.text, width, palette.text + palette.strong)
        if question.several:
            lines += wrap([("More than one may be picked.", palette.muted)], width)
        if self.compact:
            for number, (label, description) in enumerate(question.options, 1):
                if description:
                    lines += [BLANK, *paragraph(label, width, palette.text, mark=[(f"{number} ", palette.muted)])]
                    lines += paragraph(description, width, palette.muted, "  ")
        return lines

    def choices(self) -> Sequence[SheetChoice]:
        if self._reviewing:
            any_answer = any(self._answers(number) for number in range(len(self.questions)))
            refused = "" if any_answer else "no question is answered yet"
            return [SheetChoice("send", "Send", refused=refused), SheetChoice("change", "Change an answer")]
        question, picked, said = self.questions[self.page], self._picked[self.page], self._said[self.page]
        boxes = ("[x]", "[ ]") if question.several else ("●", "○")
        found = [
            SheetChoice(str(number), label, detail=description, mark=boxes[0] if number in picked else boxes[1])
            for number, (label, description) in enumerate(question.options)
        ]
        own = one_line(self.paged.other or "Other: type your own answer")
        label = f"Other: {said}" if said else own
        found.append(SheetChoice(_OTHER, label, short="" if said else "Other …", mark=boxes[0] if said else boxes[1]))
        return found

    def _review(self, width: int) -> list[BlockLine]:
        lines: list[BlockLine] = []
        for number, question in enumerate(self.questions):
            lines += [BLANK] if lines else []
            lines += paragraph(question.text, width, self.palette.muted)
            answer, style = ", ".join(self._answers(number)), self.palette.text
            if not answer:
                answer, style = "(not answered)", self.palette.warning
            lines += paragraph(answer, width, style, mark=[("  → ", self.palette.accent)])
        return lines

    def choose(self, name: str) -> None:
        if name == "send":
            self._send()
        elif name == "change":
            self._go(0)
        elif name == _OTHER:
            self._ask_other()
        elif self.questions[self.page].several:
            self._picked[self.page] ^= {int(name)}
            self.update()
        else:
            self._picked[self.page], self._said[self.page] = {int(name)}, ""
            self._go_on()

    def _ask_other(self, typed: str = "") -> None:
        # A question that offers a free answer describes it in `other`.
        what = one_line(self.paged.other or "Your answer")
        self.index = len(self.questions[self.page].options)
        self.ask(what, self._said[self.page] + typed, "empty: none")

    def submit(self, text: str) -> None:
        page = self.page
        self._said[page] = text.strip()
        if self._said[page] and not self.questions[page].several:
            self._picked[page] = set()
        self.stop_asking()
        self.update()
        if self._said[page] and not self.questions[page].several:
            self._go_on()

    def press_own(self, key: str, character: str | None) -> bool:
        if self.typing:
            return False
        match key:
            case "right" | "tab":
                self._go(self.page + 1)
            case "left" | "shift+tab":
                self._go(self.page - 1)
            case "space" if not self._reviewing:
                self.choose(self._named)
            case "enter" if not self._reviewing and self.questions[self.page].several and not self._needs_text:
                self._go_on()
            case _ if character and not self._reviewing and not character.isdecimal() and character != "/":
                # The beginning of an answer in the user's own words, never a shortcut.
                self._ask_other(character)
            case _:
                return False
        return True

    def clicked(self, meta: dict[str, object]) -> None:
        page = meta.get("page")
        if isinstance(page, int):
            self._go(page)

    @property
    def _named(self) -> str:
        return self.choices()[self.index].name

    @property
    def _needs_text(self) -> bool:
        """Whether the free answer is marked and still empty: Enter opens it instead of continuing."""
        return self._named == _OTHER and not self._said[self.page]

    @property
    def _direct(self) -> bool:
        return len(self.questions) == 1 and not self.questions[0].several

    @property
    def _reviewing(self) -> bool:
        return self.page == len(self.questions)

    def _answers(self, number: int) -> list[str]:
        labels = [self.questions[number].options[place][0] for place in sorted(self._picked[number])]
        return [*labels, *([self._said[number]] if self._said[number] else [])]

    def _go_on(self) -> None:
        if self._direct:
            self._send()
        else:
            self._go(self.page + 1)

    def _go(self, page: int) -> None:
        last = 0 if self._direct else len(self.questions)
        self.page = max(0, min(last, page))
        picked = sorted(self._picked[self.page]) if not self._reviewing else []
        self.index = picked[0] if picked else self._next(-1, 1)
        self.update()
        self.scroller.move_to(0)

    def _send(self) -> None:
        self.dismiss(self.paged.answer([self._answers(number) for number in range(len(self.questions))]))
