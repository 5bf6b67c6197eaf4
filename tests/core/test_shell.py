"""The read-only proof: a table in both directions. A line in the wrong half is a hole or an annoyance."""

from __future__ import annotations

import pytest

from agentcli.core.shell import has_control_characters, is_read_only, loose_segments, loose_words, plain_commands

READ_ONLY = r"""
ls
ls -la
ls -la src tests
ls --color=never -R
cat README.md
cat -n a.txt b.txt
head -20 a.txt
head -n 5 a.txt
tail -n +5 a.txt
tail -c 100 a.txt
wc -l a.py b.py
pwd
echo hello world
echo "two words" 'and more'
echo -n x
true
printf '%s' x
whoami
id -u
uname -a
date
date +%Y-%m-%d
date -u
df -h
du -sh src
stat a.txt
file a.png
which python3
basename /a/b
dirname /a/b
realpath a
readlink -f a
cut -d , -f 1 a.csv
sort a.txt
sort -u -k 2 a.txt
uniq -c a.txt
sort a.txt | uniq -c | sort -rn | head -5
diff -u a b
sha256sum a
tree -L 2
rg foo
rg -n "foo bar" src
rg --files
rg -i --type py pattern src
grep -rn foo src
grep -E 'a|b' file
grep -c x file
grep --include='*.py' x
find . -name '*.py'
find src -type f -maxdepth 2
find . -name '*.py' -not -path './x/*'
git status
git status -sb
git status --porcelain=v2
git log
git log --oneline -5
git log --oneline --graph --all
git log -p -- src/app.py
git log --format="%H %s" -n 3
git log --author alice --since '1 week ago'
git diff
git diff --stat HEAD~1
git diff HEAD^ -- a.py
git diff --cached
git show HEAD
git show HEAD:src/app.py
git show --stat HEAD
git branch
git branch -a
git branch --show-current
git branch --list 'feature-1'
git tag
git tag --list 'v1'
git remote -v
git rev-parse HEAD
git rev-parse --abbrev-ref HEAD
git ls-files
git blame -L 1,5 a.py
git stash list
git --no-pager log -1
git describe --tags
git grep -n foo
sed -n '1,5p' a.txt
sed -n 10p a.txt
python3 --version
git --version
ls && pwd
ls; pwd
ls || true
cat a.txt | wc -l
ls;
  ls
cat ünïcode.txt
""".strip("\n").split("\n")  # fmt: skip

NOT_PROVEN = r"""
rm x
rm -rf /
ls > out.txt
ls >> out.txt
cat < in.txt
ls 2>&1
ls 2>/dev/null
ls & rm x
ls &
ls $(rm x)
ls `rm x`
echo $HOME
echo "$HOME"
echo ${HOME}
echo "$(id)"
echo "a\"b"
ls *.py
ls ?.py
ls [ab].py
ls {a,b}
ls ~
ls ~/secret
cat --number=~/x
A=1 ls
A=1
PATH=. ls
LD_PRELOAD=x ls
! ls
(ls)
{ ls; }
if true; then ls; fi
for i in a; do ls; done
while true; do ls; done
f() { ls; }
ls # comment
ls \
l\s
'ls'
"ls"
l's'
ls "unclosed
ls 'unclosed
ls |& cat
ls |
&& ls
ls && && ls
ls ;; ls
; ls
bash -c ls
sh x
eval ls
exec ls
source x
. x
env
env ls
printenv
export A=1
cd src
cd src && ls
xargs ls
ls | xargs rm
ls | sh
sudo ls
time ls
nohup ls
timeout 5 ls
tee out
cat a | tee b
cp a b
mv a b
touch a
mkdir a
chmod +x a
ln -s a b
dd if=a of=b
curl http://x
wget http://x
ssh host
nc host 1
ping host
python x.py
python -c 'print(1)'
python3 -V x
node x.js
npm test
npm install
make
pytest
cargo build
awk '{print}' a
awk 'BEGIN{system("rm x")}'
sed -i s/a/b/ x
sed s/a/b/ x
sed -n '1e rm x' a
sed -n '1,5w out' a
sed -n '1,5p' -i a
perl -e 1
vi a
less a
more a
man ls
top
watch ls
tail -f a
tail -F a
tail --follow a
sort -o out a
sort --output=out a
sort --compress-program=sh a
uniq a b
date 010203
date -s now
hostname evil
tree -o out
find . -delete
find -- . -delete
find . -- -delete
find -- -delete
sort -- -o x
echo -- -x
git diff -- --output=x
find . -exec rm x
find . -execdir rm x
find . -ok rm x
find . -fprint out
find . -fls out
find -L . -name x
find . '-delete'
rg --pre sh x
rg --pre=sh x
rg -z x
rg -L x
rg --follow x
rg --hostname-bin=sh x
grep -R x .
grep -f patterns x
file -C -m x
file -z x
diff -r a b
type -x
git
git commit -m x
git add .
git push
git pull
git fetch
git checkout x
git switch x
git reset --hard
git clean -fd
git stash
git stash pop
git stash drop
git branch new
git branch -d x
git branch -D x
git branch -m x
git branch --list -D x
git branch -a new
git tag v1
git tag -d v1
git remote add x y
git remote show origin
git remote update
git config user.name
git config --list
git -c core.pager=sh log
git -C .. status
git --git-dir=x status
git --exec-path=x status
git log --output=x
git log --outp=x
git diff --output x
git diff --ext-diff
git diff --no-index a b
git show --show-signature
git log --format=%G?
git grep -O sh x
git grep --open-files-in-pager=sh x
git reflog expire --all
git rev-parse --parseopt
git cat-file --textconv a
git cat-file --filters a
git worktree add x
git update-index --refresh
git ls-remote
git archive HEAD
git bisect start
git submodule update
git hash-object -w a
git symbolic-ref HEAD x
git blame --contents x a
cat /proc/self/environ
cat /proc/1/environ
cat //proc/1/environ
cat /./proc/1/environ
cat ../../../proc/1/environ
head /dev/zero
cat /sys/x
unknown-program
ls --unknown-flag
ls --color=never --hyperlink=always x --zero=1
cat -Z a
./ls
/bin/ls
echo a > b
echo hi >&2
cat <<EOF
cat <(ls)
""".strip("\n").split("\n")  # fmt: skip


