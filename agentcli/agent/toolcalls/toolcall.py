"""One tool call from its block to its result (SPEC T4).

Steps: find the tool, parse its input, check it, run hooks, decide permission, run the tool, run hooks, normalise the
output. A failure in any step becomes an error result (`core/messages.py`), never an exception. The API gets back
the model's own input; hooks and answers may change a copy that the tool runs with (T9).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, cast

from agentcli.agent.plugins import PluginRenderers
from agentcli.agent.ports import EmitEvent, HookVerdict, Questions
from agentcli.agent.side_call import SideQuestions
from agentcli.agent.subagents.agents import CallAgents
from agentcli.agent.toolcalls.calls import (
    CallResult,
    Outcome,
    UserWords,
    denial_sentence,
    describe_decline,
    describe_interruption,
    describe_unattended,
    fail_call,
    fit_input,
    list_changed_paths,
    observe_input,
    result_block,
    unfit_input,
    user_words,
    without_derived,
)
from agentcli.agent.toolcalls.network_offer import (
    MAX_OFFERS,
    NetworkResult,
    decline_network,
    host_rule,
    network_choices,
    network_reason,
    refuse_network,
)
from agentcli.core import events as ev
from agentcli.core.aio import AbortController, Aborted, AbortSignal, in_thread
from agentcli.core.files.access import MAX_INPUT_DEPTH
from agentcli.core.frozen import frozen, replace
from agentcli.core.messages import Json, TextBlock, ToolUseBlock, clean_text
from agentcli.core.permission import Answer, Approval, Decision, Need, PermissionMode, RuleChoice
from agentcli.core.text.plaintext import plain_line
from agentcli.tools.base import Output, Progress, Tool, ToolContext, title_of

if TYPE_CHECKING:
    from agentcli.agent.session import Session

INVALID_JSON_SHOWN = 200
"""Bytes of an invalid input that the model is shown."""


class _Refused(Exception):
    """Raised in this module to end a call before its tool runs."""

    def __init__(self, result: CallResult) -> None:
        super().__init__(result.output.content)
        self.result = result


@frozen
class _Approved:
    """An approved call, with the input to run the tool with."""

    tool: Tool
    input: Json
    title: str
    hook_context: tuple[str, ...] = ()
    """Text of hooks for the model."""
    needs: tuple[Need, ...] = ()
    by: Approval = "mode"
    """What approved it: a rule, the mode, or the user's answer."""
    answer: Answer | None = None
    """The user's approval."""
    relies_on_undo: bool = False
    """Whether nobody was asked because undo covers its changes."""


@frozen
class ToolRunner:
    """Runs tool calls: decides about each, asks the user where needed, and turns every outcome into a result."""

    session: Session
    asked: Questions | None = None
    """Takes the answers to questions about calls; None: the session's."""

    def is_safe(self, call: ToolUseBlock) -> bool:
        """Whether a call may run in parallel and be discarded; depends on its input (T3). Errors are safe."""
        tool = self.session.registry.get(call.name)
        if tool is None or call.invalid_json is not None:
            return True
        try:
            input, wrong = fit_input(tool, call.input)
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
        permissions, agents = self.session.permissions, CallAgents(self.session, emit)
        context = replace(
            context, mode=permissions.mode, before_plan=permissions.before_plan, call_id=call.id, agents=agents
        )
        questions = self.asked or self.session.questions
        return await _Call(self.session, questions, call, context, signal, emit).run(on_start)

    def title(self, name: str, input: Json) -> str:
        """One line about a call, for the user."""
        tool = self.session.registry.get(name)
        return tool.title(input) if tool is not None else name


