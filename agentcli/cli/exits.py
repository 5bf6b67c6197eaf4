"""The exit codes of a run, for help and reference."""

from __future__ import annotations

EXIT_CODES: tuple[tuple[str, str], ...] = (
    ("0", "success; a denied tool call is not a failure"),
    ("1", "the run failed: API error, turn or budget limit, or refusal. The output has the reason"),
    ("2", "wrong usage; no request was sent"),
    ("75", "temporary failure worth retrying: rate limit, overload or network, after all retries"),
    ("129, 130, 143", "SIGHUP, SIGINT, SIGTERM; the result is still printed"),
    ("141", "standard output was closed by its reader"),
)
