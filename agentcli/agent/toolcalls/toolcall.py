"""One tool call from its block to its result (SPEC T4).

Steps: find the tool, parse its input, check it, run hooks, decide permission, run the tool, run hooks, normalise the
output. A failure in any step becomes an error result (`core/tool_errors.py`), never an exception. The API gets back
the model's own input; hooks and answers may change a copy that the tool runs with (T9).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, cast

from agentcli.agent.plugins import PluginRenderers
from agentcli.agent.ports import EmitEvent, PostToolVerdict, PreToolVerdict
from agentcli.agent.side_call import SideQuestions
from agentcli.agent.subagents.agents import CallAgents
from agentcli.agent.toolcalls.call_input import (
    Fitted,
    FittedInputs,
    changed_paths,
    fit_input,
    observed_input,
    without_derived,
)
from agentcli.agent.toolcalls.call_result import (
    CallResult,
    Outcome,
    UserWords,
    declined_result,
    denial_sentence,
    failed,
    interrupted_call,
    result_block,
    unattended_refusal,
    unfit_input,
    user_words,
)
from agentcli.agent.toolcalls.network_offer import (
    MOST_OFFERS,
    NetworkResult,
    declined_network,
    host_rule,
    network_choices,
    network_reason,
    unattended_network,
)
from agentcli.agent.user_input import Questions
from agentcli.core import events as ev
from agentcli.core.abort import AbortController, Aborted, AbortSignal
from agentcli.core.aio import in_thread
from agentcli.core.files.bounded_read import DEEPEST_INPUT
from agentcli.core.frozen import frozen, replace
from agentcli.core.messages import Json, TextBlock, ToolUseBlock, clean_text
from agentcli.core.permission import Answer, Approval, Decision, Need, PermissionMode
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import Output, Progress, Tool, ToolContext
from agentcli.tools.builtin import title_of

if TYPE_CHECKING:
    from agentcli.agent.session import Session

INVALID_JSON_SHOWN = 200
"""Bytes of an invalid input that the model is shown."""


class _Refused(Exception):
    """Raised in this module to end a call before its tool runs."""

    def __init__(
        self,
        text: str,
        summary: str = "",
        outcome: Outcome = "failed",
        said: tuple[UserWords, ...] = (),
        denied_by: str = "",
        stop: str | None = None,
        context: tuple[str, ...] = (),
    ) -> None:
        super().__init__(text)
        self.summary = summary
        self.outcome = outcome
        self.denied_by = denied_by
        self.said = said
        """The user's text with a denial, for the model."""
        self.stop = stop
        """Why a hook ends the submission here."""
        self.context = context
        """Text of hooks for the model."""


@frozen
class _Attempt:
    """A call that is being made."""

    call: ToolUseBlock
    context: ToolContext
    signal: AbortSignal
    emit: EmitEvent

    def title(self, tool: Tool, input: Json) -> str:
        return title_of(tool, input, self.context.working_dirs[0])


@frozen
class _Approved:
    """An approved call, with the input to run the tool with."""

    tool: Tool
    input: Json
    hook_context: tuple[str, ...] = ()
    """Text of hooks for the model."""
    needs: tuple[Need, ...] = ()
    by: Approval = "mode"
    """What approved it: a rule, the mode, or the user's answer."""
    answer: Answer | None = None
    """The user's approval."""
    relies_on_undo: bool = False
    """Whether nobody was asked because undo covers its changes."""

    @property
    def words(self) -> str:
        """The user's own words with the approval."""
        return "" if self.answer is None or self.answer.accepted_hunks else self.answer.message


