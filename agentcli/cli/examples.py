"""Lines to copy, for the help and the reference. A test reads each of them with the parser that a start uses."""

from __future__ import annotations

from collections.abc import Mapping

from agentcli.core.frozen import frozen


@frozen
class Example:
    line: str
    text: str
    """What it does, in a few words."""


GENERAL: tuple[Example, ...] = (
    Example("agentcli demo", "a tour, without a key"),
    Example("agentcli", "open the app here"),
    Example('agentcli "fix the failing test"', "with a first prompt"),
    Example("agentcli -c", "go on with the latest session"),
    Example("agentcli -r", "pick a session to go on with"),
    Example('agentcli -p "what does this project do?"', "answer one prompt and leave"),
    Example('git diff | agentcli -p "review this change"', "what is piped in is added"),
    Example('agentcli -p "fix it" --permission-mode acceptEdits --max-turns 20', "edit without asking, in bounds"),
    Example('agentcli -p "list the tests" --output-format json', "one JSON object, for programs"),
)

OF_COMMANDS: Mapping[str, tuple[Example, ...]] = {
    "help": (
        Example("agentcli help", "this help"),
        Example("agentcli help permissions test", "the help of one command"),
    ),
    "demo": (
        Example("agentcli demo", "the tour; Enter takes the next step"),
        Example("agentcli demo --auto --speed 4", "watch it play by itself"),
    ),
    "login": (
        Example("agentcli login", "paste a key, unseen"),
        Example("agentcli login --with-key-stdin < key.txt", "from a file or a program"),
        Example("agentcli login --base-url https://models.example.com", "for a server of your own"),
    ),
    "logout": (Example("agentcli logout", "forget the key of the server in use"),),
    "status": (
        Example("agentcli status", "model, server and key of this folder"),
        Example("agentcli status --json", "the same, for programs"),
    ),
    "config": (
        Example("agentcli config", "every setting, its value and where that is from"),
        Example("agentcli config --json", "the same, for programs"),
    ),
    "sessions": (
        Example("agentcli sessions list", "the sessions of this folder"),
        Example("agentcli sessions list --all", "those of all folders"),
    ),
    "permissions": (
        Example("agentcli permissions list", "the rules in force"),
        Example("agentcli permissions test 'git push --force'", "what would be decided, and why"),
        Example("agentcli permissions test src/app.py --tool Edit", "the same for another tool"),
    ),
    "doctor": (
        Example("agentcli doctor", "look at everything here"),
        Example("agentcli doctor --online", "also ask the server for its models"),
        Example("agentcli doctor --sandbox strict", "prove the sandbox without network"),
    ),
    "quarantine": (
        Example("agentcli quarantine list", "what was moved away, from where and why"),
        Example("agentcli quarantine restore ID", "put an item back to where it was"),
        Example("agentcli quarantine rm ID", "delete an item"),
    ),
    "trust": (
        Example("agentcli trust", "see what this folder's settings do, and decide"),
        Example("agentcli trust --list", "the folders that are trusted"),
        Example("agentcli trust --remove ../other", "take the trust back"),
    ),
    "completion": (
        Example("agentcli completion bash >> ~/.bashrc", "for bash"),
        Example('agentcli completion zsh > "${fpath[1]}/_agentcli"', "for zsh"),
        Example("agentcli completion fish > ~/.config/fish/completions/agentcli.fish", "for fish"),
    ),
}
