"""Tools that plan with the user: AskUserQuestion, EnterPlanMode, ExitPlanMode and TodoWrite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from agentcli.core.aio import AbortSignal
from agentcli.core.messages import Json, Message, ToolResultBlock, ToolUseBlock
from agentcli.core.permission import Need, PermissionMode
from agentcli.core.space_saving import RunningValue
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import plain_line, plain_text
from agentcli.tools.base import (
    BuiltinTool,
    Output,
    QuestionTool,
    ToolContext,
    ToolRun,
    check_input,
    failure,
    object_schema,
)

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
        return {"kind": "questions", "questions": [_clean_question(question) for question in input["questions"]]}

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


def _clean_question(question: Json) -> Json:
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


_MAX_PLAN = 100_000


class EnterPlanMode(QuestionTool):
    name = "EnterPlanMode"
    input_schema = object_schema([], {})
    unanswered = "This session is non-interactive, so no plan can be approved: go on without plan mode, carefully."
    declined = "The user wants you to go on without plan mode."

    def title(self, input: Json) -> str:
        return "Plan before working"

    def check(self, input: Json, context: ToolContext) -> str | None:
        return "Plan mode is on already." if context.mode is PermissionMode.PLAN else None

    def preview(self, input: Json, context: ToolContext) -> Json | None:
        text = "The agent wants to explore and write a plan first. It changes nothing until you approve the plan."
        return {"kind": "text", "question": "Plan first?", "text": text}

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        yield Output(
            "Plan mode is on: read, search, run read-only commands and ask, then present the plan with ExitPlanMode.",
            summary="plan mode is on",
            display={"kind": "mode", "mode": PermissionMode.PLAN.value},
            structured={"mode": PermissionMode.PLAN.value},
            mode="plan",
        )


class ExitPlanMode(QuestionTool):
    name = "ExitPlanMode"
    keeps_state = True
    input_schema = object_schema(["plan"], {"plan": {"type": "string", "minLength": 1, "maxLength": _MAX_PLAN}})
    answer_schema: ClassVar[Json] = {**input_schema, "additionalProperties": True}
    """Front ends may send further fields with an approved plan; they are ignored."""
    unanswered = "This session is non-interactive, so plan mode stays on: give the plan as your answer."
    declined = "The user did not approve the plan; plan mode stays on."

    def title(self, input: Json) -> str:
        return "Plan for approval"

    def check(self, input: Json, context: ToolContext) -> str | None:
        if context.mode is not PermissionMode.PLAN:
            return "Plan mode is not on, so there is nothing to leave. Go on with the work."
        return None if input["plan"].strip() else "The plan is empty."

    def preview(self, input: Json, context: ToolContext) -> Json | None:
        return {"kind": "plan", "plan": plain_text(input["plan"]), "returns_to": context.before_plan.value}

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        plan = input["plan"].strip()
        lines = plan.count("\n") + 1
        yield Output(
            f"The user has approved this plan. Plan mode is off: begin the work.\n\n{plan}",
            summary=f"approved, {counted(lines, 'line')}",
            display={"kind": "plan", "plan": plain_text(plan)},
            structured={"plan": plan},
            data={"plan": plan},
            mode="previous",
        )


NAME = "TodoWrite"
STATUSES = ("pending", "in_progress", "completed")
MAX_TODOS = 100
_TODO = object_schema(
    ["content", "status"],
    {
        "content": {"type": "string", "minLength": 1, "maxLength": 500, "description": "What is to be done"},
        "status": {"type": "string", "enum": list(STATUSES)},
        "activeForm": {"type": "string", "maxLength": 500, "description": "Shown while it is done: Running tests"},
    },
)


class TodoWrite(BuiltinTool):
    name = NAME
    needs_conversation = keeps_state = True
    max_repeats = 6  # A task list may be written unchanged.
    input_schema = object_schema(["todos"], {"todos": {"type": "array", "maxItems": MAX_TODOS, "items": _TODO}})

    def title(self, input: Json) -> str:
        return f"Todos: {count_done(_list_tasks(input))}"

    def needs(self, input: Json, context: ToolContext) -> tuple[Need, ...]:
        return ()

    def check(self, input: Json, context: ToolContext) -> str | None:
        blank = [place for place, todo in enumerate(input["todos"]) if not todo["content"].strip()]
        return f"todos[{blank[0]}].content: must not be blank" if blank else None

    async def run(self, input: Json, context: ToolContext, signal: AbortSignal) -> ToolRun:
        todos = _normalise(input["todos"])
        text = "The task list is kept."
        active = [todo["content"] for todo in todos if todo["status"] == "in_progress"]
        if len(active) > 1:
            text += f" {len(active)} tasks are in_progress; keep to one at a time."
        elif not active and any(todo["status"] == "pending" for todo in todos):
            text += " No task is in_progress; mark the one you work on next."
        yield Output(
            text,
            summary=count_done(todos),
            display={"kind": "todos", "todos": todos},
            structured={"newTodos": todos},
            todos=todos,
        )


def count_done(todos: Sequence[Json]) -> str:
    """Count finished tasks for display: `3 of 7 done`."""
    if not todos:
        return "none"
    done = sum(todo.get("status") == "completed" for todo in todos)
    return f"{done} of {len(todos)} done"


def todo_line(todo: Json, most: int = 300) -> str:
    """An entry for display, in ASCII."""
    sign = {"completed": "[x]", "in_progress": "[>]"}.get(str(todo.get("status")), "[ ]")
    content = todo.get("content")
    return f"{sign} {plain_line(content if isinstance(content, str) else '', most)}"


def todos_from(messages: Sequence[Message]) -> list[Json]:
    """The task list of the last successful call in a conversation; empty if there was none."""
    return last_list(written_lists().of(messages))


def written_lists() -> RunningValue[Message, list[ToolUseBlock]]:
    """The successful calls of a growing conversation; for `last_list`."""

    def add(calls: list[ToolUseBlock], message: Message) -> list[ToolUseBlock]:
        for block in message.content:
            if isinstance(block, ToolUseBlock) and block.name == NAME and block.invalid_json is None:
                calls.append(block)
            elif isinstance(block, ToolResultBlock) and block.is_error and calls:
                calls[:] = [call for call in calls if call.id != block.tool_use_id]
        return calls

    return RunningValue(list, add)


def last_list(calls: Sequence[ToolUseBlock]) -> list[Json]:
    for call in reversed(calls):
        input, wrong = check_input(TodoWrite.input_schema, call.input)
        if not wrong:
            return _normalise(input["todos"])
    return []


def _list_tasks(input: Json) -> list[Json]:
    """The tasks in input that may not have passed its schema."""
    todos: Any = input.get("todos")
    return [todo for todo in todos if isinstance(todo, dict)] if isinstance(todos, list) else []


def _normalise(todos: Sequence[Json]) -> list[Json]:
    """Normalise tasks: one line each, without terminal control characters; equal input gives an equal list."""
    kept: list[Json] = []
    for todo in todos:
        content = plain_line(todo["content"], limit=500)
        active = plain_line(todo.get("activeForm") or "", limit=500)
        kept.append({"content": content, "status": todo["status"], "activeForm": active or content})
    return kept
