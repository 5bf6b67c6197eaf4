"""Table of read-only programs and flags, used by `read_only`.

A flag is listed only if it can neither write, run a program, use the network, follow links out of the folder, nor keep
the command from ending. A missing entry makes a command need approval; a wrong entry is a security hole.
"""

# A table is read along its rows.
# ruff: noqa: E501, SIM905

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agentcli.core.frozen import frozen


@frozen
class Flags:
    short: str = ""
    with_value: str = ""
    """Short flags that take a value, which may be attached: the rest of the word belongs to it."""
    long: frozenset[str] = frozenset()
    """Long flags: `--name`, and `--name=` where a value may be attached."""
    digits: bool = False
    """Whether `-20` is a count."""
    words: frozenset[str] | None = None
    """If set, a flag must be one of these whole words (`find`)."""
    most_positional: int | None = None
    positional: str | None = None
    """A regular expression that every word that is not a flag must match."""
    bare: bool = True
    """Whether it is read-only without any argument. Not so for interpreters, which run their standard input."""
    next_value: str = ""
    """Short flags whose value is the next word when nothing is attached; it does not count as positional."""
    unless_listing: bool = False
    """Whether `most_positional` is ignored if `--list` is given."""

    def for_listing(self) -> Flags:
        return replace(self, most_positional=None)


def _flags(
    short: str = "",
    value: str = "",
    long: str = "",
    *,
    digits: bool = False,
    most: int | None = None,
    next: str = "",
    listing: bool = False,
) -> Flags:
    names = frozenset(f"--{name}" for name in long.split())
    return Flags(short, value + next, names, digits, most_positional=most, next_value=next, unless_listing=listing)


_FIND_WORDS = frozenset(
    "-name -iname -path -ipath -wholename -iwholename -type -maxdepth -mindepth -size -mtime -mmin -ctime -cmin -atime"
    " -amin -newer -empty -print -print0 -not -o -a -or -and -prune -depth -xdev -mount -readable -writable -executable"
    " -perm -user -group -true -false -regex -iregex -ls -printf -newermt -newerct -links -samefile -inum -nouser"
    " -nogroup -regextype -daystart -noleaf -iname -lname -ilname -quit".split()
)

_CHECKSUM = _flags("bt", long="binary text tag")
_VERSION = Flags(words=frozenset({"--version"}), most_positional=0, bare=False)
_VERSION_OR_V = Flags(words=frozenset({"--version", "-V"}), most_positional=0, bare=False)
_VERSION_OR_LITTLE_V = Flags(words=frozenset({"--version", "-v"}), most_positional=0, bare=False)
_NOTHING = Flags(words=frozenset(), most_positional=0)

# Without -R, which follows links.
_GREP = _flags("EFGPiyvwxcLlnHhoqsraIUzZbT", "eABCm", "extended-regexp fixed-strings basic-regexp perl-regexp ignore-case "
               "invert-match word-regexp line-regexp count files-with-matches files-without-match line-number with-filename "
               "no-filename only-matching quiet silent no-messages recursive text null include= exclude= exclude-dir= "
               "color color= colour= max-count= after-context= before-context= context= regexp= binary-files= byte-offset",
               digits=True)  # fmt: skip

