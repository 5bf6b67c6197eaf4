from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcli.session.history import decode_line, encode_line
from agentcli.session.load import load_end_of_history, load_session
from agentcli.session.store import SessionStore
from tests.session.conversations import SESSION_ID, workplace
from tests.session.test_store import prompt


@pytest.mark.parametrize("levels", [101, 600, 100_000])
def test_a_line_nested_too_deeply_is_skipped_and_counted_and_the_rest_loads(tmp_path: Path, levels: int) -> None:
    store = SessionStore.create(workplace(tmp_path), SESSION_ID)
    store.record(prompt("first", "prompt-1"))
    store.close()
    path = next((tmp_path / "state").rglob(f"{SESSION_ID}.jsonl"))
    nested = '{"type":"user","uuid":"x","message":' + "[" * levels + "]" * levels + "}\n"
    path.write_text(path.read_text() + nested)
    loaded = load_session(path)
    assert [message.id for message in loaded.messages] == ["prompt-1"]
    assert loaded.skipped == 1
    assert load_end_of_history(path) == loaded.history


def test_a_line_with_a_number_that_no_request_can_hold_is_junk() -> None:
    assert decode_line(b'{"a": 1e999}') is None
    assert decode_line(encode_line({"a": 1e300})) == json.loads('{"a": 1e300}')
