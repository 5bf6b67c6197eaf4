"""`agentcli trace`: a prompt of a session as a timeline, its steps, and its export for tracing tools."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from agentcli.cli.help import terminal_style
from agentcli.cli.output import echo, echo_json
from agentcli.cli.sessions import SessionArgument, find_session
from agentcli.core.errors import AgentError, UsageError
from agentcli.core.text.format import counted
from agentcli.core.text.plaintext import show_name
from agentcli.session.timeline import Timeline, read_timeline

_WIDTH_OF_FILES = 100
"""Columns of the timeline if the output is no terminal."""


def trace(
    session: SessionArgument,
    prompt: Annotated[
        int | None, typer.Option("--prompt", metavar="N", help="Number of the prompt; the last one if not given.")
    ] = None,
    step: Annotated[
        int | None,
        typer.Option("--step", metavar="K", help="Open a step of the timeline: what it sent and got."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --step: the exact request and its reply as JSON.")
    ] = False,
    export: Annotated[
        str | None,
        typer.Option("--export", metavar="FILE", help="Write OpenTelemetry spans as OTLP JSON; - for standard output."),
    ] = None,
) -> None:
    """Show a prompt as a timeline: requests, tool calls, waits, retries and sub-agents. A step opens the exact request
    and its reply. An export has all prompts of the conversation, or that of --prompt.

    agentcli trace parser                       the last prompt of a session, by id, name or words
    agentcli trace parser --prompt 1 --step 1   what the first step of the first prompt sent and got
    agentcli trace parser --export spans.json   all prompts for Jaeger, Tempo and other tools
    """
    from agentcli.history.trace import choose_prompt, format_trace, make_trace

    if as_json and step is None:
        raise UsageError("--json belongs to --step K. For the whole timeline as JSON use --export -.")
    if export is not None and step is not None:
        raise UsageError("--export writes whole prompts: leave out --step.")
    timeline = read_timeline(find_session(session).path)
    if export is not None:
        _export(timeline, prompt, export)
        return
    found = make_trace(timeline, *choose_prompt(timeline, prompt))
    if step is not None:
        from agentcli.history.known_texts import find_texts
        from agentcli.history.step_texts import StepReader
        from agentcli.providers.catalog import Catalog

        row, reader = found.row(step), StepReader(lambda: find_texts(timeline, os.environ), Catalog())
        if as_json:
            echo_json(reader.record(row))
        else:
            echo(reader.format(row))
    else:
        echo(format_trace(found, terminal_style()[0] if sys.stdout.isatty() else _WIDTH_OF_FILES))


def _export(timeline: Timeline, prompt: int | None, file: str) -> None:
    from agentcli.history.export.otlp import export_prompts, wrap_spans
    from agentcli.history.trace import choose_prompt

    chosen = timeline.current if prompt is None and timeline.current else [choose_prompt(timeline, prompt)[1]]
    spans = export_prompts(timeline, chosen)
    made = wrap_spans(spans)
    if file == "-":
        echo_json(made)
        return
    try:
        Path(file).write_text(json.dumps(made), encoding="utf-8")
    except OSError as error:
        raise AgentError(f"{show_name(file)} was not written: {error.strerror}.") from error
    echo(f"Wrote {counted(len(spans), 'span')} of {counted(len(chosen), 'prompt')} to {show_name(file)}.", err=True)
