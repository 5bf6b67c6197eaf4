"""AskUserQuestion: ask the user questions with options.

They use the permission channel: the call needs a `question`, and the answer's input contains `answers`. The model
cannot set `answers`: only `answer_schema` allows them.
"""

from __future__ import annotations

from typing import Any, ClassVar

from agentcli.core.abort import AbortSignal
from agentcli.core.messages import Json
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.core.text.plural import counted
from agentcli.tools.base import Output, ToolContext, ToolRun
from agentcli.tools.builtin import QuestionTool, failure, object_schema

_OPTION = object_schema(
    ["label"],
    {
        "label": {"type": "string", "minLength": 1, "maxLength": 200},
        "description": {"type": "string", "maxLength": 1000, "description": "What choosing it means"},
    },
)
_QUESTION = object_schema(
    ["question", "header", "options"],
    {
        "question": {"type": "string", "minLength": 1, "maxLength": 2000},
        "header": {"type": "string", "minLength": 1, "maxLength": 40, "description": "One or two words"},
        "options": {"type": "array", "minItems": 2, "maxItems": 4, "items": _OPTION},
        "multiSelect": {"type": "boolean", "description": "More than one option may be chosen"},
    },
)
_QUESTIONS = {"type": "array", "minItems": 1, "maxItems": 4, "items": _QUESTION}
_MAX_ANSWER = 20_000


class AskUserQuestion(QuestionTool):
    name = "AskUserQuestion"
    input_schema = object_schema(["questions"], {"questions": _QUESTIONS})
    answer_schema: ClassVar[Json] = {
        "type": "object",
        "properties": {"questions": _QUESTIONS, "answers": {"type": "object"}},
        "required": ["questions"],
    }
    """Schema of an answer: `answers` by question text; a label, several labels, or free text."""
    unanswered = "This session is non-interactive: decide yourself, and say in your answer what you decided."
    declined = "The user did not answer the questions."

    def title(self, input: Json) -> str:
        questions = input.get("questions")
        first = questions[0] if isinstance(questions, list) and questions else None
        text = plain_line(str(first.get("question", "")), limit=150) if isinstance(first, dict) else ""
        more = f" (and {len(questions) - 1} more)" if isinstance(questions, list) and len(questions) > 1 else ""
        return f"Question: {text}{more}" if text else "Question"

    def check(self, input: Json, context: ToolContext) -> str | None:
        texts = [question["question"] for question in input["questions"]]
        if len(set(texts)) < len(texts):
            return "Two questions are the same. Ask each once."
        for question in input["questions"]:
            labels = [option["label"] for option in question["options"]]
            if len(set(labels)) < len(labels):
                return f"Two options of {question['header']!r} have the same label."
        return None

    def preview(self, input: Json, context: ToolContext) -> Json | None:
        """The questions for a dialog, without terminal control characters."""
        return {"kind": "questions", "questions": [_shown(question) for question in input["questions"]]}

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        answers: Any = input.get("answers")
        given = answers if isinstance(answers, dict) else {}
        found = [(question["question"], _answer(question, given)) for question in input["questions"]]
        count = sum(bool(answer) for _question, answer in found)
        if not count:
            yield failure("The questions were not answered: decide yourself, or ask in your reply.", "no answer")
            return
        lines = [f"- {question}\n  {answer or '(not answered)'}" for question, answer in found]
        answered = {question: answer for question, answer in found if answer}
        yield Output(
            "The user answered:\n" + "\n".join(lines),
            summary=f"{count} of {len(found)} answered" if count < len(found) else counted(count, "answer"),
            display={"kind": "answers", "answers": [{"question": q, "answer": a} for q, a in found]},
            structured={"questions": input["questions"], "answers": answered},
        )


def _shown(question: Json) -> Json:
    return {
        "question": plain_text(question["question"]),
        "header": plain_line(question["header"]),
        "multiSelect": bool(question.get("multiSelect")),
        "options": [
            {"label": plain_line(option["label"]), "description": plain_text(option.get("description", ""))}
            for option in question["options"]
        ],
    }


def _answer(question: Json, answers: Json) -> str:
    """The answer by question text, as written or as shown, or by its header."""
    for key in (question["question"], plain_text(question["question"]), question["header"]):
        value = answers.get(key)
        parts = value if isinstance(value, list) else [value]
        text = ", ".join(part.strip() for part in parts if isinstance(part, str) and part.strip())
        if text:
            return text[:_MAX_ANSWER]
    return ""
