"""Detect file types: pictures and PDFs by their first bytes, languages by names. Pure."""

from __future__ import annotations


def image_media_type(data: bytes) -> str | None:
    """The media type of an image, by content and not by name: the API refuses an image with a wrong type."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[:2] == b"BM" and data[6:10] == b"\x00\x00\x00\x00":
        return "image/bmp"
    return None


def is_pdf(data: bytes) -> bool:
    # Some writers put blanks or a byte order mark before the header; a text that only mentions it is not a PDF.
    return data[:64].lstrip(b"\xef\xbb\xbf\x00 \t\r\n").startswith(b"%PDF-")


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
