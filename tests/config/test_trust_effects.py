"""What a configuration makes agentcli run: listed in every trust question, and the files that commands name."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agentcli.cli.permissions import describe_content
from agentcli.config.trust import TrustedContent, TrustState
from agentcli.config.trust_effects import TrustEffects, effects_of, named_paths
from agentcli.interactive.questions.kinds import ask_for_trust
from agentcli.plain.questions import answer_question
from agentcli.tui.screens.question import QuestionDialog
from tests.plain.asked import Paper

ROOT = Path("/srv/app")
SERVERS = r"""{"mcpServers": {
  "db": {"command": "n\u0070x", "args": ["-y", "\u0024{TOOL:-db}"], "env": {"K": "${API_KEY}"}},
  "web": {"type": "http", "url": "https://h/${PLACE}", "headers": {"A": "${API_KEY}"}, "headersHelper": "./token"}
}}"""


def state(text: str = SERVERS, name: str = ".mcp.json") -> TrustState:
    return TrustState(ROOT, False, (TrustedContent(name, "1", text),), (name,))


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


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"command": "sh scripts/fmt.sh"}, {"scripts/fmt.sh"}),
        ({"command": '"$CLAUDE_PROJECT_DIR"/tools/check --all'}, {"tools/check"}),
        ({"command": "sh '${AGENTCLI_PROJECT_DIR}/my tools/run.sh'"}, {"my tools/run.sh"}),
        ({"command": "cd x && FILE=tools/a.py python3 /srv/app/b.py|tee run.log"}, {"tools/a.py", "b.py"}),
        ({"command": "node", "args": ["--require", "./hook.js", "dist/server.js"]}, {"hook.js", "dist/server.js"}),
        ({"command": "python3", "args": ["server.py"], "cwd": "tools"}, {"tools/server.py"}),
        ({"headersHelper": "bin/token"}, {"bin/token"}),
        ({"command": 'sh "$(git rev-parse --show-toplevel)/tools/a.sh" $PWD/b.sh'}, {"tools/a.sh", "b.sh"}),
        ({"command": "sh ${CLAUDE_PROJECT_DIR:-.}/tools/a.sh"}, {"tools/a.sh"}),
    ],
)
def test_scripts_are_found_in_commands_arguments_and_helpers(entry: dict[str, Any], expected: set[str]) -> None:
    assert expected <= set(named_paths([json.dumps({"a": [entry]})], ROOT, ROOT))


@pytest.mark.parametrize("command", ["cat >> seen", "jq . >log/all 2>&1", "cat notes.md", "/bin/true", "sh ../x.sh"])
def test_output_data_and_files_elsewhere_are_not(command: str) -> None:
    found = set(named_paths([json.dumps({"command": command})], ROOT, ROOT))
    assert found <= {"cat", "jq", "sh"}


def test_invalid_json_names_nothing() -> None:
    assert named_paths(["{", "1"], ROOT, ROOT) == []