PROGRAMS: Mapping[str, Flags] = {
    "ls": _flags("aAbBcCdfFgGhHiklLmnNopqQrRsStuUvxXZ1", "IwT", "all almost-all author classify color color= "
                 "directory full-time group-directories-first human-readable inode numeric-uid-gid recursive reverse size "
                 "sort= time= time-style= ignore= hide= format= no-group si"),
    "cat": _flags("AbeEnstTuv", long="show-all number number-nonblank squeeze-blank show-ends show-tabs show-nonprinting"),
    "head": _flags("qv", "nc", "lines= bytes= quiet silent verbose", digits=True),
    "tail": _flags("qv", "nc", "lines= bytes= quiet silent verbose", digits=True),
    "wc": _flags("clmLw", long="bytes chars lines words max-line-length"),
    "pwd": _flags("LP", most=0),
    "true": Flags(words=frozenset()),
    "false": Flags(words=frozenset()),
    ":": Flags(words=frozenset()),
    "exit": Flags(words=frozenset(), most_positional=1, positional=r"\d{1,3}"),
    "sleep": Flags(words=frozenset(), most_positional=1, positional=r"\d{1,3}(?:\.\d+)?s?"),
    "expr": Flags(words=frozenset()),
    "factor": Flags(words=frozenset(), positional=r"\d{1,18}"),
    "whoami": _NOTHING,
    # Commands get an environment without secrets. With arguments, `env` is a wrapper.
    "env": _NOTHING,
    "printenv": _flags("0", long="null"),
    # Without -K, which closes sockets, and -D and -F, which write and read files.
    "ss": _flags("tulnpaxeoimsHr46", most=0),
    "netstat": _flags("tulnpanrise", most=0),
    "groups": _NOTHING,
    "logname": _NOTHING,
    "tty": _NOTHING,
    "locale": _flags("a", long="all-locales", most=0),
    "lscpu": _flags("Je", long="json", most=0),
    "lsblk": _flags("afJlp", "o", "all fs json list output="),
    "free": _flags("bkmghtw", long="bytes kibi mebi gibi human total wide", most=0),
    "who": _flags("abHqu", most=0),
    "pgrep": _flags("afilnoxvc", "uPt", "full list-name list-full exact newest oldest count ignore-case"),
    "bc": _flags("lqs", long="mathlib quiet"),
    "base64": _flags("di", "w", "decode ignore-garbage wrap="),
    "od": _flags("abcdfiloshxv", "AjNtw", "address-radix= skip-bytes= read-bytes= format= width= output-duplicates"),
    "hexdump": _flags("bcCdovx", next="ns"),
    # @FILE reads arguments from a file, which may name any other.
    "strings": replace(_flags("a", "ne", long="all bytes="), positional=r"[^@].*"),
    "getconf": _flags("a", most=2),
    "fd": _flags("HIuiasgFp0", "etdEc", "hidden no-ignore unrestricted ignore-case case-sensitive absolute-path glob fixed-strings "
                 "full-path print0 extension= type= max-depth= min-depth= exclude= color= changed-within= changed-before= size="),
    "zcat": Flags(words=frozenset()),
    "id": _flags("ugGnr", long="user group groups name real"),
    "uname": _flags("asnrvmpio", long="all", most=0),
    "nproc": _flags(long="all", most=0),
    "arch": _NOTHING,
    "hostname": _flags("fsiIdA", long="fqdn short domain ip-address all-ip-addresses", most=0),
    "uptime": _flags("ps", most=0),
    # A bare word would set the clock.
    "date": Flags("uR", "Id", frozenset({"--utc", "--iso-8601", "--iso-8601=", "--rfc-3339=", "--date=", "--rfc-email"}),
                  positional=r"\+.*", next_value="d"),
    "df": _flags("ahHiklPT", "t", "all human-readable inodes local print-type si total"),
    "du": _flags("abchHklmsSx0", "dt", "all apparent-size bytes total human-readable max-depth= summarize si exclude="),
    "stat": _flags("Lft", "c", "dereference file-system format= printf= terse"),
    "file": _flags("bihLN0", long="brief mime mime-type mime-encoding no-dereference"),
    "which": _flags("a", long="all"),
    "type": _flags("atpP"),
    "basename": _flags("az", "s", "multiple suffix= zero"),
    "dirname": _flags("z", long="zero"),
    "realpath": _flags("emqsz", long="canonicalize-existing canonicalize-missing relative-to= relative-base= strip zero"),
    "readlink": _flags("femnqsvz", long="canonicalize canonicalize-existing canonicalize-missing no-newline"),
    "cut": _flags("nsz", "bcdf", "bytes= characters= delimiter= fields= complement only-delimited output-delimiter="),
    "tr": _flags("cCdst", long="complement delete squeeze-repeats truncate-set1"),
    "nl": _flags("p", "bdfhilnsvw", "body-tiling="),
    "rev": _flags(),
    "tac": _flags("br", "s", "before regex separator="),
    "paste": _flags("sz", "d", "delimiters= serial"),
    "comm": _flags("123z", long="check-order nocheck-order total output-delimiter="),
    "join": _flags("iz", "12jtaveo", "ignore-case header check-order nocheck-order"),
    "cmp": _flags("bls", "in", "print-bytes bytes= verbose silent quiet"),
    "column": _flags("tx", "sco"),
    "fold": _flags("bs", "w", "bytes spaces width="),
    "expand": _flags("i", "t", "initial tabs="),
    "seq": _flags("w", "fs", "equal-width format= separator="),
    # -o writes, --compress-program runs.
    "sort": _flags("bdfghiMnRrVuscCz", "kt", "unique reverse numeric-sort human-numeric-sort version-sort ignore-case "
                   "key= field-separator= stable check general-numeric-sort month-sort"),
    # A second name is an output file.
    "uniq": _flags("cdDiuz", next="fsw", long="count repeated unique ignore-case", most=1),
    # Without -r, which follows links.
    "diff": _flags("abBcdeEiNpqsTtuwyZ", "CUWxIF", "brief unified unified= context context= ignore-case "
                   "ignore-all-space ignore-blank-lines ignore-space-change new-file side-by-side exclude= stat color= "
                   "report-identical-files text suppress-common-lines no-dereference minimal"),
    "md5sum": _CHECKSUM,
    "sha1sum": _CHECKSUM,
    "sha256sum": _CHECKSUM,
    "sha224sum": _CHECKSUM,
    "sha384sum": _CHECKSUM,
    "sha512sum": _CHECKSUM,
    "b2sum": _CHECKSUM,
    "cksum": _flags(),
    "sum": _flags("rs"),
    # Values of -L, -I and -P are words of their own: in -Lo, the second letter is the flag that writes a file.
    "tree": _flags("adfghinpstuDFJrvLIP0123456789", "", "dirsfirst gitignore noreport prune filelimit= du si"),
    # Without --pre, --hostname-bin and -z, which run programs, and without -L, which follows links.
    "rg": _flags("iswxvnNHhIlcoFPSuaUpqb0.", "eABCmgtTMEdr",
                 "ignore-case case-sensitive smart-case word-regexp line-regexp invert-match line-number no-line-number "
                 "with-filename no-filename files files-with-matches files-without-match count count-matches only-matching "
                 "fixed-strings pcre2 hidden no-ignore no-ignore-vcs unrestricted text multiline multiline-dotall pretty "
                 "quiet heading no-heading json stats trim vimgrep column null type-list color= colors= glob= iglob= type= "
                 "type-not= max-count= max-columns= max-depth= max-filesize= after-context= before-context= context= regexp= "
                 "sort= sortr= encoding= replace= no-messages no-config crlf"),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "find": Flags(words=_FIND_WORDS),
    # Not -v, with which it runs its standard input.
    "python": _VERSION_OR_V,
    "python3": _VERSION_OR_V,
    "rustc": _VERSION_OR_V,
    "cargo": _VERSION_OR_V,
    "make": _VERSION_OR_LITTLE_V,
    "java": Flags(words=frozenset({"--version", "-version"}), most_positional=0, bare=False),
    **dict.fromkeys(("gcc", "g++", "clang", "ruby", "cmake", "docker", "uv", "npx"), _VERSION),
}  # fmt: skip

