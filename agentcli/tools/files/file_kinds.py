"""Detect file types: names for binary files and media types by their first bytes, languages by their names. Pure."""

from __future__ import annotations

_MAGIC_NUMBERS = (
    (b"\x7fELF", "an ELF executable or library"),
    (b"MZ", "a Windows executable"),
    (b"\xca\xfe\xba\xbe", "a Java class or a universal Mach-O binary"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O executable"),
    (b"\x00asm", "a WebAssembly module"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ\x00", "an xz archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"SQLite format 3\x00", "a SQLite database"),
    (b"\xd0\xcf\x11\xe0", "an old Microsoft Office document"),
    (b"OggS", "an Ogg audio or video file"),
    (b"ID3", "an MP3 audio file"),
    (b"\x00\x00\x01\x00", "an icon"),
    (b"\x93NUMPY", "a NumPy array"),
)


def binary_name(data: bytes) -> str:
    """The kind of a binary file with an article: `a gzip archive`; `a binary file` if unknown."""
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zip_name(data)
    if data[4:8] == b"ftyp":
        return "a HEIC or AVIF picture" if data[8:12] in (b"heic", b"mif1", b"avif", b"heix") else "an MP4 video"
    if data[:4] == b"RIFF":
        return {b"WAVE": "a WAV audio file", b"AVI ": "an AVI video"}.get(data[8:12], "a RIFF file")
    if data[257:262] == b"ustar":
        return "a tar archive"
    if data[:2] in (b"\xff\xfb", b"\xff\xf3"):
        return "an MP3 audio file"
    if data[2:4] == b"\x0d\x0a" and data[:2] != b"\r\n":
        return "a compiled Python module"
    return next((name for start, name in _MAGIC_NUMBERS if data.startswith(start)), "a binary file")


def _zip_name(data: bytes) -> str:
    head = data[:4096]
    for mark, name in (
        (b"word/", "a Word document"),
        (b"xl/", "an Excel workbook"),
        (b"ppt/", "a PowerPoint presentation"),
        (b"mimetypeapplication/epub", "an EPUB book"),
        (b"mimetypeapplication/vnd.oasis", "an OpenDocument file"),
        (b"META-INF/", "a Java archive"),
    ):
        if mark in head:
            return name
    return "a ZIP archive"


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