@frozen
class ToolRunner:
    """Runs tool calls: decides about each, asks the user where needed, and turns every outcome into a result."""

    session: Session
    asked: Questions | None = None
    """Takes the answers to questions about calls; None: the session's."""
    inputs: FittedInputs = field(default_factory=FittedInputs)

    @property
    def questions(self) -> Questions:
        return self.asked or self.session.questions

    def is_safe(self, call: ToolUseBlock) -> bool:
        """Whether a call may run in parallel and be discarded; depends on its input (T3). Errors are safe."""
        tool = self.session.registry.get(call.name)
        if tool is None or call.invalid_json is not None:
            return True
        try:
            input, wrong = self.inputs.look(tool, call)
            return bool(wrong) or tool.is_safe(input)
        except Exception:  # noqa: BLE001 - after a bug of the tool the call runs alone
            return False

    def runs_beside(self, call: ToolUseBlock) -> bool:
        """Whether a call whose result cannot be discarded may still run in parallel."""
        beside = getattr(self.session.registry.get(call.name), "runs_beside", None)
        return beside is not None and bool(beside(call.input))

    async def run(
        self,
        call: ToolUseBlock,
        context: ToolContext,
        signal: AbortSignal,
        emit: EmitEvent,
        on_start: Callable[[], None],
    ) -> CallResult:
        """Run a call to its result. Raises nothing but cancellation. Calls `on_start` right before the tool starts."""
        began = self.session.clock.monotonic()
        permissions, agents = self.session.permissions, CallAgents(self.session, emit)
        context = replace(
            context, mode=permissions.mode, before_plan=permissions.before_plan, call_id=call.id, agents=agents
        )
        attempt = _Attempt(call, context, signal, emit)
        may_write = begun = False
        only: tuple[str, ...] | None = None
        approved: _Approved | None = None
        try:
            approved = await self._approve(attempt)
            is_safe = approved.tool.is_safe(approved.input)
            if not is_safe:
                self.session.log.begin_effects(call.id)
            if not is_safe and _may_write(approved.needs):
                folders = (context.root, context.working_dirs)
                only = await changed_paths(approved.input, approved.needs, context)
                await signal.run(self.session.workspace.before_change(call.id, approved.input, *folders))
                may_write = True
                if approved.relies_on_undo and (gap := await self.session.workspace.find_gap(context.working_dirs, ())):
                    # Only this snapshot failed.
                    raise _Refused(f"The call was not made: {gap}. Try it again, so that the user is asked.")
            begun = True
            on_start()
            title = attempt.title(approved.tool, approved.input)
            await emit(ev.ToolStarted(tool_use_id=call.id, name=call.name, input=approved.input, title=title))
            began = self.session.clock.monotonic()
            result = await self._run_tool(attempt, approved)
        except _Refused as refusal:
            result = failed(call, str(refusal), refusal.summary, refusal.outcome)
            result = replace(result, said=refusal.said, denied_by=refusal.denied_by)
            post = await self._after_refusal(attempt, str(refusal))
            texts = (*refusal.context, *post.context)
            result = replace(result, hook_stop=refusal.stop or post.stop, hook_context=texts, stopped_by=post.by)
        except Aborted as abort:
            result = failed(call, interrupted_call(abort.reason, begun), "interrupted", "interrupted")
        except Exception as error:  # noqa: BLE001 - SPEC T4: a crash is a result
            text = f"{call.name} failed unexpectedly: {type(error).__name__}: {error}"
            post = await self._after_refusal(attempt, text)
            result = replace(failed(call, text), hook_stop=post.stop, hook_context=post.context, stopped_by=post.by)
        display = result.output.display
        if approved is not None and (text := approved.words):
            about = f"`{attempt.title(approved.tool, approved.input)}`"
            result = replace(result, said=(*user_words(about, text, approved=True), *result.said))
        if may_write:
            report = call.id if approved is not None and _may_execute(approved.needs) else ""
            in_background = context.shells is not None and context.shells.any_runs
            if await self.session.workspace.after_change(only, in_background, report):
                display = {**display, "changed_files": True}
        await emit(
            ev.ToolFinished(
                tool_use_id=call.id,
                name=call.name,
                result=result.block,
                summary=result.output.summary,
                display=display,
                structured=result.output.structured,
                duration_ms=int((self.session.clock.monotonic() - began - result.waited) * 1000) if begun else 0,
                outcome=result.outcome,
                denied_by=result.denied_by,
                accepted_hunks=list(result.accepted_hunks or ()),
            )
        )
        return result

    async def _approve(self, attempt: _Attempt) -> _Approved:
        """Everything before the tool runs. Raises `_Refused`, or `Aborted`."""
        call, context, signal = attempt.call, attempt.context, attempt.signal
        tool = self._find(call)
        input = self._checked(tool, self.inputs.take(tool, call), context)
        verdict, hooks, observed = PreToolVerdict(), self.session.hooks.reporting_to(attempt.emit), input
        if hooks.watches_tools:
            observed = observed_input(tool, input, context)
            verdict = await signal.run(hooks.before_tool(call, observed))
        elif signal.reason is not None:
            raise Aborted(signal.reason)
        if verdict.decision == "deny":
            text = verdict.reason or "A hook denied this call."
            refusal = await self._denied(attempt, input, text, by="a hook")
            refusal.stop, refusal.context = verdict.stop, verdict.context
            raise refusal
        if verdict.updated_input is not None:
            updated = without_derived(verdict.updated_input, input, observed)
            input = self._parse(tool, updated, context, answered=verdict.decision == "allow")
        needs = tool.needs(input, context)
        decision = self._decide(tool, input, needs, context, verdict)
        is_unasked = decision.behavior == "allow" and not decision.rule and not decision.source
        undone = (
            self.session.permissions.paths_to_undo(needs, context) if is_unasked and not tool.is_safe(input) else []
        )
        if undone and (gap := await signal.run(self.session.workspace.find_gap(context.working_dirs, undone))):
            decision = Decision("ask", f"Needs approval: {gap}", cause=gap)
        await attempt.emit(
            ev.PermissionDecided(
                tool_use_id=call.id,
                name=tool.name,
                behavior=decision.behavior,
                reason=decision.reason,
                rule=decision.rule,
                source=decision.source,
                details=list(decision.details),
            )
        )
        answer: Answer | None = None
        if decision.behavior == "ask":
            asked = input
            input, answer = await self._ask(attempt, tool, input, needs, decision)
            # An answer that changes the input is the decision about what the changed input needs.
            needs = needs if input is asked else tool.needs(input, context)
        elif decision.behavior == "deny":
            raise await self._denied(attempt, input, denial_sentence(decision.reason), by=decision.denied_by)
        if signal.reason is not None:
            raise Aborted(signal.reason)
        by: Approval = "answer" if decision.behavior == "ask" else "rule" if decision.rule else "mode"
        return _Approved(tool, input, verdict.context, needs, by, answer, bool(undone) and answer is None)

    def title(self, name: str, input: Json) -> str:
        """One line about a call, for the user."""
        tool = self.session.registry.get(name)
        return tool.title(input) if tool is not None else name

    def _find(self, call: ToolUseBlock) -> Tool:
        tool = self.session.registry.get(call.name)
        if tool is None:
            hint = self.session.registry.hint(call.name)
            raise _Refused(f"There is no tool called {call.name[:100]!r}. {hint}".rstrip(), "unknown tool")
        if call.invalid_json is not None:
            shown = call.invalid_json.encode("utf-8", "replace")[:INVALID_JSON_SHOWN].decode("utf-8", "replace")
            what = f"The input is not a JSON object, or it is nested more than {DEEPEST_INPUT} levels deep"
            raise _Refused(f"{what}. It begins with: {shown}", "invalid input")
        return tool

    def _parse(self, tool: Tool, raw: Json, context: ToolContext, *, answered: bool) -> Json:
        """Parse and check an input that a hook or an answer has changed."""
        return self._checked(tool, fit_input(tool, raw, answered=answered), context)

    def _checked(self, tool: Tool, fitted: Fitted, context: ToolContext) -> Json:
        input, wrong = fitted
        if wrong:
            raise _Refused(unfit_input(tool, wrong), "invalid input")
        refused = tool.check(input, context)
        if refused is not None:
            raise _Refused(refused)
        return input

    def _decide(
        self, tool: Tool, input: Json, needs: tuple[Need, ...], context: ToolContext, verdict: PreToolVerdict
    ) -> Decision:
        decision = self.session.permissions.decide(tool.name, input, needs, context)
        if verdict.decision == "ask" and decision.behavior == "allow":
            return Decision("ask", verdict.reason or "A hook requires approval for this call.", source="hook")
        # A hook cannot allow a question to the user without answering it.
        answers = verdict.updated_input is not None or not _is_question(needs)
        if verdict.decision == "allow" and decision.behavior == "ask" and not decision.needs_user and answers:
            return Decision("allow", verdict.reason or "A hook allowed this.", source="hook")
        return decision

    async def _ask(
        self, attempt: _Attempt, tool: Tool, input: Json, needs: tuple[Need, ...], decision: Decision
    ) -> tuple[Json, Answer]:
        """Ask hooks, then the user. Returns the input to run with and the answer if allowed; raises `_Refused` if
        denied. An abort withdraws the question."""
        call, context = attempt.call, attempt.context
        if (allowed := await self._hook_answer(attempt, tool, input, needs, decision)) is not None:
            return allowed, Answer("allow")
        title = attempt.title(tool, input)
        if not self.questions.interactive and _is_question(needs):
            raise await self._denied(attempt, input, getattr(tool, "unanswered", "This session is non-interactive."))
        if not self.questions.interactive:
            rules = self.session.permissions.suggest_prefix(tool.name, input, needs, context)
            raise await self._denied(attempt, input, unattended_refusal(title, input, decision, rules), title, rules)
        choices = self.session.permissions.rule_choices(tool.name, input, needs, context)
        question = ev.PermissionRequested(
            request_id=self.session.ids.new(),
            tool_use_id=call.id,
            name=tool.name,
            input=input,
            title=title,
            suggestions=list(choices[0].rules) if choices else [],
            rule_choices=[choice.record() for choice in choices],
            **decision.explanation(),
            display=await _preview(tool, input, context),
        )
        answer = await self._answer_to(attempt, question)
        if answer.behavior == "deny":
            if answer.interrupt:
                self.session.abort()
            await self._decline(attempt, tool, input, answer.message)
        if answer.updated_input is not None and answer.updated_input != input:
            return self._parse(tool, answer.updated_input, context, answered=True), answer
        return input, answer

    async def _hook_answer(
        self, attempt: _Attempt, tool: Tool, input: Json, needs: tuple[Need, ...], decision: Decision
    ) -> Json | None:
        """Let hooks answer in place of the user. Returns the input to run with if they allow it, None if the user must
        be asked; raises `_Refused` if they deny it. Ask and deny rules also apply to an input that a hook changed."""
        context, hooks = attempt.context, self.session.hooks.reporting_to(attempt.emit)
        observed = observed_input(tool, input, context)
        verdict = await attempt.signal.run(hooks.before_question(attempt.call, observed))
        if verdict.decision == "deny":
            if verdict.interrupt:
                self.session.abort()
            raise await self._denied(attempt, input, verdict.message or "A hook denied this call.", by="a hook")
        changed = verdict.updated_input and without_derived(verdict.updated_input, input, observed)
        if verdict.decision != "allow" or decision.needs_user or (changed is None and _is_question(needs)):
            return None
        if changed is None or changed == input:
            return input
        parsed = self._parse(tool, changed, context, answered=True)
        again = self.session.permissions.decide(tool.name, parsed, tool.needs(parsed, context), context)
        if again.behavior == "deny":
            raise await self._denied(attempt, parsed, denial_sentence(again.reason), by=again.denied_by)
        return None if again.behavior == "ask" and again.needs_user else parsed

    async def _answer_to(self, attempt: _Attempt, question: ev.PermissionRequested) -> Answer:
        """Ask the user and apply the rules and the mode of the answer. Raises `Aborted`."""
        emit = attempt.emit
        future = self.questions.ask(question.request_id)
        ended = partial(ev.PermissionResolved, request_id=question.request_id, tool_use_id=question.tool_use_id)
        try:
            await emit(question)
            self.session.hooks.attention_needed("permission_prompt", f"agentcli needs your approval: {question.title}")
            answer = await attempt.signal.run(future)
        except Aborted:
            await emit(ended(behavior="withdrawn"))
            raise
        finally:
            self.questions.withdraw(question.request_id)
        await emit(ended(behavior=answer.behavior))
        if answer.behavior == "allow" and answer.rules:
            where = self.session.permissions.learn(answer.rules, answer.save_to)
            await emit(ev.RulesLearned(rules=list(answer.rules), where=where, tool_use_id=question.tool_use_id))
        if answer.behavior == "allow" and answer.mode is not None:
            self.session.permissions.set_mode(answer.mode)
            await emit(self.session.permissions.mode_changed("your answer"))
        return answer

    async def _with_network(self, attempt: _Attempt, approved: _Approved, output: Output) -> NetworkResult:
        """Offer to run a command again with network if it failed without; keep its last output if the user declines."""
        context = attempt.context
        allowed: tuple[str, ...] = ()
        said: tuple[UserWords, ...] = ()
        about = f"to run `{attempt.title(approved.tool, approved.input)}` again with network"
        waited = 0.0
        for _offer in range(MOST_OFFERS):
            hosts = output.wanted_hosts
            if hosts is None or attempt.signal.aborted:
                break
            if not self.questions.interactive:
                return NetworkResult(unattended_network(output, hosts))
            asked = self.session.clock.monotonic()
            try:
                answer = await self._network_answer(attempt, approved, hosts)
            except Aborted:
                # The command ran, and its output is the result.
                break
            finally:
                waited += self.session.clock.monotonic() - asked
            words = user_words(about, answer.message, approved=answer.behavior == "allow")
            said += words
            if answer.behavior == "deny":
                if answer.interrupt:
                    self.session.abort()
                return NetworkResult(declined_network(output, bool(words)), waited, said, is_declined=True)
            allowed += hosts
            grant = self.session.permissions.grant(approved.needs, context, approved=approved.by)
            wider = replace(grant, network="hosts" if hosts else "all", hosts=(*grant.hosts, *allowed))
            again = replace(attempt, context=replace(context, grant=wider))
            output = await self._output(again, approved) or output
        return NetworkResult(output, waited, said)

    async def _network_answer(self, attempt: _Attempt, approved: _Approved, hosts: tuple[str, ...]) -> Answer:
        context = attempt.context
        choices = network_choices(hosts, self.session.permissions.credential_rules(approved.needs, context))
        question = ev.PermissionRequested(
            request_id=self.session.ids.new(),
            tool_use_id=attempt.call.id,
            name=approved.tool.name,
            input=approved.input,
            title=attempt.title(approved.tool, approved.input),
            reason=network_reason(hosts),
            suggestions=[host_rule(host) for host in hosts],
            rule_choices=[choice.record() for choice in choices],
            display={**await _preview(approved.tool, approved.input, context), "network": list(hosts)},
        )
        return await self._answer_to(attempt, question)

    async def _apply(self, output: Output, emit: EmitEvent) -> None:
        """Apply the changes of mode, todos and rights that a call made, before the next call is decided about."""
        if output.mode == "plan":
            self.session.permissions.set_mode(PermissionMode.PLAN)
            await emit(self.session.permissions.mode_changed("the model began to plan"))
        elif output.mode == "previous":
            self.session.permissions.leave_plan()
            await emit(self.session.permissions.mode_changed("the plan was approved"))
        if output.todos is not None:
            await emit(ev.TodosChanged(todos=output.todos))
        for problem in self.session.permissions.grant_rules(output.allows, output.allows_from):
            text = f"{output.allows_from}: {problem}"
            await emit(ev.NoticeRaised(text=text, level="warning", code="definitions"))
        for text in output.notices:
            await emit(ev.NoticeRaised(text=text, level="warning", code="quarantine"))

    async def _decline(self, attempt: _Attempt, tool: Tool, input: Json, message: str) -> NoReturn:
        """Refuse a call that the user denied. Their text is sent as a separate message, not in the result: models
        distrust instructions in results."""
        declined = str(getattr(tool, "declined", "")) or "The user declined this call."
        reason = f"{declined} They said: {message}" if message else declined
        refusal = await self._denied(attempt, input, reason, by="you")
        said = user_words(f"`{attempt.title(tool, input)}`", message)
        raise _Refused(declined_result(declined, bool(message)), refusal.summary, "denied", said, refusal.denied_by)

    async def _denied(
        self, attempt: _Attempt, input: Json, reason: str, title: str = "", rules: Sequence[str] = (), by: str = ""
    ) -> _Refused:
        """Report a denial and return the exception to raise. `reason` is for the model; `by`, who denied it, for the
        user."""
        call = attempt.call
        await attempt.emit(
            ev.PermissionDenied(
                tool_use_id=call.id,
                name=call.name,
                input=input,
                reason=reason,
                title=title or plain_line(self.title(call.name, input)),
                rules=list(rules),
                by=by,
            )
        )
        return _Refused(reason, f"denied by {by}" if by else "denied", "denied", denied_by=by)

    async def _after_refusal(self, attempt: _Attempt, text: str) -> PostToolVerdict:
        call, hooks = attempt.call, self.session.hooks.reporting_to(attempt.emit)
        observed = replace(
            call, input=observed_input(self.session.registry.get(call.name), call.input, attempt.context)
        )
        return await self._run_post_hook(attempt, hooks.after_refused_tool(observed, text))

    async def _run_post_hook(self, attempt: _Attempt, hook: Coroutine[Any, Any, PostToolVerdict]) -> PostToolVerdict:
        """The verdict of a hook after a call. A hook that fails or is aborted does not change the call's result."""
        try:
            return await attempt.signal.run(hook)
        except Aborted:
            return PostToolVerdict()
        except Exception as error:  # noqa: BLE001 - a hook's bug must not turn a success into a failure
            text = f"A hook that runs after tools failed: {type(error).__name__}: {error}. The call's result is kept."
            await attempt.emit(ev.NoticeRaised(text=plain_line(text, 500), level="warning", code="hook"))
            return PostToolVerdict()

    async def _output(self, attempt: _Attempt, approved: _Approved) -> Output | None:
        """Run the tool once, and emit its progress."""
        output: Output | None = None
        with AbortController(parent=attempt.signal) as controller:
            async with aclosing(approved.tool.run(approved.input, attempt.context, controller.signal)) as items:
                async for item in items:
                    if isinstance(item, Progress):
                        progress = ev.ToolProgressed(tool_use_id=attempt.call.id, text=item.text, data=item.data)
                        await attempt.emit(progress)
                    else:
                        output = item
        return output

    async def _run_tool(self, attempt: _Attempt, approved: _Approved) -> CallResult:
        """Run an approved call, offer network if it needs it, then run the hooks after it."""
        call, context, signal, emit = attempt.call, attempt.context, attempt.signal, attempt.emit
        grant = self.session.permissions.grant(approved.needs, context, approved=approved.by)
        if approved.relies_on_undo:
            grant = replace(grant, uncovered=self.session.workspace.uncovered())
        context = replace(context, needs=approved.needs, grant=grant, small_model=SideQuestions(self.session, emit))
        for need in approved.needs:
            if need.kind == "write":
                context.launcher.permit(need.target)
        attempt = replace(attempt, context=context)
        output = await self._output(attempt, approved)
        if output is None:
            return failed(call, f"{call.name} ended without a result.")
        network = await self._with_network(attempt, approved, output)
        output = network.output
        if self.session.plugins is not None:
            output = await PluginRenderers(self.session.plugins).render(approved.tool.name, approved.input, output)
        block = result_block(call, output)
        answer = approved.answer
        if answer is not None and answer.accepted_hunks and answer.message:
            note = TextBlock(clean_text(f"With the user's approval: {answer.message}"))
            block = replace(block, content=(*block.content, note))
        await self._apply(output, emit)
        aborted = signal.aborted
        post, hooks = PostToolVerdict(), self.session.hooks.reporting_to(emit)
        if hooks.watches_tools:
            observed = observed_input(approved.tool, approved.input, context)
            post = await self._run_post_hook(attempt, hooks.after_tool(call, observed, block))
        hook_context = (*approved.hook_context, *post.context)
        result = CallResult(
            call, block, output, post.stop, hook_context, post.by, waited=network.waited, said=network.said
        )
        if network.is_declined:
            result = replace(result, outcome="denied", denied_by="you")
        elif block.is_error:
            result = replace(result, outcome="interrupted" if aborted else "failed")
        return result if answer is None else replace(result, accepted_hunks=answer.accepted_hunks)


async def _preview(tool: Tool, input: Json, context: ToolContext) -> Json:
    """The tool's preview of the call, for the question; empty if it has none or raises.

    Raises `_Refused` for a preview that is an `Output`: the call could only fail, so no question is asked.
    """
    preview = getattr(tool, "preview", None)
    if preview is None:
        return {}
    try:
        shown = await in_thread(preview, input, context) or {}
    except Exception:  # noqa: BLE001 - the question is asked without it
        return {}
    if isinstance(shown, Output):
        raise _Refused(str(shown.content), shown.summary)
    return cast(Json, shown)


def _is_question(needs: tuple[Need, ...]) -> bool:
    return any(need.kind == "question" for need in needs)


def _may_write(needs: tuple[Need, ...]) -> bool:
    """Whether files may change: an unsafe call, such as a question, need not change any."""
    return any(need.kind in ("write", "execute", "other") for need in needs)


def _may_execute(needs: tuple[Need, ...]) -> bool:
    return any(need.kind == "execute" for need in needs)