_DIFF = (
    "stat stat= numstat shortstat dirstat name-only name-status summary patch no-patch raw cached staged unified= "
    "color color= no-color word-diff word-diff= color-words minimal patience histogram diff-algorithm= diff-filter= "
    "find-renames find-renames= find-copies no-renames ignore-all-space ignore-space-change ignore-space-at-eol "
    "ignore-blank-lines ignore-cr-at-eol function-context check full-index binary abbrev abbrev= exit-code quiet relative "
    "text no-ext-diff no-textconv merge-base compact-summary no-prefix color-moved color-moved= word-diff-regex= "
    "inter-hunk-context= ignore-submodules ignore-submodules= ita-visible-in-index"
)
_HARMLESS_KEY = r"(?:user\.(?:name|email)|core\.\w+|init\.\w+|pull\.\w+|push\.\w+|remote\.[\w/-]+\.url|branch\.[\w./-]+\.(?:merge|remote))"
"""Keys of git's configuration that never hold credentials; others may."""
_HISTORY = (
    "oneline graph decorate decorate= no-decorate all branches tags remotes pretty pretty= format= abbrev-commit no-abbrev-commit "
    "date= since= after= until= before= author= committer= grep= all-match invert-grep regexp-ignore-case max-count= skip= "
    "merges no-merges first-parent reverse follow topo-order date-order cherry cherry-pick left-right ancestry-path "
    "full-history simplify-merges parents children pickaxe-regex pickaxe-all source relative-date left-only right-only"
)

