"""Examples for the help and the reference. A test parses each of them with the real parser."""

from __future__ import annotations

from collections.abc import Mapping

from agentcli.core.frozen import frozen


@frozen
class Example:
    line: str
    text: str
    """A short description."""


GENERAL: tuple[Example, ...] = (
    Example("agentcli demo", "guided tour, no key needed"),
    Example("agentcli", "open the app here"),
    Example('agentcli "fix the failing test"', "with a first prompt"),
    Example("agentcli -c", "continue the latest session"),
    Example("agentcli -r", "choose a session to resume"),
    Example('agentcli -p "what does this project do?"', "answer one prompt and exit"),
    Example('git diff | agentcli -p "review this change"', "piped input is added"),
    Example(
        'agentcli -p "fix it" --permission-mode acceptEdits --max-turns 20', "edit without asking, at most 20 replies"
    ),
    Example('agentcli -p "list the tests" --output-format json', "print one JSON object"),
)

OF_COMMANDS: Mapping[str, tuple[Example, ...]] = {
    "help": (
        Example("agentcli help", "this help"),
        Example("agentcli help permissions test", "help for one command"),
    ),
    "demo": (
        Example("agentcli demo", "the tour; Enter starts the next step"),
        Example("agentcli demo --auto --speed 4", "play it automatically"),
    ),
    "login": (
        Example("agentcli login", "paste a key (not echoed)"),
        Example("agentcli login --with-key-stdin < key.txt", "read the key from standard input"),
        Example("agentcli login --base-url https://models.example.com", "for another server"),
    ),
    "logout": (Example("agentcli logout", "remove the key of the current server"),),
    "status": (
        Example("agentcli status", "model, server and key in use"),
        Example("agentcli status --json", "the same as JSON"),
    ),
    "config": (
        Example("agentcli config", "all settings, values and sources"),
        Example("agentcli config --json", "the same as JSON"),
    ),
    "sessions": (
        Example("agentcli sessions list", "the sessions of this folder"),
        Example("agentcli sessions list --all", "sessions of all folders"),
    ),
    "permissions": (
        Example("agentcli permissions list", "active rules"),
        Example("agentcli permissions test 'git push --force'", "the decision and the reason"),
        Example("agentcli permissions test src/app.py --tool Edit", "for another tool"),
    ),
    "doctor": (
        Example("agentcli doctor", "run all checks"),
        Example("agentcli doctor --online", "also contact the server"),
        Example("agentcli doctor --sandbox strict", "test the strict sandbox"),
    ),
    "quarantine": (
        Example("agentcli quarantine list", "quarantined items, origin and reason"),
        Example("agentcli quarantine restore ID", "restore an item"),
        Example("agentcli quarantine rm ID", "delete an item"),
    ),
    "trust": (
        Example("agentcli trust", "review this folder's settings and decide"),
        Example("agentcli trust --list", "trusted folders"),
        Example("agentcli trust --remove ../other", "remove trust"),
    ),
    "plugins": (
        Example("agentcli plugins list", "plugins, what they add, load time, problems"),
        Example("agentcli plugins new notes", "write an example and its test to your plugin folder"),
        Example("agentcli plugins new notes --project", "the same in this repository"),
    ),
    "mcp": (
        Example("agentcli mcp add files -- npx -y some-files-server .", "a command, for you in this project"),
        Example("agentcli mcp add api https://api.example.com/mcp --scope user", "an address, in all projects"),
        Example("agentcli mcp add db --scope project -e URL='${DB_URL}' -- db-server", "shared, in .mcp.json"),
        Example("agentcli mcp list", "all servers and their state"),
        Example("agentcli mcp test files", "connect and show what it offers"),
        Example("agentcli mcp remove files", "remove it"),
        Example("agentcli mcp serve", "offer the tools of agentcli to another program"),
        Example("agentcli mcp login api", "sign in to a server over HTTP"),
    ),
    "completion": (
        Example("agentcli completion bash >> ~/.bashrc", "for bash"),
        Example('agentcli completion zsh > "${fpath[1]}/_agentcli"', "for zsh"),
        Example("agentcli completion fish > ~/.config/fish/completions/agentcli.fish", "for fish"),
    ),
}
