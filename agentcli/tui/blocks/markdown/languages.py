"""Language of a file by its name. Our own table: asking Pygments would load its registry."""

from __future__ import annotations

from pathlib import PurePosixPath

_SAME_SUFFIX = "cmake css dart go java jsx less lua nix php r rst scss sql swift toml tsx zig"
"""Languages whose name is also the file suffix."""
_SUFFIXES = {suffix: suffix for suffix in _SAME_SUFFIX.split()} | {
    suffix: language
    for language, suffixes in {
        "bash": "sh bash zsh ksh bashrc zshrc profile env",
        "c": "c h",
        "clojure": "clj cljs edn",
        "cpp": "cc cpp cxx hh hpp hxx ino",
        "csharp": "cs",
        "diff": "diff patch",
        "docker": "dockerfile containerfile",
        "elixir": "ex exs",
        "erlang": "erl hrl",
        "fsharp": "fs fsx",
        "graphql": "graphql gql",
        "groovy": "groovy gradle",
        "haskell": "hs",
        "html": "html htm xhtml vue svelte",
        "ini": "ini cfg conf editorconfig gitconfig properties",
        "javascript": "js mjs cjs",
        "json": "json jsonc jsonl ndjson ipynb webmanifest",
        "julia": "jl",
        "kotlin": "kt kts",
        "make": "mk makefile gnumakefile",
        "markdown": "md markdown mdx",
        "objective-c": "m mm",
        "ocaml": "ml mli",
        "perl": "pl pm",
        "powershell": "ps1 psm1",
        "protobuf": "proto",
        "python": "py pyi pyw",
        "ruby": "rb rake gemspec gemfile rakefile",
        "rust": "rs",
        "scala": "scala sbt",
        "terraform": "tf tfvars hcl",
        "tex": "tex sty",
        "typescript": "ts mts cts",
        "vim": "vim vimrc",
        "xml": "xml svg xsd xsl plist csproj",
        "yaml": "yaml yml",
    }.items()
    for suffix in suffixes.split()
}


def language_of(path: str) -> str:
    """A language name for `highlight`, or "" if the file is not known to be code."""
    name = PurePosixPath(path.replace("\\", "/")).name.lower()
    if name.startswith(("dockerfile.", "containerfile.")):
        return "docker"
    if name == "cmakelists.txt":
        return "cmake"
    return _SUFFIXES.get(name.rpartition(".")[2], "")
