"""Shell completions: from the function that computes them, and in real shells where they are installed."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from agentcli.cli import COMMANDS
from agentcli.cli.complete import WANTS_FILES, FileNamesWanted, offers
from agentcli.cli.flags import FLAGS, SHELLS
from agentcli.cli.main import main
from agentcli.session.base import session_path
from tests.support.fork_server import forking_command
from tests.support.terminal import TerminalProgram

ROOT = Path(__file__).parents[2]
SESSION = "12345678-0000-4000-8000-000000000000"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A home with one session of the folder `work`, and a theme of one's own."""
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    themes = home / ".config" / "agentcli" / "themes"
    themes.mkdir(parents=True)
    (themes / "mine.toml").write_text('name = "mine"\ndescription = "my own"\nextends = "nord"\n')
    path = session_path(home / ".local" / "state" / "agentcli", work, SESSION)
    path.parent.mkdir(parents=True)
    prompt = {"type": "user", "cwd": str(work), "message": {"role": "user", "content": "do $(touch x); `y`"}}
    title = {"type": "custom-title", "customTitle": "the-parser"}
    path.write_text("".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in (prompt, title)))
    return {"HOME": str(home), "PATH": os.environ["PATH"]}


def offered(environ: dict[str, str], *words: str) -> list[str]:
    return [offer.value for offer in offers(words, environ, Path(environ["HOME"]).parent / "work")]


def test_the_first_word_may_be_a_command_and_a_dash_begins_a_flag(environ: dict[str, str]) -> None:
    assert offered(environ, "") == list(COMMANDS)
    assert offered(environ, "perm") == ["permissions"]
    assert offered(environ, "--permission-m") == ["--permission-mode"]
    assert offered(environ, "-p", "--eff") == ["--effort"]
    assert set(offered(environ, "--")) == {name for flag in FLAGS for name in flag.names if name.startswith("--")}
    assert "-p" in offered(environ, "-")


def test_the_values_of_flags_are_offered(environ: dict[str, str]) -> None:
    assert offered(environ, "--permission-mode", "pl") == ["plan"]
    assert offered(environ, "--effort=lo") == ["--effort=low"]
    assert offered(environ, "--setting-sources", "user,pro") == ["user,project"]
    assert offered(environ, "--model", "op") == ["opus"]
    assert "haiku,claude-opus-5-5" in offered(environ, "-p", "hello", "--fallback-model", "haiku,cl")
    assert offered(environ, "--theme", "no") == ["nord"]
    assert offered(environ, "--theme", "mi") == ["mine"]
    assert offered(environ, "--tools", "Read,Multi") == ["Read,MultiEdit"]
    assert offered(environ, "-r", "") == [SESSION, "the-parser"]
    assert offered(environ, "--resume", "123") == [SESSION]
    assert offered(environ, "--max-turns", "") == []


@pytest.mark.parametrize(
    "words", [("--add-dir", ""), ("--system-prompt-file", "x"), ("some words", ""), ("--", "x"), ("trust", "")]
)
def test_file_names_are_left_to_the_shell(environ: dict[str, str], words: tuple[str, ...]) -> None:
    with pytest.raises(FileNamesWanted):
        offered(environ, *words)