ANY_FILES = frozenset(
    "ls cat head tail wc stat file du grep egrep fgrep rg diff sort nl tac rev cut od hexdump basename dirname realpath "
    "readlink echo cmp md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum tree strings fold paste "
    "printf column expand comm join zcat".split()
)
"""Programs to which further file names do no harm, so that their arguments may contain patterns."""

SCRIPT_PROGRAMS = frozenset({"sed", "awk", "gawk", "mawk", "jq"})
"""Programs like `ANY_FILES`, but only after their script: otherwise the first name is taken for it."""

READS_STREAMS = ANY_FILES - {"ls", "du", "tree", "rg"} | {"jq"}
"""Programs that accept `<(…)` in place of a file."""

TELLS_ABOUT_ITSELF = frozenset(
    "ls cat head tail wc grep rg jq sort uniq cut tr find sed diff du df stat date tar fd tree".split()
)
"""Programs that only print a text with `--version` or `--help` alone."""

SUB_COMMANDS: Mapping[str, Mapping[str, Flags]] = {
    # Every other command looks for a newer npm on the registry that a repository's .npmrc names.
    "npm": {"--version": _NOTHING, "-v": _NOTHING},
    "pip": {
        "--version": _NOTHING,
        "list": _flags("", long="format= user local not-required exclude= editable", most=0),
        "show": _flags("f", long="files"),
        "freeze": _flags("", long="all local user", most=0),
        "check": _NOTHING,
    },
    # `-w` and `-u` write settings.
    "go": {"version": _NOTHING, "env": Flags(words=frozenset({"-json"}), positional=r"[A-Z][A-Z0-9_]*")},
    "rustup": {"--version": _NOTHING, "show": _NOTHING},
}  # fmt: skip
"""Programs with sub-commands. `pip list --outdated` and others that use the network are not listed."""

STEERED = frozenset("cargo rustc rustup go python python3 pip uv node npm npx ruby java".split())
"""Programs that a version manager or a setting of the project may replace."""
STEERING_FILES = (
    *(".tool-versions", "mise.toml", ".mise.toml", "mise.local.toml", ".mise.local.toml", "mise", ".mise"),
    *(".config/mise.toml", ".config/mise", "rust-toolchain", "rust-toolchain.toml", "go.work", "go.mod", ".go-version"),
    *(".python-version", ".node-version", ".nvmrc", "volta.json", ".npmrc", ".ruby-version", ".java-version"),
    ".sdkmanrc",
)
"""Files of a repository by which a version manager or npm chooses what runs."""

_DECOMPRESSORS = ("gzip", "bzip2", "xz", "lzip", "lzma", "lzop", "zstd", "compress")

STARTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("egrep", "fgrep"), ("grep",)),
    "zcat": ("gzip",),
    # It recognises a compressed archive automatically.
    "tar": _DECOMPRESSORS,
    **dict.fromkeys(("npm", "npx"), ("node",)),
    "pip": ("python3", "python"),
}
"""Programs that a read-only program starts through PATH; each is checked like the program itself."""

_NETWORK, _SCRIPT, _INSTALLS = "uses the network", "runs a script", "installs packages and may run code"
EFFECTS: Mapping[str, str] = {
    "git push": "sends commits to a remote", "git pull": "fetches from a remote and changes files", "git fetch": _NETWORK, "git clone": _NETWORK,
    "rm": "deletes files", "rmdir": "deletes folders", "unlink": "deletes files", "shred": "deletes files",
    "curl": _NETWORK, "wget": _NETWORK, "ssh": "runs commands on another machine", "scp": _NETWORK,
    "sh": _SCRIPT, "bash": _SCRIPT, "zsh": _SCRIPT, "dash": _SCRIPT,
    "sudo": "runs as another user", "su": "runs as another user", "doas": "runs as another user",
    "pip install": _INSTALLS, "pip3 install": _INSTALLS, "npm install": _INSTALLS, "npm i": _INSTALLS, "npm ci": _INSTALLS,
}  # fmt: skip
"""Descriptions of common commands for the permission question. Other commands also need approval."""

