"""Texts of the loop for the model and the user, in one place to keep them consistent."""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.core.aio import AbortReason
from agentcli.core.text.format import duration
from agentcli.core.text.plaintext import plain_line

INTERRUPTED = "[Request interrupted by user]"
INTERRUPTED_TOOLS = "[Request interrupted by user for tool use]"
CLOSED = "[agentcli was closed before this was done]"

OUTPUT_RECOVERY = (
    "Your reply was cut off because it was too long. Go straight on from where it stopped: no apology, no recap. "
    "Do the rest in smaller pieces."
)
_TAIL_SHOWN = 2_000


def context_recovery(cut: str) -> str:
    """Text after a reply that filled the context window. `cut`: its text, of which the compacted context has only a
    summary."""
    return (
        "Your reply was cut off because the context window was full. Go straight on from where it stopped: no apology, "
        f"no recap. It ended with:\n{cut[-_TAIL_SHOWN:]}"
    )


EMPTY_REPLY = "Your reply was empty. Go on with the task, or say in a sentence that it is done."


ABORTED = {
    AbortReason.USER_CANCEL: "Interrupted by the user.",
    AbortReason.INTERRUPT: "Interrupted by a new prompt.",
    AbortReason.BUDGET: "The budget is spent.",
    AbortReason.SHUTDOWN: "Interrupted: agentcli is shutting down.",
}


PROMPT_UNCHECKED = "The prompt was not sent: its hooks were interrupted. Send it again."


def prompt_blocked(reason: str) -> str:
    return f"A hook blocked this prompt: {reason}"


def token_budget(remaining: int) -> str:
    return (
        f"There are about {remaining:,} tokens of work left in what the user asked you to spend. Go on: deepen, check "
        "and complete what you have done. If nothing useful is left, say so in a sentence."
    )


def repeated(name: str, times: int) -> str:
    return (
        f"You have called {plain_line(name, 128)} {times} times in a row with the same input, and the result was the "
        "same each time. Another call will not change that. Do something else, or tell the user what blocks you. To "
        "wait for something, put the wait into the call, such as a sleep before the check."
    )


def polled(name: str, times: int, seconds: float) -> str:
    during = f" in {duration(seconds)}" if seconds else ""
    return (
        f"{plain_line(name, 128)} has returned the same result {times} times in a row{during}. If you wait for "
        "something that is still running, wait longer between two checks. If it cannot change any more, stop waiting."
    )


def loop_detected(name: str, times: int, *, warned: bool) -> str:
    after = " The model was warned and did it again." if warned else ""
    return (
        f"Stopped: {plain_line(name, 128)} was called {times} times in a row with the same input and the same result."
        f"{after} Send a prompt that says what to do differently."
    )


def stop_hook(errors: Sequence[str]) -> str:
    return "A stop hook wants more work before you end:\n" + "\n".join(errors)


def gave_up_compacting(times: int, problem: str) -> str:
    return (
        f"Auto-compaction failed {times} times in a row and is paused (last reason: {problem.rstrip('.')}). Free the "
        "context with /context (unpin or drop items), run /compact with a focus, or choose a model with a larger "
        "window with /model."
    )


_SHORTER_PROMPT = "Shorten it, or put the text into a file and give its path."
PROMPT_TOO_LONG = f"The prompt alone is too long for the model. {_SHORTER_PROMPT}"


def blocking_limit(estimate: int, usable: int, *, only_a_prompt: bool) -> str:
    if only_a_prompt:
        return (
            f"Nothing was sent: with this prompt the request has about {estimate:,} tokens, and the model accepts "
            f"{usable:,}. {_SHORTER_PROMPT}"
        )
    return (
        f"Nothing was sent: the conversation has about {estimate:,} tokens, and the model accepts {usable:,}. "
        "Shorten it with /compact, start a new session, or turn on the setting autoCompact."
    )