def test_the_commands_are_completed_too(environ: dict[str, str]) -> None:
    assert offered(environ, "permissions", "") == ["test", "list"]
    assert offered(environ, "permissions", "test", "x", "--mode", "pl") == ["plan"]
    assert offered(environ, "permissions", "test", "x", "--tool", "WebF") == ["WebFetch"]
    assert offered(environ, "doctor", "--on") == ["--online"]
    assert offered(environ, "doctor", "--sandbox", "") == ["off", "on", "strict"]
    assert offered(environ, "demo", "--theme", "no") == ["nord"]
    assert offered(environ, "demo", "--permission-mode", "acc") == ["acceptEdits"]
    assert offered(environ, "completion", "") == list(SHELLS)
    assert offered(environ, "help", "sess") == ["sessions"]
    assert offered(environ, "help", "permissions", "t") == ["test"]


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_its_own_form(
    shell: str, environ: dict[str, str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path(environ["HOME"]).parent / "work")
    asking = {**environ, "_AGENTCLI_COMPLETE": shell}
    assert main(["--", "-r", SESSION[:5]], asking) == 0
    label = "the-parser"
    forms = {"bash": SESSION, "zsh": f"{SESSION}:{label}", "fish": f"{SESSION}\t{label}"}
    assert capfd.readouterr().out.splitlines() == [forms[shell]]
    assert main(["--", "--add-dir", ""], asking) == WANTS_FILES
    assert main(["--", "-v"], asking) == 0
    assert "agentcli)" not in capfd.readouterr().out, "completing -v shows no version"


def test_bash_takes_words_apart_at_the_equals_sign(
    environ: dict[str, str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = {**environ, "_AGENTCLI_COMPLETE": "bash"}
    for words in (["--effort", "=", "lo"], ["-p", "--effort", "=", "lo"]):
        assert main(["--", *words], asking) == 0
        assert capfd.readouterr().out == "low\n"
    assert main(["--", "--effort", "="], asking) == 0
    assert capfd.readouterr().out.split()[:2] == ["low", "medium"]


def test_there_is_a_script_for_each_shell_and_no_other(capfd: pytest.CaptureFixture[str]) -> None:
    for shell in SHELLS:
        assert main(["completion", shell], os.environ) == 0
        assert f"_AGENTCLI_COMPLETE={shell}" in capfd.readouterr().out
    assert main(["completion", "tcsh"], os.environ) == 2
    assert "Unknown shell 'tcsh'" in capfd.readouterr().err


# ------------------------------------------------------------------------------------------------------- real shells


@pytest.fixture
def installed(tmp_path: Path, environ: dict[str, str]) -> dict[str, str]:
    """The environment of a shell that finds `agentcli`."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "agentcli").write_text(f'#!/bin/sh\nexec {shlex.join(forking_command("-m", "agentcli"))} "$@"\n')
    (programs / "agentcli").chmod(0o755)
    (tmp_path / "work" / "a-file.txt").touch()
    return {"PATH": f"{programs}:{environ['PATH']}", "PS1": "> ", "PYTHONPATH": str(ROOT)}


def shell_program(name: str, *arguments: str) -> tuple[str, str]:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    return "-c", f"import os; os.execvp({name!r}, {[name, *arguments]!r})"


LINES = (
    ("agentcli --permission-m\t", "--permission-mode"),
    ("agentcli --permission-mode acc\t", "acceptEdits"),
    ("agentcli --effort=med\t", "--effort=medium"),
    ("agentcli perm\tte\t", "permissions test"),
    (f"agentcli -r {SESSION[:4]}\t", SESSION),
    ("agentcli --model son\t", "--model sonnet"),
    ("agentcli --theme nor\t", "--theme nord"),
    ("agentcli --system-prompt-file a-\t", "a-file.txt"),
)


@pytest.mark.anyio
@pytest.mark.parametrize("shell", ["bash", "zsh"])
async def test_a_real_shell_completes(shell: str, tmp_path: Path, installed: dict[str, str]) -> None:
    options = {"bash": ("--norc", "--noprofile", "-i"), "zsh": ("-f", "-i")}[shell]
    begin = {
        "bash": 'eval "$(agentcli completion bash)"',
        "zsh": 'autoload -U compinit && compinit -u -d $HOME/dump && eval "$(agentcli completion zsh)"',
    }[shell]
    async with TerminalProgram(tmp_path, command=shell_program(shell, *options), environ=installed) as program:
        await program.type(f"{begin}; echo beg''un\r")
        await program.wait_for("begun")
        for number, (typed, expected) in enumerate(LINES):
            await program.type(typed)
            await program.wait_for(expected)
            # The line is deleted instead of run, and an echo shows that the shell has done so.
            await program.press("ctrl+u")
            await program.type(f"clear; echo do''ne-{number}\r")
            await program.wait_for(lambda number=number: f"done-{number}" in program.text)  # type: ignore[misc]
        await program.type("exit\r")
        await program.end()
    assert not (tmp_path / "work" / "x").exists(), "a prompt of a session is never run"


def test_fish_completes(tmp_path: Path, environ: dict[str, str], installed: dict[str, str]) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    for typed, expected in (*LINES[:3], *LINES[4:]):
        line = typed.rstrip("\t")
        done = subprocess.run(
            ["fish", "--no-config", "-c", f"agentcli completion fish | source; complete -C '{line}'"],
            env={**environ, **installed},
            cwd=tmp_path / "work",
            capture_output=True,
            text=True,
            check=True,
        )
        values = [row.partition("\t")[0] for row in done.stdout.splitlines()]
        assert values == [expected.split()[-1]], done.stdout