GIT_COMMANDS: Mapping[str, Flags] = {
    "status": _flags("sbvz", "u", "short branch porcelain porcelain= long verbose untracked-files untracked-files= ignored "
                     "ignored= show-stash ahead-behind no-renames renames column no-column"),
    "log": _flags("pusiEFPgmcwbRzaMDC", "nSGLU", f"{_DIFF} {_HISTORY}", digits=True),
    "show": _flags("pusmcwbRzaMD", "nSGU", f"{_DIFF} {_HISTORY}", digits=True),
    "diff": _flags("pusbwRzaMDW", "SGUl", _DIFF),
    "branch": _flags("arviq", long="all remotes verbose show-current list color color= no-color column no-column sort= format= "
                     "contains= no-contains= merged merged= no-merged no-merged= points-at= ignore-case abbrev=", most=0,
                     listing=True),
    "tag": _flags("il", "n", "list sort= format= contains= merged= no-merged= points-at= column no-column ignore-case color=",
                  most=0, listing=True),
    "remote": _flags("v", long="verbose", most=0),
    "remote get-url": _flags(long="all push", most=1),
    "rev-parse": _flags("q", long="abbrev-ref abbrev-ref= show-toplevel short short= verify is-inside-work-tree git-dir "
                        "is-bare-repository show-prefix show-cdup absolute-git-dir git-common-dir symbolic symbolic-full-name "
                        "quiet is-inside-git-dir is-shallow-repository"),
    "ls-files": _flags("cdmosiktuvz", "x", "cached deleted modified others ignored stage unmerged exclude-standard exclude= "
                       "error-unmatch full-name deduplicate eol"),
    "ls-tree": _flags("drtlz", long="long name-only name-status object-only full-name full-tree abbrev="),
    "cat-file": _flags("ptse"),
    "blame": _flags("clstfnewMC", "L", "porcelain line-porcelain show-email show-name show-number root date= abbrev= since="),
    "shortlog": _flags("nsec", "w", "numbered summary email since= until= author= no-merges all"),
    # Without --dirty, which rewrites the index.
    "describe": _flags(long="tags all always long contains abbrev= match= exclude= first-parent exact-match"),
    "stash list": _flags("pn", long=f"{_DIFF} {_HISTORY}", digits=True),
    "stash show": _flags("pu", long=_DIFF),
    "worktree list": _flags("vz", long="porcelain verbose", most=0),
    "reflog": _flags("", "n", "oneline date= max-count= format= pretty=", digits=True, most=0),
    "merge-base": _flags("a", long="all is-ancestor fork-point octopus independent"),
    "rev-list": _flags("", "n", f"count objects {_HISTORY}", digits=True),
    "name-rev": _flags(long="tags all always name-only refs="),
    "grep": _flags("aiIwvhHEGFPnlLzocpW", "eABCm", "ignore-case word-regexp invert-match extended-regexp fixed-strings perl-regexp "
                   "line-number files-with-matches name-only files-without-match only-matching count break heading "
                   "show-function function-context cached untracked and or not all-match quiet color= max-depth= max-count=",
                   digits=True),
    "for-each-ref": _flags(long="count= sort= format= contains= merged= no-merged= points-at= exclude="),
    "show-ref": _flags("dsq", long="head heads tags branches dereference hash hash= abbrev= verify quiet"),
    "show-branch": _flags("a", long="all current list"),
    "whatchanged": _flags("pn", long=f"{_DIFF} {_HISTORY}", digits=True),
    "diff-tree": _flags("rptvz", long=f"{_DIFF} no-commit-id root"),
    "cherry": _flags("v"),
    "version": _flags(long="build-options", most=0),
    "config --get": Flags(words=frozenset(), most_positional=1, positional=_HARMLESS_KEY),
    "config get": Flags(words=frozenset(), most_positional=1, positional=_HARMLESS_KEY),
    "count-objects": _flags("vH", long="verbose human-readable", most=0),
    "check-attr": _flags("az", long="all cached"),
    # Only with -n: see `read_only`.
    "clean": _flags("ndxXq", long="dry-run quiet"),
    # Only with one of the flags that prevent applying.
    "apply": _flags("Rv", "p", "check stat numstat summary reverse verbose recount unidiff-zero directory= include= exclude= "
                    "ignore-space-change ignore-whitespace inaccurate-eof"),
    # A second name would be the new target.
    "symbolic-ref": _flags("q", long="short quiet", most=1),
    "reflog show": _flags("", "n", "oneline date= max-count= format= pretty=", digits=True, most=1),
    "check-ignore": _flags("vqn", long="verbose quiet non-matching no-index"),
}  # fmt: skip