@pytest.mark.parametrize("command", READ_ONLY)
def test_a_command_that_only_reads_is_proven(command: str) -> None:
    assert is_read_only(command)


@pytest.mark.parametrize(
    "command", [*NOT_PROVEN, "grep --include=*.py x", "ls\nrm x", "ls\rrm x", "ls\x00", "ls \x1b[2J", ""]
)
def test_anything_else_is_not_proven(command: str) -> None:
    assert not is_read_only(command)


def test_the_tables_are_large_enough_to_mean_something() -> None:
    assert len(READ_ONLY) > 60
    assert len(NOT_PROVEN) > 120


def test_a_very_long_command_is_not_looked_at() -> None:
    assert not is_read_only("echo " + "a" * 30_000)


def test_parts_keep_their_words_and_their_text() -> None:
    parts = plain_commands("git  commit -m 'a b' && ls|wc")
    assert parts is not None
    assert [(part.words, part.text, part.piped) for part in parts] == [
        (("git", "commit", "-m", "a b"), "git commit -m 'a b'", False),
        (("ls",), "ls", False),
        (("wc",), "wc", True),
    ]


@pytest.mark.parametrize("command", ["npm test 2>&1", "npm test >/dev/null 2>&1", "npm test 2> /dev/null | cat"])
def test_harmless_redirections_can_be_skipped(command: str) -> None:
    parts = plain_commands(command, redirections=True)
    assert parts is not None
    assert parts[0].text == "npm test"
    assert plain_commands(command) is None


@pytest.mark.parametrize(
    "command", ["npm test > out", "npm test 2>&1x", "npm test >/dev/nullx", "npm test > /dev/null/../x"]
)
def test_other_redirections_are_never_skipped(command: str) -> None:
    assert plain_commands(command, redirections=True) is None


@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "ls; rm x",
        "$(rm x)",
        "`rm x`",
        "bash -c 'rm x'",
        'bash -c "rm x"',
        "r'm' x",
        "r\\m x",
        "r\\\nm x",
        "{ rm x; }",
        "rm$IFS'x'",
        "(rm x)",
        "a | rm x",
        "a & rm x",
        "a\nrm x",
    ],
)
def test_the_loose_walk_sees_a_command_however_it_is_dressed(command: str) -> None:
    assert any(segment == "rm x" or segment.endswith(" rm x") for segment in loose_segments(command))


def test_loose_words_see_redirected_attached_and_revision_paths() -> None:
    assert ".env" in loose_words("cat < .env")
    assert ".env" in loose_words("git show HEAD:.env")
    assert ".env" in loose_words("tar --file=.env")


def test_tabs_and_line_feeds_are_no_control_characters() -> None:
    assert not has_control_characters("a\tb\nc")
    assert has_control_characters("a\x9bb")
