"""What a trust question lists besides the files: programs, addresses and variables, in every front end."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agentcli.cli.permissions import describe_content
from agentcli.config.trust import TrustedContent, TrustState
from agentcli.config.trust_effects import TrustEffects, effects_of
from agentcli.interactive.questions.kinds import ask_for_trust
from agentcli.plain.questions import answer_question
from agentcli.tui.screens.question import QuestionDialog
from tests.plain.asked import Paper

SERVERS = r"""{"mcpServers": {
  "db": {"command": "n\u0070x", "args": ["-y", "\u0024{TOOL:-db}"], "env": {"K": "${API_KEY}"}},
  "web": {"type": "http", "url": "https://h/${PLACE}", "headers": {"A": "${API_KEY}"}, "headersHelper": "./token"}
}}"""


def state(text: str = SERVERS, name: str = ".mcp.json") -> TrustState:
    return TrustState(Path("/srv/app"), False, (TrustedContent(name, "1", text),), (name,))


def test_texts_are_listed_as_they_would_be_used() -> None:
    effects = effects_of(state())
    assert effects.programs == (("./token", ".mcp.json"), ("npx -y ${TOOL:-db}", ".mcp.json"))
    assert effects.addresses == (("https://h/${PLACE}", ".mcp.json"),)
    assert [name for name, _file in effects.variables] == ["TOOL", "API_KEY", "PLACE"]


def test_every_front_end_lists_them() -> None:
    paper = Paper("r")
    question = ask_for_trust(state(), can_exit=False)
    asyncio.run(answer_question(question, paper))
    body = QuestionDialog(question).body(200)
    app = "\n".join(line.strip.text for line in body)
    for text in (describe_content(state()), paper.text, app):
        assert "npx -y ${TOOL:-db}" in text
        assert "./token" in text
        assert text.index("would contact:") < text.rindex("https://h/${PLACE}")
        assert text.index("servers would get:") < text.rindex("PLACE")


def test_what_cannot_be_parsed_or_is_no_configuration_lists_nothing() -> None:
    assert effects_of(state("{")) == TrustEffects()
    assert effects_of(state('"x"')) == TrustEffects()
    assert effects_of(state('{"mcpServers": [1]}')) == TrustEffects()
    assert effects_of(state(SERVERS, "notes.md")) == TrustEffects()
    assert effects_of(state('{"permissions": {"allow": ["Bash(echo ${A})"]}}')) == TrustEffects()
