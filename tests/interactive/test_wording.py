"""The line about each event. `pytest -s -k review` prints all of them."""

from __future__ import annotations

from agentcli.core import events as ev
from agentcli.core.messages import MCP_SERVERS, NOTE, SUMMARY, Origin, user_message
from agentcli.core.usage import Usage
from agentcli.interactive import wording

EVENTS: list[ev.Event] = [
    ev.NoticeRaised(text="The session is not saved: the disk is full.", level="warning"),
    ev.SubmissionInterrupted(),
    ev.ReplyTombstoned(message_id="m", reason="interrupted"),
    ev.RetryScheduled(attempt=2, max_attempts=10, wait_seconds=4.2, kind="overloaded", text="Overloaded.", status=529),
    ev.StreamWentQuiet(seconds=20.4),
    ev.ModelFellBack(from_model="large", to_model="small", reason="overloaded 3 times"),
    ev.FeatureDropped(feature="effort", text="The server does not know effort: it is no longer sent."),
    ev.RequestRepaired(repair="drop_images", through="m", text="An image was refused: images are left out."),
    ev.PermissionDenied(tool_use_id="t", name="Bash", input={}, reason="the session is non-interactive"),
    ev.PermissionDenied(tool_use_id="t", name="Write", input={}, reason="Keep exploring.", by="plan mode"),
    ev.LoopSuspected(name="Bash", title="Bash make", times=3),
    ev.RulesLearned(rules=["Bash(make)"], where="session"),
    ev.ModeChanged(mode="plan", reason="you chose it"),
    ev.BackgroundChanged(task_id="bash_1", status="failed", command="make watch", summary="exit code 2"),
    ev.AgentStarted(tool_use_id="t", name="explore", description="find the parser", model="m", background=True),
    ev.AgentMoved(agent="explore-1", tool_use_id="t", description="find the parser", agents=["explore-1"]),
    ev.AgentFinished(
        tool_use_id="t",
        name="explore",
        description="find the parser",
        status="completed",
        turns=3,
        tokens=12_300,
        cost_usd=0.04,
        duration_ms=65_000,
    ),
    ev.HookStarted(hook_id="h", event_name="PreToolUse", name="check.sh"),
    ev.HookFinished(
        hook_id="h",
        event_name="PreToolUse",
        name="check.sh",
        outcome="denied",
        text="No\x1b[31m rm.",
        source=".agentcli/settings.json",
    ),
    ev.HookFinished(hook_id="h", event_name="Stop", name="tests", outcome="success"),
    ev.PrefixBroken(reason="its description changed", block="the tool Bash", rebilled_tokens=48_210),
    ev.ContextEdited(edits=[], step="snip", freed_tokens=12_300, text="cleared 12 old results"),
    ev.ContextEdited(edits=[], step="user", freed_tokens=-800, text="took back a drop"),
    ev.CompactionStarted(trigger="auto"),
    ev.ContextCompacted(trigger="auto", tokens_before=150_000, tokens_after=9_100),
    ev.CompactionFailed(trigger="auto", text="The model gave no summary."),
    ev.CompactionFailed(trigger="manual", text="Compaction was cancelled.", cancelled=True),
]
LINES = """\
warning The session is not saved: the disk is full.
warning Interrupted. What should be done instead?
warning The reply was cut off. Its text is discarded.
warning 529 overloaded, attempt 2 of 10, in 4.2 s
info    No data for 20 s; still waiting
warning Switched from large to small: overloaded 3 times
warning The server does not know effort: it is no longer sent.
warning An image was refused: images are left out.
info    Bash was denied: the session is non-interactive
info    Write was denied by plan mode
warning Bash make: the same result 3 times in a row
info    Allowed from now on (for this session): Bash(make)
info    Permission mode: plan (you chose it)
warning Background bash_1 failed: make watch (exit code 2)
info    Agent explore started in the background: find the parser
info    Agent explore-1 continues in the background
info    Agent explore completed: find the parser (3 turns, 12.3k tokens, $0.04, 1 min 5 s)
info    Running the hook check.sh
warning PreToolUse hook check.sh (.agentcli/settings.json) denied the call: No rm.
info    Stop hook tests ended
info    The prompt cache broke at the tool Bash: its description changed (48.2k tokens billed again)
info    Freed about 12.3k tokens of context: cleared 12 old results
info    Added about 800 tokens to the context: took back a drop
info    Compacting the conversation
info    Conversation compacted automatically: 150k → 9.1k tokens
warning The conversation was not compacted: The model gave no summary.
info    Compaction was cancelled.
"""


def test_review_the_line_of_every_event() -> None:
    said = [wording.event_line(event) for event in EVENTS]
    text = "".join(f"{level:<7} {line}\n" for line, level in said)
    print(text)
    assert text == LINES


def test_an_example_of_every_event_with_a_line_is_reviewed() -> None:
    with_line = {kind.__name__ for kind in ev.EVENT_TYPES.values() if kind.policy.line}
    reviewed = {type(event).__name__ for event in EVENTS}
    assert with_line - reviewed == set(), "add an example to EVENTS and its line to LINES"
    assert reviewed - with_line == set(), "not in EVENT_TYPES, or its policy has line=False"


# ----------------------------------------------------------------------------------------------------------- messages


def test_a_note_about_something_already_shown_has_no_line() -> None:
    note = user_message(
        "[The user ran a command in their own shell: ls]", "m", Origin.ATTACHMENT, {NOTE: {"about": "shell"}}
    )
    assert wording.message_line(note) == ""
    assert wording.message_line(user_message("[The user ran late.]", "m", Origin.ATTACHMENT)) == (
        "The model was notified: [The user ran late.]"
    )


def test_changed_files_are_named_without_the_text_for_the_model() -> None:
    meta = {"changed_files": ["/p/a.py", "/p/b.py"]}
    about = user_message("[Files that you have seen …", "m", Origin.ATTACHMENT, meta)
    assert wording.message_line(about) == "The model was notified of changed files: a.py, b.py"


def test_a_summary_is_shown_without_its_wrapper_text() -> None:
    message = user_message("Lead. It was good. Tail.", "m", Origin.SUMMARY, {SUMMARY: "It was good."})
    assert wording.summary(message) == "It was good."


def failed(*errors: str, terminal: str = "model_error") -> ev.Result:
    return ev.Result(
        subtype="error_during_execution", is_error=True, terminal=terminal, text="", errors=list(errors), turns=1,
        duration_ms=0, api_duration_ms=0, usage=Usage(), total_cost_usd=0, fully_priced=True, model_usage={},
        permission_denials=[], session_id="s", uuid="u",
    )  # fmt: skip


def test_mcp_servers_are_mentioned_only_when_they_are_gone() -> None:
    def line(**servers: bool) -> str:
        news = {name: {"gone": gone, "tools": ["a"]} for name, gone in servers.items()}
        return wording.message_line(user_message("text", "m", Origin.ATTACHMENT, {MCP_SERVERS: news}))

    assert line(notes=False) == ""
    assert line(notes=True, hub=False) == "The model was notified: MCP servers not connected: notes"
