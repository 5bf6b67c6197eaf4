"""The language of a file by its name, for syntax highlighting, as Pygments calls it."""

from __future__ import annotations

_BY_NAME = {
    "dockerfile": "docker", "makefile": "make", "gnumakefile": "make", "cmakelists.txt": "cmake", "justfile": "make",
    "gemfile": "ruby", "rakefile": "ruby", ".bashrc": "bash", ".zshrc": "zsh", ".gitignore": "text",
}  # fmt: skip
_BY_ENDING = {
    "py": "python", "pyi": "python", "js": "javascript", "mjs": "javascript", "cjs": "javascript", "jsx": "jsx",
    "ts": "typescript", "tsx": "tsx", "rs": "rust", "go": "go", "c": "c", "h": "c", "cc": "cpp", "cpp": "cpp",
    "hpp": "cpp", "java": "java", "kt": "kotlin", "swift": "swift", "rb": "ruby", "php": "php", "cs": "csharp",
    "scala": "scala", "sh": "bash", "bash": "bash", "zsh": "zsh", "fish": "fish", "ps1": "powershell", "sql": "sql",
    "html": "html", "htm": "html", "xml": "xml", "svg": "xml", "css": "css", "scss": "scss", "less": "less",
    "json": "json", "jsonl": "json", "ipynb": "json", "yaml": "yaml", "yml": "yaml", "toml": "toml", "ini": "ini",
    "cfg": "ini", "md": "markdown", "rst": "rst", "tex": "latex", "lua": "lua", "r": "r", "jl": "julia",
    "hs": "haskell", "ml": "ocaml", "ex": "elixir", "exs": "elixir", "erl": "erlang", "clj": "clojure", "vim": "vim",
    "dart": "dart", "zig": "zig", "nix": "nix", "tf": "terraform", "proto": "protobuf", "graphql": "graphql",
    "diff": "diff", "patch": "diff", "vue": "vue", "svelte": "html", "cmake": "cmake", "mk": "make", "pl": "perl",
}  # fmt: skip


def language_of(path: str) -> str:
    """Pygments name of a file's language; empty if unknown."""
    name = path.rpartition("/")[2].lower()
    return _BY_NAME.get(name) or _BY_ENDING.get(name.rpartition(".")[2] if "." in name else "", "")
