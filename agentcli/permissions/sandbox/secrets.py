"""Paths of the user's secrets, which a sandboxed command must not be able to read.

Names only, no file access. Paths are relative to the home folder unless they begin with a slash.
"""

from __future__ import annotations

UNREADABLE: tuple[str, ...] = (
    # Clouds and hosting
    *(".aws", ".azure", ".oci", ".aliyun", ".config/gcloud", ".config/doctl", ".config/hcloud"),
    *(".config/linode-cli", ".linode-cli", ".config/scw", ".config/vultr-cli.yaml", ".ovh.conf"),
    *(".config/exoscale", ".config/civo", ".civo.json", ".bluemix", ".fly", ".config/heroku"),
    *(".local/share/heroku", ".config/netlify", ".netlify", ".vercel", ".config/vercel"),
    *(".local/share/com.vercel.cli", ".wrangler", ".config/.wrangler", ".cloudflared", ".cloudflare"),
    *(".config/railway", ".railway", ".config/render", ".render", ".supabase", ".config/supabase"),
    *(".config/firebase", ".config/configstore", ".config/stripe", ".config/shopify", ".config/planetscale"),
    *(".config/neonctl", ".config/turso", ".snowflake", ".snowsql", ".config/snowflake", ".databricks"),
    *(".dbt/profiles.yml", ".config/gspread", ".config/twilio-cli", ".twilio-cli", ".config/ngrok", ".ngrok2"),
    *(".config/algolia", ".config/contentful", ".expo", ".config/flyctl"),
    # Infrastructure
    *(".kube", ".minikube/certs", ".minikube/profiles", ".minikube/ca.key"),
    *(".config/helm/registry", ".config/helm/registry.json"),
    *(".helm/repository", ".argocd", ".config/argocd", ".config/k9s", ".pulumi"),
    *(".terraform.d/credentials.tfrc.json", ".config/infracost", ".vault-token", ".config/consul"),
    *(".nomad-token", ".ansible/vault_pass", ".ansible_vault_pass", ".vault_pass", ".vault_pass.txt", ".chef"),
    *(".puppetlabs", ".tsh", ".step", ".config/wireguard", ".config/tailscale", ".config/openvpn"),
    *(".config/rclone", ".mc", ".config/containers/auth.json", ".docker/run", ".docker/desktop"),
    *(".docker/contexts", ".docker/.token_seed", ".docker/scout", ".colima", ".lima"),
    *(".local/share/containers/storage/secrets", ".orbstack"),
    # Code hosting and issue trackers
    *(".config/gh", ".config/hub", ".config/glab-cli", ".config/tea", ".config/git/credentials"),
    *(".git-credentials", ".config/git-credential-manager", ".gcm", ".circleci", ".travis", ".config/travis"),
    *(".buildkite", ".jira.d", ".config/jira", ".config/.jira", ".config/acli", ".config/sentry", ".sentryclirc"),
    *(".config/linear", ".gitlab-runner", ".config/act", ".subversion/auth"),
    # Package registries
    *(".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".local/share/gem/credentials"),
    *(".m2/settings-security.xml", ".hex/hex.config"),
    *(".config/hex", ".config/pypoetry/auth.toml", ".config/rubygems", ".pub-cache/credentials.json"),
    *(".config/dart/pub-credentials.json", ".ivy2/.credentials", ".sbt/.credentials", ".config/JFrog", ".jfrog"),
    *(".conan2/credentials.json", ".config/cachix", ".config/nix/netrc", ".anaconda/navigator", ".continuum"),
    *(".config/anaconda", ".local/share/uv/credentials"),
    # Databases and mail
    *(".pgpass", ".my.cnf", ".mylogin.cnf", ".config/pgcli", ".config/mycli", ".mongorc.js", ".mongodb"),
    *(".config/psql", ".redisclirc", ".msmtprc", ".config/msmtp", ".mbsyncrc", ".offlineimaprc", ".fetchmailrc"),
    *(".config/neomutt", ".mutt", ".config/aerc"),
    # File transfer
    *(".config/filezilla", ".filezilla", ".lftp", ".local/share/lftp", ".config/lftp", ".ncftp"),
    # Models and agents
    *(".cache/huggingface/token", ".cache/huggingface/stored_tokens", ".huggingface", ".kaggle"),
    *(".config/kaggle", ".config/wandb", ".config/openai", ".openai", ".config/replicate", ".modal.toml"),
    *(".config/ngc", ".ngc", ".claude/.credentials.json", ".claude.json", ".codex/auth.json", ".gemini"),
    *(".local/share/opencode/auth.json", ".config/github-copilot", ".aider", ".config/goose", ".config/llm"),
    *(".cody", ".config/io.datasette.llm", ".continue/config.json", ".config/amp", ".ollama/id_ed25519"),
    # Keys and password managers
    *(".ssh", ".gnupg", ".password-store", ".config/op", ".config/1Password", ".1password", ".config/Bitwarden"),
    *(".config/keybase", ".config/keepassxc", ".config/sops", ".config/age", ".age", ".config/cosign"),
    *(".sigstore", ".config/gopass", ".local/share/gopass", ".local/share/keyrings", ".local/share/kwalletd"),
    *(".local/share/pki", ".pki", ".lastpass", ".config/lpass", ".local/share/lpass", ".local/share/bitwarden"),
    *(".local/share/mkcert", ".config/doppler", ".doppler", ".config/infisical", ".infisical", ".config/chamber"),
    # Browsers, chats, editors
    *(".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware"),
    *(".config/microsoft-edge", ".config/vivaldi", ".config/opera", ".config/Signal", ".config/Slack"),
    *(".config/discord", ".config/Element", ".config/teams", ".config/zoom", ".config/Code", ".config/Cursor"),
    *(".config/VSCodium", ".config/JetBrains", ".local/share/TelegramDesktop", ".bitcoin", ".ethereum"),
    *(".electrum", ".config/solana", ".config/Exodus", "Library/Keychains"),
    *("Library/Application Support/Google/Chrome", "Library/Application Support/Firefox", "Library/Cookies"),
    # Histories and display access
    *(".bash_history", ".zsh_history", ".psql_history", ".mysql_history", ".python_history"),
    *(".node_repl_history", ".sqlite_history", ".rediscli_history", ".mongosh", ".local/share/fish/fish_history"),
    *(".local/share/atuin", ".lesshst", ".Xauthority", ".ICEauthority"),
)
"""Files and folders that commands cannot open."""

EMPTY: tuple[str, ...] = (
    *(".m2/settings.xml", ".nuget/NuGet/NuGet.Config", ".config/NuGet/NuGet.Config"),
    *(".netrc", ".npmrc", ".pypirc", ".yarnrc.yml", ".docker/config.json", ".config/pip/pip.conf"),
    *(".gradle/gradle.properties", ".terraformrc", ".s3cfg", ".boto", ".databrickscfg", ".config/uv/uv.toml"),
    *(".pip/pip.conf", ".composer/auth.json", ".config/composer/auth.json", ".bundle/config", ".netrc.gpg"),
    *(".curlrc", ".wgetrc", ".condarc", ".yarnrc", ".authinfo", ".config/hub.yml"),
    *(".bunfig.toml", ".config/nix/nix.conf"),
)
"""Files with settings besides their secrets, which programs fail without. Commands see them empty, or without the
secrets if `filtered_files` knows the format."""

FILTERED_ONLY: tuple[str, ...] = (".gitconfig", ".config/git/config", ".cargo/config.toml", ".cargo/config")
"""Mostly settings, which every command may see; secrets in them are removed where the sandbox supports it."""

SYSTEM: tuple[str, ...] = ("/etc/shadow", "/etc/shadow-", "/etc/ssh")
"""Readable only by root, the usual user in many containers."""

VARIABLES: tuple[str, ...] = (
    *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "XAUTHORITY", "DISPLAY"),
    *("WAYLAND_DISPLAY", "TMUX", "STY", "DOCKER_HOST", "VSCODE_IPC_HOOK_CLI"),
)
"""Variables that give access to helpers outside the sandbox, which could act for a command."""


def holds_credentials(path: str) -> bool:
    """Whether a path in any home folder is a known place of credentials, which no hint suggests to open."""
    return any(f"/{name}/" in f"{path}/" for name in (*UNREADABLE, *EMPTY))
