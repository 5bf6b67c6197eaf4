"""Where secrets of a person lie: what a sandboxed command must not be able to read, wherever it may look.

Only names; nothing here touches a file. Paths are below the home folder unless they begin with a slash.
"""

from __future__ import annotations

UNREADABLE: tuple[str, ...] = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".oci",
    ".aliyun",
    ".config/gcloud",
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".config/doctl",
    ".config/rclone",
    ".config/op",
    ".config/1Password",
    ".config/Bitwarden",
    ".config/keybase",
    ".config/sops",
    ".config/git/credentials",
    ".git-credentials",
    ".vault-token",
    ".terraform.d/credentials.tfrc.json",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".local/share/pki",
    ".pki",
    ".pgpass",
    ".my.cnf",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings-security.xml",
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/vivaldi",
    ".config/opera",
    ".config/Signal",
    ".config/Slack",
    ".config/discord",
    "Library/Keychains",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/Firefox",
    "Library/Cookies",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".bash_history",
    ".zsh_history",
    ".psql_history",
    ".mysql_history",
    ".python_history",
    ".node_repl_history",
    ".docker/run",
    ".docker/desktop",
    ".colima",
    ".lima",
    ".1password",
    ".Xauthority",
    ".ICEauthority",
)
"""Whoever opens one of these is refused."""

EMPTY: tuple[str, ...] = (".netrc", ".npmrc", ".pypirc", ".yarnrc.yml", ".docker/config.json", ".config/pip/pip.conf")
"""These hold settings beside their secrets, and programs give up when they may not open them: they look empty."""

SYSTEM: tuple[str, ...] = ("/etc/shadow", "/etc/shadow-", "/etc/ssh")
"""Readable by root only, which is who works in many containers."""

VARIABLES: tuple[str, ...] = (
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "GPG_AGENT_INFO",
    "DBUS_SESSION_BUS_ADDRESS",
    "XAUTHORITY",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "TMUX",
    "STY",
    "DOCKER_HOST",
    "VSCODE_IPC_HOOK_CLI",
)
"""They lead to helpers outside of the sandbox that would do for a command what it may not do itself."""
