"""Which language a file is written in, by its name. A table of our own: asking Pygments would load its registry."""

from __future__ import annotations

from pathlib import PurePosixPath

_SUFFIXES = {
    suffix: language
    for language, suffixes in {
        "bash": "sh bash zsh ksh bashrc zshrc profile env",
        "c": "c h",
        "clojure": "clj cljs edn",
        "cmake": "cmake",
        "cpp": "cc cpp cxx hh hpp hxx ino",
        "csharp": "cs",
        "css": "css",
        "dart": "dart",
        "diff": "diff patch",
        "docker": "dockerfile containerfile",
        "elixir": "ex exs",
        "erlang": "erl hrl",
        "fsharp": "fs fsx",
        "go": "go",
        "graphql": "graphql gql",
        "groovy": "groovy gradle",
        "haskell": "hs",
        "html": "html htm xhtml vue svelte",
        "ini": "ini cfg conf editorconfig gitconfig properties",
        "java": "java",
        "javascript": "js mjs cjs",
        "json": "json jsonc jsonl ndjson ipynb webmanifest",
        "jsx": "jsx",
        "julia": "jl",
        "kotlin": "kt kts",
        "less": "less",
        "lua": "lua",
        "make": "mk makefile gnumakefile",
        "markdown": "md markdown mdx",
        "nix": "nix",
        "objective-c": "m mm",
        "ocaml": "ml mli",
        "perl": "pl pm",
        "php": "php",
        "powershell": "ps1 psm1",
        "protobuf": "proto",
        "python": "py pyi pyw",
        "r": "r",
        "rst": "rst",
        "ruby": "rb rake gemspec gemfile rakefile",
        "rust": "rs",
        "scala": "scala sbt",
        "scss": "scss",
        "sql": "sql",
        "swift": "swift",
        "terraform": "tf tfvars hcl",
        "tex": "tex sty",
        "toml": "toml",
        "tsx": "tsx",
        "typescript": "ts mts cts",
        "vim": "vim vimrc",
        "xml": "xml svg xsd xsl plist csproj",
        "yaml": "yaml yml",
        "zig": "zig",
    }.items()
    for suffix in suffixes.split()
}


def language_of(path: str) -> str:
    """A name that `highlight` knows, or "" for what is not known to be code."""
    name = PurePosixPath(path.replace("\\", "/")).name.lower()
    if name.startswith(("dockerfile.", "containerfile.")):
        return "docker"
    if name == "cmakelists.txt":
        return "cmake"
    return _SUFFIXES.get(name.rpartition(".")[2], "")
