"""Files of a project that commands in a configuration name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentcli.config.trust_effects import named_paths

ROOT = Path("/srv/app")


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
