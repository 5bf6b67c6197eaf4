"""More about each command than its line in the menu says: what to know, and lines to type. `/help` shows it."""

from __future__ import annotations

from collections.abc import Mapping

from agentcli.commands.base import Command
from agentcli.core.frozen import frozen

Line = tuple[str, str]
"""What to type, and what that does."""


@frozen
class Page:
    text: str
    examples: tuple[Line, ...]


READ_ON: tuple[Line, ...] = (
    ("/help COMMAND", "More about one command, with examples"),
    ("/doctor", "What is not well here, and what to do"),
    ("agentcli --help", "Every flag of the command line, with examples"),
    ("README", "The guide, and a reference of settings, files and variables"),
)
"""Where else there are answers."""

_NOW = "If re-reading the context costs confirmCostAbove or more, you are asked first; now skips the question."

MANUAL: Mapping[str, Page] = {
    "memory": Page(
        "Notes that the agent keeps about this project across sessions, and AGENTS.md and CLAUDE.md files. Ask it to "
        'remember or forget something, or edit a note yourself. "memory": false in the settings turns it off.',
        (
            ("/memory", "all files, their sizes and where they are"),
            ("/memory build.md", "what is in one"),
            ("/memory edit", "the index in your editor; with a name: that note or instruction file"),
        ),
    ),
    "help": Page(
        "In the app, ? on an empty box shows the same with all keys; typing searches.",
        (("/help", "all commands"), ("/help compact", "more about one of them")),
    ),
    "status": Page("Worth a look before you report a problem.", (("/status", "session, model, mode, sandbox, cost"),)),
    "doctor": Page(
        "Checks versions, programs, terminal, settings, key, folders and sessions, and tries every promise of the "
        "sandbox in a scratch folder. Nothing of yours is changed.",
        (("/doctor", "look at everything here"), ("/doctor online", "also ask the server for its models")),
    ),
    "undo": Page(
        "Whatever changed the files: an edit or a command. What you changed meanwhile and since stays, and so does the "
        "conversation. Where you changed the same lines, it asks.",
        (
            ("/undo", "the last prompt's changes; again: those of the prompt before"),
            ("/undo keep", "where you changed the same lines, keep yours"),
            ("/undo replace", "put the lines from before the prompt there"),
        ),
    ),
    "redo": Page(
        "Only what /undo took back. What you changed since stays; where you changed the same lines, it asks.",
        (("/redo", "as it was"), ("/redo replace", "also where you changed the same lines")),
    ),
    "diff": Page(
        "Compared with the copies that are kept before a change: your own changes are not in it, and no git repository "
        "is needed. In the app: f F next and previous file, h H hunk, o list of files, v side by side or "
        "unified, a all changes since HEAD, l the last prompt only, / search, c copy the file's diff, C copy all.",
        (
            ("/diff", "what agentcli changed in this session"),
            ("/diff last", "what the last prompt changed"),
            ("/diff all", "all changes since HEAD, yours and untracked files included"),
        ),
    ),
    "compact": Page(
        "Happens by itself before the window is full. You see the summary first and can change it. "
        "Your own words, the last exchange, files in use and what is pinned stay.",
        (
            ("/compact", "summarise now"),
            ("/compact the parser, not the tests", "say what matters"),
            ("/compact undo", "take it back"),
        ),
    ),
    "model": Page(
        f"By id, or by a short name such as opus, sonnet or haiku. {_NOW}",
        (("/model", "choose from a list"), ("/model sonnet", "change it"), ("/model haiku now", "without asking")),
    ),
    "effort": Page(
        f"low, medium, high, xhigh, max, or auto for the model's own default. {_NOW}",
        (("/effort", "choose from a list"), ("/effort high", "change it")),
    ),
    "thinking": Page(
        f"Which of the modes a model takes differs; one that always thinks says so. {_NOW}",
        (("/thinking", "what is in force"), ("/thinking disabled", "answer at once")),
    ),
    "mode": Page(
        "default asks, acceptEdits lets edits in the working folders pass, auto also runs commands in the sandbox "
        "without network, plan changes nothing, dontAsk refuses what would ask, bypassPermissions asks about next to "
        "nothing. Shift+Tab cycles through the first four.",
        (("/mode", "choose from a list"), ("/mode auto", "edits and contained commands run without a question")),
    ),
    "plan": Page("The model looks around and proposes; you approve, refuse or change.", (("/plan", "begin to plan"),)),
    "permissions": Page(
        "Deny beats ask beats allow, then the mode decides. --scope is session (the default), local, project or user. "
        "Settings files that you edit take effect at once.",
        (
            ("/permissions", "the rules by scope, when each last decided, and what was refused"),
            ("/permissions add allow 'Bash(npm test *)' --scope local", "add a rule"),
            ("/permissions edit allow 'Bash(make)' 'Bash(make *)'", "change one"),
            ("/permissions remove 'Bash(npm test *)'", "remove one"),
            ("/permissions test git push", "what would be decided, and why"),
        ),
    ),
    "context": Page(
        "What is pinned survives everything; what is dropped is not sent any more, and can be brought back. In the app "
        "p, d and u do the same on a list.",
        (
            ("/context", "what fills the window, by kind"),
            ("/context items", "each item with its id"),
            ("/context pin ID", "keep it, whatever happens"),
            ("/context unpin ID", "keep it no more"),
            ("/context price ID", "what dropping it saves and costs"),
            ("/context drop ID", "leave it out"),
            ("/context restore ID", "bring it back"),
        ),
    ),
    "cost": Page("Per model, per prompt and per tool.", (("/cost", "tokens and dollars so far"),)),
    "budget": Page(
        "A warning comes at 80 %; at the cap you are asked, and nothing is lost.",
        (("/budget", "what is left"), ("/budget 2.50", "set it, in dollars"), ("/budget off", "lift it")),
    ),
    "quarantine": Page(
        "What a sandboxed command creates and other programs would run or obey, such as .envrc or a git hook, is moved "
        "here.",
        (
            ("/quarantine", "what was moved away, from where and why"),
            ("/quarantine restore ID", "put an item back to where it was"),
            ("/quarantine rm ID", "delete it"),
        ),
    ),
    "todos": Page("The model keeps it for longer work; Ctrl+T shows it too.", (("/todos", "done and to do"),)),
    "tasks": Page("Ctrl+B sends the running command there. All of them end with the session.", (("/tasks", "list"),)),
    "rename": Page("Sessions are found by name: agentcli -r NAME.", (("/rename the parser", "name this session"),)),
    "copy": Page(
        "As Markdown, without gutters and line wraps; over ssh through the terminal.",
        (
            ("/copy", "the last answer"),
            ("/copy 2", "the one before"),
            ("/copy code", "the last block of code"),
            ("/copy code 2", "the block before"),
        ),
    ),
    "find": Page("Ctrl+F does the same; Enter goes on, Esc ends.", (("/find", "begin"), ("/find TODO", "look for it"))),
    "theme": Page(
        "auto follows the terminal. A theme of your own is a file in ~/.config/agentcli/themes.",
        (("/theme", "choose from a list, with a preview"), ("/theme nord", "put it on")),
    ),
    "config": Page("Enter changes a value, for you or for this project.", (("/config", "all settings"),)),
    "login": Page(
        "A key is not shown, is checked, and is kept in the system's keyring or in a file that only you can read, for "
        "its own address alone. Servers are looked for on this machine only. The conversation goes on with either.",
        (("/login", "paste a key, or choose a server on this machine"),),
    ),
    "logout": Page(
        "Only what login kept: a key in the environment or from apiKeyHelper stays in use, and is named.",
        (("/logout", "forget the key for the address in use"),),
    ),
    "resume": Page(
        "The list shows how each session ended; typing searches in names and first prompts.",
        (("/resume", "choose from a list"), ("/resume parser", "the one that fits")),
    ),
    "clear": Page("The old session is kept: /resume goes back to it.", (("/clear", "begin anew"),)),
    "exit": Page(
        "Ctrl+C twice does the same. A prompt that was not sent is there at the next start.", (("/exit", "leave"),)
    ),
}


def page_lines(command: Command) -> list[str]:
    """What `/help COMMAND` says."""
    also = f" (also {', '.join(f'/{alias}' for alias in command.aliases)})" if command.aliases else ""
    lines = [f"{command.usage}{also}", f"{command.summary}."]
    page = MANUAL.get(command.name)
    if page is None:
        return lines
    width = max(len(typed) for typed, _text in page.examples)
    return [*lines, page.text, "", *(f"  {typed:<{width}}  {text}" for typed, text in page.examples)]
