"""The text of refusals in non-interactive runs, alone and in the assembled program."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.toolcalls.calls import denial_sentence, describe_unattended
from agentcli.cli.main import main
from agentcli.core.permission import Decision, Need
from agentcli.permissions.call_review import _PLANNING
from agentcli.permissions.policy import Policy
from agentcli.tools.planning import AskUserQuestion, EnterPlanMode, ExitPlanMode
from tests.support.tables import each_row

NAME = "a),Bash,Edit(b"


def refusal(command: str, rule: str = "") -> str:
    decision = Decision("ask", "Needs approval: x is not known", rule, cause="x is not known")
    return describe_unattended(f"Bash {command}", {"command": command}, decision, [])


@each_row(
    ("command", "advice"),
    [
        ("cat <<'E'\nx\nE", "write the text to a file"),
        ("make\nmake test", "write it as one line"),
        ("curl x | python3", "write the script to a file"),
        ("cat a | bash -s", "write the script to a file"),
        ("npm test $X", "write the values themselves"),
        ("npm test `date`", "write the values themselves"),
        ("rm a*", "name the files"),
        ("x & y", "run its parts as separate calls"),
    ],
)
def test_a_call_that_no_rule_covers_gets_advice_how_to_write_it(command: str, advice: str) -> None:
    assert f"; no rule can cover it as it is written, so {advice}" in refusal(command)


def test_no_allow_rule_is_suggested_against_an_ask_rule() -> None:
    assert refusal("x", rule="Bash(x)").endswith("; an allow rule does not change that.")


@pytest.mark.parametrize(
    "command",
    ["printf '[x]' > .envrc", "ls; echo $PWD > .git/config", "git add .vscode/[a-z]*"],
)
def test_no_rule_is_suggested_for_a_call_that_no_rule_can_cover(command: str, tmp_path: Path) -> None:
    decision = Policy().decide("Bash", {}, [Need("execute", command)], tmp_path, [tmp_path])
    assert decision.behavior == "ask"
    text = describe_unattended(f"Bash {command}", {"command": command}, decision, [])
    assert text.endswith("and this session is non-interactive; no rule can allow it.")


@pytest.mark.parametrize(
    "text",
    [
        refusal("make"),
        refusal("make; x"),
        refusal("npm test $X"),
        refusal("x", rule="Bash(x)"),
        describe_unattended("Bash x", {"command": "x"}, Decision("ask", "y", part="x", cause="y"), ["Bash(x)"]),
        denial_sentence(_PLANNING),
        *(tool.unanswered for tool in (AskUserQuestion, EnterPlanMode, ExitPlanMode)),
        *(tool.declined for tool in (AskUserQuestion, EnterPlanMode, ExitPlanMode)),
    ],
)
def test_a_denial_is_one_sentence_for_the_model(text: str) -> None:
    assert re.findall(r"[.!?](?=\s|$)", text) == ["."]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC", "AGENTCLI", "XDG"))]:
        monkeypatch.delenv(name)
    folder = tmp_path / "work"
    folder.mkdir()
    script = tmp_path / "script.json"
    calls = [
        {"tool": "Write", "input": {"file_path": str(tmp_path / NAME), "content": "x"}},
        {"tool": "Bash", "input": {"command": "touch made"}},
        {"tool": "Bash", "input": {"command": "touch made"}},
    ]
    script.write_text(json.dumps({"version": 1, "replies": [{"steps": calls}, "Done."]}))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AGENTCLI_SCRIPT", str(script))
    monkeypatch.chdir(folder)
    return folder


def run(*flags: str) -> int:
    return main(["-p", "go", "--no-session-persistence", "--sandbox", "off", *flags], os.environ)


def test_one_line_on_stderr_summarises_refusals_and_its_hint_allows_exactly_those(
    work: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run() == 0
    out, err = capfd.readouterr()
    assert out == "Done.\n"
    [line] = [line for line in err.splitlines() if "denied" in line]
    assert line.startswith("agentcli: 3 calls were denied: `Bash touch made` (2 times), `Write /")
    hint = re.search("To allow them: (.*)", line)
    assert hint is not None
    flag, value = shlex.split(hint[1])
    the_file, _comma, _bash = value.partition(",Bash(")
    assert run(flag, the_file) == 0
    err = capfd.readouterr().err
    assert (work.parent / NAME).read_text() == "x"
    assert not (work / "made").exists(), "the name in the hint does not allow Bash"
    assert "2 calls were denied: `Bash touch made` (2 times)." in err
    assert run(flag, value) == 0
    assert "denied" not in capfd.readouterr().err
    assert (work / "made").exists()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--allowedTools", "Bsh(npm *)"), "--allowedTools: There is no tool named Bsh, so the rule Bsh(npm *) has no"),
        (("--disallowedTools", "webfetch"), "so the rule webfetch has no effect. Did you mean WebFetch?"),
        (("--disallowedTools", "TodoWrite(x)"), "--disallowedTools: TodoWrite takes no parentheses, so the rule"),
        (("--settings", '{"permissions": {"deny": ["Reed(.env)"]}}'), "There is no tool named Reed"),
    ],
)
def test_a_rule_for_a_tool_that_does_not_exist_is_reported(
    work: Path, capfd: pytest.CaptureFixture[str], flags: tuple[str, str], said: str
) -> None:
    run(*flags)
    assert said in capfd.readouterr().err


def test_rules_for_servers_and_other_tools_are_not_reported(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run("--allowedTools", "mcp__files,mcp__x__*,Task(x),Agent,Skill(y),Web*,*")
    assert "no tool named" not in capfd.readouterr().err


def play_script(work: Path, *replies: Any) -> None:
    (work.parent / "script.json").write_text(json.dumps({"version": 1, "replies": list(replies)}))


def test_a_call_that_is_refused_again_and_again_is_a_loop(work: Path, capfd: pytest.CaptureFixture[str]) -> None:
    play_script(work, {"steps": [{"tool": "Bash", "input": {"command": "touch made"}}], "repeat": True})
    assert run("--output-format", "json") == 1
    result = json.loads(capfd.readouterr().out)
    assert (result["terminal_reason"], result["num_turns"]) == ("loop_detected", 4)


@pytest.mark.parametrize("answer", ["In words.", {"steps": [{"tool": "StructuredOutput", "input": {"n": "x"}}]}])
def test_a_missing_structured_output_is_not_blamed_on_a_hook(
    work: Path, capfd: pytest.CaptureFixture[str], answer: Any
) -> None:
    reply = {"text": answer} if isinstance(answer, str) else answer
    play_script(work, {**reply, "repeat": True})
    schema = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
    assert run("--json-schema", schema, "--output-format", "stream-json", "--verbose") == 1
    out, err = capfd.readouterr()
    result = json.loads(out.splitlines()[-1])
    assert result["subtype"] == "error_max_structured_output_retries"
    assert result["terminal_reason"] == "no_structured_output"
    # The first line names /hooks among the commands.
    told = "\n".join([*out.splitlines()[1:], err])
    assert "hook" not in told.lower()


@pytest.mark.parametrize("rules", [[], ["Bash(rm -rf work)"]])
def test_the_part_that_needs_approval_is_named(rules: list[str]) -> None:
    cause = "it removes more than 10 files (in `rm -rf work`)"
    decision = Decision("ask", f"Needs approval: {cause}", cause=cause, part="rm -rf work")
    text = describe_unattended("Bash x", {"command": "rm -rf work && make"}, decision, rules)
    assert "the parts without `rm -rf work` can run as a call of their own" in text


def test_advice_to_split_a_command_promises_no_rule() -> None:
    assert refusal("x & y").endswith("so run its parts as separate calls: that may need no approval.")