class _Call:
    """One call that is being made."""

    def __init__(
        self,
        session: Session,
        questions: Questions,
        call: ToolUseBlock,
        context: ToolContext,
        signal: AbortSignal,
        emit: EmitEvent,
    ) -> None:
        self._session = session
        self._permissions, self._workspace = session.permissions, session.workspace
        self._questions = questions
        self._call = call
        self._context = context
        self._signal = signal
        self._emit = emit
        self._hooks = session.hooks.reporting_to(emit)
        self._began: float | None = None
        """When the tool started; None: it has not."""
        self._only: tuple[str, ...] | None = None
        """The paths that the call may change; None: any file."""
        self._is_recorded = False
        """Whether the workspace records what the call changes."""

    async def run(self, on_start: Callable[[], None]) -> CallResult:
        call = self._call
        approved: _Approved | None = None
        try:
            approved = await self._approve()
            await self._before_changes(approved)
            on_start()
            self._began = self._session.clock.monotonic()
            await self._emit(
                ev.ToolStarted(tool_use_id=call.id, name=call.name, input=approved.input, title=approved.title)
            )
            result = await self._run_tool(approved)
        except _Refused as refusal:
            result = await self._after_refusal(refusal.result)
        except Aborted as abort:
            text = describe_interruption(abort.reason, self._began is not None)
            result = fail_call(call, text, "interrupted", "interrupted")
        except Exception as error:  # noqa: BLE001 - SPEC T4: a crash is a result
            text = f"{call.name} failed unexpectedly: {type(error).__name__}: {error}"
            result = await self._after_refusal(fail_call(call, text))
        if result.hook_stop is not None:
            stop = {"call": call.id, "stop": result.hook_stop, "by": result.stopped_by}
            self._session.store.note_input("call-stop", stop)
        answer = approved.answer if approved is not None else None
        if approved is not None and answer is not None and not answer.accepted_hunks:
            said = user_words(f"`{approved.title}`", answer.message, approved=True)
            result = replace(result, said=(*said, *result.said))
        display = result.output.display
        if approved is not None and self._is_recorded and await self._find_changes(approved):
            display = {**display, "changed_files": True}
        seconds = 0.0 if self._began is None else self._session.clock.monotonic() - self._began - result.waited
        await self._emit(
            ev.ToolFinished(
                tool_use_id=call.id,
                name=call.name,
                result=result.block,
                summary=result.output.summary,
                display=display,
                structured=result.output.structured,
                duration_ms=int(seconds * 1000),
                outcome=result.outcome,
                denied_by=result.denied_by,
                accepted_hunks=list(result.accepted_hunks or ()),
            )
        )
        return result

    # ---------------------------------------------------------------------------------------------------- changes

    async def _before_changes(self, approved: _Approved) -> None:
        """Record the call, and the files as they are, if it may change something."""
        if approved.tool.is_safe(approved.input):
            return
        call, context, workspace = self._call, self._context, self._workspace
        self._session.store.note_call(call.id, "begun")
        # An unsafe call, such as a question, need not change files.
        if not _has(approved.needs, "write", "execute", "other"):
            return
        self._only = await list_changed_paths(approved.input, approved.needs, context)
        await self._signal.run(workspace.before_change(approved.input, context.root, context.working_dirs))
        self._is_recorded = True
        if approved.relies_on_undo and (gap := await workspace.find_gap(context.working_dirs, ())):
            # Only this snapshot failed.
            raise self._refuse(f"The call was not made: {gap}. Try it again, so that the user is asked.")

    async def _find_changes(self, approved: _Approved) -> bool:
        """Compare the files with those before the call; returns whether it has changed any."""
        shells = self._context.shells
        background = shells is not None and shells.any_runs
        reports = _has(approved.needs, "execute")
        return await self._workspace.after_change(self._only, background, self._call.id, reports=reports)

    # ---------------------------------------------------------------------------------------------------- approval

    async def _approve(self) -> _Approved:
        """Everything before the tool runs. Raises `_Refused`, or `Aborted`."""
        call, context, signal = self._call, self._context, self._signal
        tool = self._find_tool()
        input = self._check(tool, call.input)
        verdict, observed = HookVerdict(), input
        if self._hooks.watches_tools:
            observed = observe_input(tool, input, context)
            verdict = await signal.run(self._hooks.before_tool(call, observed))
        elif signal.reason is not None:
            raise Aborted(signal.reason)
        if verdict.decision == "deny":
            refusal = await self._deny(input, verdict.reason or "A hook denied this call.", by="a hook")
            raise _Refused(replace(refusal.result, hook_stop=verdict.stop, hook_context=verdict.context))
        if verdict.updated_input is not None:
            updated = without_derived(verdict.updated_input, input, observed)
            input = self._check(tool, updated, answered=verdict.decision == "allow")
        needs = tool.needs(input, context)
        decision = self._decide(tool, input, needs, verdict)
        is_unasked = decision.behavior == "allow" and not decision.rule and not decision.source
        undone = self._permissions.paths_to_undo(needs, context) if is_unasked and not tool.is_safe(input) else []
        if undone and (gap := await signal.run(self._workspace.find_gap(context.working_dirs, undone))):
            decision = Decision("ask", f"Needs approval: {gap}", cause=gap)
        await self._emit(
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
            input, answer = await self._ask(tool, input, needs, decision)
            # An answer that changes the input is the decision about what the changed input needs.
            needs = needs if input is asked else tool.needs(input, context)
        elif decision.behavior == "deny":
            raise await self._deny(input, denial_sentence(decision.reason), by=decision.denied_by)
        if signal.reason is not None:
            raise Aborted(signal.reason)
        by: Approval = "answer" if decision.behavior == "ask" else "rule" if decision.rule else "mode"
        title = self._title(tool, input)
        return _Approved(tool, input, title, verdict.context, needs, by, answer, bool(undone) and answer is None)

    def _find_tool(self) -> Tool:
        call, registry = self._call, self._session.registry
        tool = registry.get(call.name)
        if tool is None:
            text = f"There is no tool called {call.name[:100]!r}. {registry.hint(call.name)}".rstrip()
            raise self._refuse(text, "unknown tool")
        if call.invalid_json is not None:
            shown = call.invalid_json.encode("utf-8", "replace")[:INVALID_JSON_SHOWN].decode("utf-8", "replace")
            what = f"The input is not a JSON object, or it is nested more than {MAX_INPUT_DEPTH} levels deep"
            raise self._refuse(f"{what}. It begins with: {shown}", "invalid input")
        return tool

    def _check(self, tool: Tool, raw: Json, *, answered: bool = False) -> Json:
        """An input that fits the tool. `answered`: it comes with an answer of a hook or the user."""
        input, wrong = fit_input(tool, raw, answered=answered)
        if wrong:
            raise self._refuse(unfit_input(tool, wrong), "invalid input")
        if (problem := tool.check(input, self._context)) is not None:
            raise self._refuse(problem)
        return input

    def _title(self, tool: Tool, input: Json) -> str:
        return title_of(tool, input, self._context.working_dirs[0])

    def _decide(self, tool: Tool, input: Json, needs: tuple[Need, ...], verdict: HookVerdict) -> Decision:
        decision = self._permissions.decide(tool.name, input, needs, self._context)
        if verdict.decision == "ask" and decision.behavior == "allow":
            return Decision("ask", verdict.reason or "A hook requires approval for this call.", source="hook")
        # A hook cannot allow a question to the user without answering it.
        answers = verdict.updated_input is not None or not _has(needs, "question")
        if verdict.decision == "allow" and decision.behavior == "ask" and not decision.needs_user and answers:
            return Decision("allow", verdict.reason or "A hook allowed this.", source="hook")
        return decision

    async def _ask(self, tool: Tool, input: Json, needs: tuple[Need, ...], decision: Decision) -> tuple[Json, Answer]:
        """Ask hooks, then the user. Returns the input to run with and the answer if allowed; raises `_Refused` if
        denied. An abort withdraws the question."""
        if (allowed := await self._hook_answer(tool, input, needs, decision)) is not None:
            return allowed, Answer("allow")
        title = self._title(tool, input)
        if not self._questions.interactive and _has(needs, "question"):
            raise await self._deny(input, getattr(tool, "unanswered", "This session is non-interactive."))
        if not self._questions.interactive:
            rules = self._permissions.suggest_prefix(tool.name, needs, self._context)
            raise await self._deny(input, describe_unattended(title, input, decision, rules), title, rules)
        choices = self._permissions.rule_choices(tool.name, needs, self._context)
        suggestions = list(choices[0].rules) if choices else []
        answer = await self._ask_user(tool, input, suggestions, choices, **decision.explanation())
        if answer.behavior == "deny":
            await self._decline(tool, input, answer.message)
        if answer.updated_input is not None and answer.updated_input != input:
            return self._check(tool, answer.updated_input, answered=True), answer
        return input, answer

    async def _hook_answer(self, tool: Tool, input: Json, needs: tuple[Need, ...], decision: Decision) -> Json | None:
        """Let hooks answer in place of the user. Returns the input to run with if they allow it, None if the user must
        be asked; raises `_Refused` if they deny it. Ask and deny rules also apply to an input that a hook changed."""
        observed = observe_input(tool, input, self._context)
        verdict = await self._signal.run(self._hooks.before_question(self._call, observed))
        if verdict.decision == "deny":
            if verdict.interrupt:
                self._session.abort()
            raise await self._deny(input, verdict.reason or "A hook denied this call.", by="a hook")
        changed = verdict.updated_input and without_derived(verdict.updated_input, input, observed)
        if verdict.decision != "allow" or decision.needs_user or (changed is None and _has(needs, "question")):
            return None
        if changed is None or changed == input:
            return input
        parsed = self._check(tool, changed, answered=True)
        again = self._permissions.decide(tool.name, parsed, tool.needs(parsed, self._context), self._context)
        if again.behavior == "deny":
            raise await self._deny(parsed, denial_sentence(again.reason), by=again.denied_by)
        return None if again.behavior == "ask" and again.needs_user else parsed

    async def _ask_user(
        self,
        tool: Tool,
        input: Json,
        suggestions: list[str],
        choices: Sequence[RuleChoice],
        display: Json | None = None,
        **explanation: Any,
    ) -> Answer:
        """Ask the user, and apply the rules, the mode and the interruption of the answer. Raises `Aborted`."""
        permissions, emit = self._permissions, self._emit
        question = ev.PermissionRequested(
            request_id=self._session.ids.new(),
            tool_use_id=self._call.id,
            name=tool.name,
            input=input,
            title=self._title(tool, input),
            suggestions=suggestions,
            rule_choices=[choice.record() for choice in choices],
            display={**await self._preview(tool, input), **(display or {})},
            **explanation,
        )
        future = self._questions.ask(question.request_id)
        ended = partial(ev.PermissionResolved, request_id=question.request_id, tool_use_id=question.tool_use_id)
        try:
            await emit(question)
            self._hooks.attention_needed("permission_prompt", f"agentcli needs your approval: {question.title}")
            answer = await self._signal.run(future)
        except Aborted:
            await emit(ended(behavior="withdrawn"))
            raise
        finally:
            self._questions.withdraw(question.request_id)
        await emit(ended(behavior=answer.behavior))
        if answer.behavior == "deny" and answer.interrupt:
            self._session.abort()
        if answer.behavior == "allow" and answer.rules:
            where = permissions.learn(answer.rules, answer.save_to)
            await emit(ev.RulesLearned(rules=list(answer.rules), where=where, tool_use_id=question.tool_use_id))
        if answer.behavior == "allow" and answer.mode is not None:
            permissions.set_mode(answer.mode)
            await emit(permissions.mode_changed("your answer"))
        return answer

    async def _preview(self, tool: Tool, input: Json) -> Json:
        """The tool's preview of the call, for the question; empty if it has none or raises.

        Raises `_Refused` for a preview that is an `Output`: the call could only fail, so no question is asked.
        """
        preview = getattr(tool, "preview", None)
        if preview is None:
            return {}
        try:
            shown = await in_thread(preview, input, self._context) or {}
        except Exception:  # noqa: BLE001 - the question is asked without it
            return {}
        if isinstance(shown, Output):
            raise self._refuse(str(shown.content), shown.summary)
        return cast(Json, shown)

    # ---------------------------------------------------------------------------------------------------- refusals

    def _refuse(self, text: str, summary: str = "") -> _Refused:
        return _Refused(fail_call(self._call, text, summary))

    async def _decline(self, tool: Tool, input: Json, message: str) -> NoReturn:
        """Refuse a call that the user denied. Their text is sent as a separate message, not in the result: models
        distrust instructions in results."""
        declined = str(getattr(tool, "declined", "")) or "The user declined this call."
        reason = f"{declined} They said: {message}" if message else declined
        denied = (await self._deny(input, reason, by="you")).result
        result = fail_call(self._call, describe_decline(declined, bool(message)), denied.output.summary, "denied")
        said = user_words(f"`{self._title(tool, input)}`", message)
        raise _Refused(replace(result, said=said, denied_by=denied.denied_by))

    async def _deny(
        self, input: Json, reason: str, title: str = "", rules: Sequence[str] = (), by: str = ""
    ) -> _Refused:
        """Report a denial and return the exception to raise. `reason` is for the model; `by`, who denied it, for the
        user."""
        call = self._call
        tool = self._session.registry.get(call.name)
        await self._emit(
            ev.PermissionDenied(
                tool_use_id=call.id,
                name=call.name,
                input=input,
                reason=reason,
                title=title or plain_line(tool.title(input) if tool is not None else call.name),
                rules=list(rules),
                by=by,
            )
        )
        result = fail_call(call, reason, f"denied by {by}" if by else "denied", "denied")
        return _Refused(replace(result, denied_by=by))

    async def _after_refusal(self, result: CallResult) -> CallResult:
        """Run the hooks after a call that was refused or has crashed."""
        call = self._call
        tool = self._session.registry.get(call.name)
        observed = replace(call, input=observe_input(tool, call.input, self._context))
        post = await self._run_post_hook(self._hooks.after_refused_tool(observed, str(result.output.content)))
        texts = (*result.hook_context, *post.context)
        return replace(result, hook_stop=result.hook_stop or post.stop, hook_context=texts, stopped_by=post.by)

    async def _run_post_hook(self, hook: Coroutine[Any, Any, HookVerdict]) -> HookVerdict:
        """The verdict of a hook after a call. A hook that fails or is aborted does not change the call's result."""
        try:
            return await self._signal.run(hook)
        except Aborted:
            return HookVerdict()
        except Exception as error:  # noqa: BLE001 - a hook's bug must not turn a success into a failure
            text = f"A hook that runs after tools failed: {type(error).__name__}: {error}. The call's result is kept."
            await self._emit(ev.NoticeRaised(text=plain_line(text, 500), level="warning", code="hook"))
            return HookVerdict()

    # ------------------------------------------------------------------------------------------------- running it

    async def _run_tool(self, approved: _Approved) -> CallResult:
        """Run an approved call, offer network if it needs it, then run the hooks after it."""
        call = self._call
        grant = self._permissions.grant(approved.needs, self._context, approved=approved.by)
        if approved.relies_on_undo:
            grant = replace(grant, uncovered=self._workspace.uncovered())
        small_model = SideQuestions(self._session, self._emit)
        self._context = context = replace(self._context, needs=approved.needs, grant=grant, small_model=small_model)
        for need in approved.needs:
            if need.kind == "write":
                context.launcher.permit(need.target)
        output = await self._output(approved, context)
        if output is None:
            return fail_call(call, f"{call.name} ended without a result.")
        network = await self._with_network(approved, output)
        output = network.output
        if self._session.plugins is not None:
            renderers = PluginRenderers(self._session.plugins)
            output = await renderers.render(approved.tool.name, approved.input, output)
        block, answer = result_block(call, output), approved.answer
        if answer is not None and answer.accepted_hunks and answer.message:
            note = TextBlock(clean_text(f"With the user's approval: {answer.message}"))
            block = replace(block, content=(*block.content, note))
        await self._apply(output)
        outcome: Outcome = "done"
        if network.is_declined:
            outcome = "denied"
        elif block.is_error:
            outcome = "interrupted" if self._signal.aborted else "failed"
        post = HookVerdict()
        if self._hooks.watches_tools:
            observed = observe_input(approved.tool, approved.input, context)
            post = await self._run_post_hook(self._hooks.after_tool(call, observed, block))
        return CallResult(
            call,
            block,
            output,
            post.stop,
            (*approved.hook_context, *post.context),
            post.by,
            outcome,
            denied_by="you" if network.is_declined else "",
            waited=network.waited,
            said=network.said,
            accepted_hunks=answer.accepted_hunks if answer is not None else None,
        )

    async def _output(self, approved: _Approved, context: ToolContext) -> Output | None:
        """Run the tool once, and emit its progress."""
        output: Output | None = None
        with AbortController(parent=self._signal) as controller:
            async with aclosing(approved.tool.run(approved.input, context, controller.signal)) as items:
                async for item in items:
                    if isinstance(item, Progress):
                        await self._emit(ev.ToolProgressed(tool_use_id=self._call.id, text=item.text, data=item.data))
                    else:
                        output = item
        return output

    async def _with_network(self, approved: _Approved, output: Output) -> NetworkResult:
        """Offer to run a command again with network if it failed without; keep its last output if the user declines."""
        context, clock = self._context, self._session.clock
        allowed: tuple[str, ...] = ()
        said: tuple[UserWords, ...] = ()
        waited = 0.0
        for _offer in range(MAX_OFFERS):
            hosts = output.wanted_hosts
            if hosts is None or self._signal.aborted:
                break
            if not self._questions.interactive:
                return NetworkResult(refuse_network(output, hosts))
            asked = clock.monotonic()
            choices = network_choices(hosts, self._permissions.credential_rules(approved.needs, context))
            suggestions = [host_rule(host) for host in hosts]
            about: Json = {"reason": network_reason(hosts), "display": {"network": list(hosts)}}
            try:
                answer = await self._ask_user(approved.tool, approved.input, suggestions, choices, **about)
            except Aborted:
                # The command ran, and its output is the result.
                break
            finally:
                waited += clock.monotonic() - asked
            is_allowed = answer.behavior == "allow"
            words = user_words(f"to run `{approved.title}` again with network", answer.message, approved=is_allowed)
            said += words
            if not is_allowed:
                return NetworkResult(decline_network(output, bool(words)), waited, said, is_declined=True)
            allowed += hosts
            grant = self._permissions.grant(approved.needs, context, approved=approved.by)
            wider = replace(grant, network="hosts" if hosts else "all", hosts=(*grant.hosts, *allowed))
            output = await self._output(approved, replace(context, grant=wider)) or output
        return NetworkResult(output, waited, said)

    async def _apply(self, output: Output) -> None:
        """Apply the changes of mode, todos and rights that a call made, before the next call is decided about."""
        permissions, emit = self._permissions, self._emit
        if output.mode == "plan":
            permissions.set_mode(PermissionMode.PLAN)
            await emit(permissions.mode_changed("the model began to plan"))
        elif output.mode == "previous":
            permissions.leave_plan()
            await emit(permissions.mode_changed("the plan was approved"))
        if output.todos is not None:
            await emit(ev.TodosChanged(todos=output.todos))
        problems = permissions.grant_rules(output.allows, output.allows_from)
        notices = [(f"{output.allows_from}: {problem}", "definitions") for problem in problems]
        notices += [(text, "quarantine") for text in output.notices]
        for text, code in notices:
            await emit(ev.NoticeRaised(text=text, level="warning", code=code))


def _has(needs: tuple[Need, ...], *kinds: str) -> bool:
    return any(need.kind in kinds for need in needs)
