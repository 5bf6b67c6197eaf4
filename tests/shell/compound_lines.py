"""Compound commands in both directions: loops, branches, groups, substitutions, variables, here-documents.

As in `shell_lines`, a line in the wrong half is a hole or an annoyance. The second half of each table puts every
construct around every body, so that nothing is judged differently because of what surrounds it.
"""

from __future__ import annotations

COMPOUND_READ_ONLY = r"""
F=a.txt; cat "$F"
N=$(wc -l < a.txt); echo "$N"
for F in *.py; do wc -l "$F"; done
VERSION=1; echo "$VERSION"
cat <(ls)
diff <(ls) <(ls src)
diff <(sort a.txt) <(sort b.txt) || true
diff -u <(jq -r 'keys[]' a.json) <(jq -r 'keys[]' b.json)
comm -12 <(sort a.txt) <(sort b.txt)
wc -l <(ls) <(ls src)
grep -n foo <(cat a.txt b.txt)
paste <(cut -d: -f1 a.txt) <(cut -d: -f1 b.txt)
while IFS= read -r x; do ls; done < <(ls)
while read -r x; do echo "$x"; done < <(git ls-files)
head -5 "$(find . -name x)"
wc -l $(find src -name '*.py')
cat $(find src -type f)
head -1 $(ls src)
wc -l $(ls *.py)
head -3 $(ls *.md)
for f in $(find src -name '*.py'); do head -1 "$f"; done
for f in $(find src -name '*.py'); do echo "== $f"; cat "$f"; done
for f in $(find src -name '*.py'); do head -1 "$f" | grep -q foo || echo "$f"; done
for f in $(ls src); do echo $f; done
for f in $(find src -name '*.py' | sort | head -5); do wc -l $f; done
files=$(find src -name '*.py'); wc -l $files
find src -name '*.py' | sort | xargs head -1
find src -type f | grep py | head -3 | xargs wc -l
find src -type f | xargs -I{} head -2 {}
find src -type f | xargs sed -n 1p
find src -type f | xargs -n1 awk 'NR==1'
grep -rl foo src | xargs wc -l
grep -rl foo src | xargs grep -n def
git diff $(git merge-base main HEAD)
git diff --stat $(git merge-base main HEAD)..HEAD
git diff "$(git merge-base main HEAD)" HEAD -- src
git show --stat $(git rev-parse HEAD)
git show --stat $(git rev-parse --short HEAD~1)
git log --oneline $(git rev-list -n 1 HEAD)
git log --oneline $(git rev-list --max-count=1 --before=2020-01-01 main)..HEAD
base=$(git merge-base main HEAD); git diff --stat $base
base=$(git merge-base origin/main HEAD) && git log --oneline "$base"..HEAD
[ "$(git rev-parse HEAD)" = abc ] && echo same
for f in {a,b}; do ls; done
for f in a{b,c}; do cat "$f"; done
echo {a,b}
ls {a,b}.txt
cat a.{txt,py}
echo $HOME
echo "$HOME"
echo ${HOME}
echo "${HOME}"
echo "$PWD"
echo $PWD
ls "$PWD"
ls $PWD/src
cat "$PWD/a.txt"
echo "$USER" "$SHELL"
echo $PATH
echo $((1+1))
echo $((2 * (3 + 4)))
echo "$((10 % 3))"
echo $?
echo "exit: $?"
echo $#
ls; echo "exit: $?"
ls missing; echo $?
exit $?
! ls
! grep -q foo a.txt
! test -f missing && echo none
(ls)
(ls; pwd)
(cd src && ls)
(cd src && ls) && ls tests
(cd src; ls); ls
{ ls; }
{ ls; pwd; } | head -5
{ ls; pwd; } 2>/dev/null
{ cat a.txt; cat b.txt; } | sort
(ls; pwd) | wc -l
if true; then ls; fi
if [ -d tests ]; then ls tests; fi
if [ -f a.txt ]; then cat a.txt; else echo none; fi
if test -f missing; then cat missing; elif [ -d src ]; then ls src; else pwd; fi
if grep -q foo a.txt; then echo found; fi
if ! grep -q foo a.txt; then echo missing; fi
if ls | grep -q a.txt; then echo yes; fi
if [[ -f a.txt ]]; then wc -l a.txt; fi
if [ -f a.txt ] && [ -f b.txt ]; then diff a.txt b.txt; fi
for i in a; do ls; done
for i in 1 2 3; do echo $i; done
for i in {1..3}; do echo "$i"; done
for i in $(seq 1 3); do echo "$i"; done
for f in src/*.py; do wc -l "$f"; done
for f in *.py; do echo "== $f"; head -5 "$f"; done
for f in *.py; do echo $f; done
for f in a.py b.py; do wc -l $f; done
for f in a.txt b.txt; do echo "--- $f ---"; cat "$f"; done
for f in a.txt b.txt; do grep -n foo "$f" || true; done
for f in a.txt missing; do [ -f "$f" ] && echo "$f"; done
for f in a.txt b.txt; do test -f "$f" || echo "no $f"; done
for f in a b; do cat "$f.txt"; done
for f in a b; do cat "${f}.txt"; done
for f in src/*.py tests/*.py; do sed -n '1,5p' "$f"; done
for d in src tests; do ls "$d"; done
for d in src tests; do (cd "$d" && ls); done
for d in src tests; do echo "$d: $(ls "$d" | wc -l)"; done
for f in "a.txt" 'b.txt'; do cat "$f"; done
for p in foo bar; do grep -c -e "$p" a.txt; done
for f in a.txt; do if [ -s "$f" ]; then cat "$f"; fi; done
for f in *.txt; do case "$f" in a*) cat "$f";; *) echo skip;; esac; done
for f in src/*.py; do echo "$(basename "$f")"; done
for f in src/*.py; do echo "${f%.py}"; done
for f in src/*.py; do echo "${f##*/} ${#f}"; done
for f in a.txt b.txt; do git log --oneline -1 -- "$f"; done
for cmd in git python3; do command -v "git"; done
while read -r line; do echo "$line"; done < a.txt
while read line; do echo "$line"; done < a.txt
while IFS= read -r line; do echo "$line"; done < a.txt
while IFS=, read -r x y; do echo "$x $y"; done < a.txt
while IFS= read -r -d '' f; do echo "$f"; done < a.txt
cat a.txt | while read -r line; do echo "$line"; done
git ls-files | while read -r f; do echo "$f"; done
ls | while read -r f; do [ -f "$f" ] && echo "$f"; done
find . -name '*.py' | while read -r f; do echo "$(basename "$f")"; done
i=0; while read -r l; do i=$((i+1)); echo "$i: $l"; done < a.txt
case a in a) ls;; esac
case "$PWD" in */src) echo src;; *) pwd ;; esac
case x in a|b) ls;; (c) pwd;; *) echo other;; esac
[[ -f a.txt ]]
[[ -f a.txt ]] && cat a.txt
[[ -d src && ! -f x ]] && ls src
[[ a =~ b ]]
[[ "$(git branch --show-current)" == main* ]] && echo main
[[ $PWD =~ ^/home ]] || echo no
[[ 1 -lt 2 ]] && echo less
[[ -n "$(ls)" ]] && echo some
[ -n "$(git status --porcelain)" ] && echo dirty
[ "$(wc -l < a.txt)" -gt 1 ] && echo long
[ "$(git branch --show-current)" = main ] || echo other
echo "$(ls)"
echo "today: $(date +%F)"
echo $(date)
echo `date`
echo "`ls`"
echo "$(cat a.txt | head -1)"
echo "$(basename "$(pwd)")"
basename "$(git rev-parse --show-toplevel)"
dirname "$(git rev-parse --git-dir)"
printf '%s\n' "$(git log -1 --format=%s)"
printf 'files: %d\n' $(ls | wc -l)
x=1; echo $x
x=a.txt; cat "$x"
x=a.txt; cat $x
file=a.txt; wc -l "$file"; head -3 "$file"
dir=src; ls "$dir"
dir=src && ls "$dir"
FILE=src/app.py; wc -l "$FILE"
flags="-l -a"; ls $flags
x=$(ls); echo "$x"
x=$(git rev-parse HEAD); echo "at $x"
n=$(wc -l < a.txt); echo "$n lines"
count=0; for f in *.py; do count=$((count+1)); done; echo $count
name=app; cat src/$name.py
a=1 b=2; echo "$a $b"
x=src; ls "$x"/*.py
head -n $((1+2)) a.txt
cat <<EOF
plain text
EOF
""".strip("\n").split("\n")[:-3]  # fmt: skip

COMPOUND_READ_ONLY += [
    "cat <<EOF\nx\nEOF",
    "cat <<'EOF'\n$(rm x)\nEOF",
    'cat <<"EOF"\n`rm x`\nEOF',
    "cat <<-'EOF'\n\tindented\n\tEOF",
    "cat <<'EOF' | grep a\na\nb\nEOF",
    "cat <<'EOF' | sort | head -1\nb\na\nEOF\nls",
    "cat <<'EOF' && ls\na\nEOF",
    "sort <<'EOF' 2>/dev/null\nb\na\nEOF",
    "wc -l <<'EOF'\na\nEOF\npwd",
    "cat <<< x",
    "cat <<< 'two words'",
    'wc -w <<< "$(cat a.txt)"',
    "grep foo <<< foo",
    "while read -r l; do echo \"$l\"; done <<'EOF'\na\nb\nEOF",
    'while read -r l; do echo "$l"; done <<< "$(ls)"',
    'for f in a.txt b.txt\ndo\n  cat "$f"\ndone',
    "if [ -f a.txt ]\nthen\n  cat a.txt\nelse\n  ls\nfi",
    '# look around\nfor f in *.py; do\n  # one file\n  wc -l "$f"\ndone',
    "case a in\n  a)\n    ls\n    ;;\n  *)\n    pwd\n    ;;\nesac",
    "set -e\nls\npwd",
    "set -euo pipefail; ls | head -3",
    "set -o pipefail; ls | wc -l",
    "set -x; ls; set +x",
    "export CI=1; ls",
    "export CI=1 NO_COLOR=1 && ls",
    "export NODE_ENV=test; pwd",
    "CI=1; ls",
    "sleep 100",
    "sleep 2 && ls",
    "ls # rm -rf build",
    "ls; # rm -rf build\npwd",
    "cd tests && ls; cd ..",
    "cd tests; ls; cd ..",
    "cd tests && ls; cd .. && ls",
    "cd src && ls && cd ..",
    "find src -name '*.py' -exec wc -l {} +",
    "find src -type f -name '*.py' -exec cat {} \\;",
    "find . -type f -exec grep -l foo {} +",
    "find . -type f -not -path './.git/*' -exec head -1 {} \\;",
    "find src -type f -exec ls -l {} +",
    "find src -name '*.py' | xargs wc -l",
    "find src -name '*.py' -print | xargs wc -l",
    "find src -type f -name '*.py' | xargs grep -n foo",
    "find src -type f | xargs head -2",
    "find src -type f | xargs cat | wc -l",
]

COMPOUND_NOT_PROVEN = r"""
cat /$(ls)
for f in *; do cat "/$f"; done
cd src && cat "$PWD/../../outside.txt"
x=a.txt; (x=link); cat "$x"
x=a.txt; true && x=link; cat "$x"
x=a.txt; for i in 1 2; do cat "$x"; x=link; done
x=a.txt; case a in a) x=link;; esac; cat "$x"
x=link; for x in a.txt; do ls; done; cat "$x"
for f in a.txt link; do cat $f; done
for f in *link; do cat "$f"; done
for d in $PWD; do ls $d/..; done
for d in $PWD; do cat $d/../outside.txt; done
for d in $HOME; do ls $d/..; done
cat >(ls)
ls | tee >(cat)
ls > >(cat)
diff <(ls > x) <(ls)
diff <(ls | tee x) <(ls)
diff <(rm x) <(ls)
diff <(cat ../outside.txt) a.txt
diff <(curl x) a.txt
cat <(ls &)
cat <()
bash <(ls)
sh <(cat a.txt)
source <(ls)
. <(ls)
python3 <(cat a.txt)
sort -o <(ls) a.txt
xxd a.txt <(ls)
uniq a.txt <(ls)
sed -f <(ls) a.txt
sed <(ls) a.txt
awk -f <(ls) a.txt
awk <(ls) a.txt
jq <(ls) a.json
jq -f <(ls) a.json
git diff <(ls)
cp <(ls) x
cd <(ls)
find . -newer <(ls) -delete
x=<(ls)
while read x; do ls; done < <(rm a.txt)
while read x; do ls; done < <(ls > x)
while read x; do rm "$x"; done < <(ls)
bash < <(ls)
cat $(find folder)
cat $(ls -a linked)
cat $(find src -name '*.py' -printf '%p')
cat $(find src -name '*.py' -delete)
cat $(find src | sed s/a/b/)
cat $(find src | grep -o '/.*')
cat $(find src | head -c 5)
cat $(find src | cut -c 2-)
cat $(cat a.txt)
cat $(echo ../outside.txt)
rm $(find src -name '*.py')
sort -o $(find src -name '*.py')
sed -i s/a/b/ $(find src -name '*.py')
sed $(find src -name '*.py')
awk $(find src -name '*.py')
jq $(find src -name '*.py')
xxd $(find src -name '*.py')
uniq $(find src -name '*.py')
python3 $(find src -name '*.py')
$(find src -name '*.py')
source $(find src -name '*.py')
git checkout $(find src -name '*.py')
for f in $(find src -name '*.py'); do rm "$f"; done
for f in $(find src -name '*.py'); do cat "../$f"; done
for f in $(find src -name '*.py'); do cat "$f/../../../outside.txt"; done
for f in $(find src -name '*.py'); do cat "${f%.py}"; done
for f in $(find src -name '*.py'); do echo x > "$f"; done
for f in $(find src -name '*.py'); do cat < "$f.x"; done
for f in $(find src -name '*.py'); do cd "$f"; done
for f in $(find src -name '*.py'); do "$f"; done
find src -type f | xargs rm
find src -type f | xargs sed
find src -type f | xargs sed -i s/a/b/
find src -type f | xargs awk
find src -type f | xargs -I{} cat ../{}
find src -type f | xargs -I{} sh -c 'cat {}'
find src -type f | sed s/a/b/ | xargs cat
find src -type f | grep -o x | xargs cat
find src -type f | head -c 3 | xargs cat
grep -l foo a.txt | xargs sort -o
git diff $(git log -1 --format=%s)
git diff $(git log -1 --format=%an)
git show $(git log -1 --format=%h%s)
git show $(git log --format=%h --output=x)
git diff $(git merge-base main HEAD) --output=x
git diff --output=$(git rev-parse HEAD)
git diff -$(git rev-parse HEAD)
git checkout $(git rev-parse HEAD)
git reset --hard $(git merge-base main HEAD)
git branch $(git rev-parse HEAD)
git tag $(git rev-parse HEAD)
git show $(git rev-parse -- --output=x)
git show $(git rev-list --boundary HEAD)
git show $(git merge-base main HEAD):a.txt --output=x
cd $(git rev-parse --show-toplevel)
cd "$(git rev-parse --show-toplevel)"
cd "$(git rev-parse --show-toplevel)/.."
cat "$(git rev-parse --show-toplevel)/etc/passwd"
cat "$(git rev-parse --show-prefix)/etc/passwd"
echo $SECRET
echo "$OPENAI_API_KEY"
echo "${GITHUB_TOKEN}"
echo ${#SECRET}
echo "${SECRET%x}"
echo "${SECRET:0:3}"
echo ${!x}
echo "${!PREFIX*}"
echo "${x@P}"
echo "${PWD@P}"
x='$(id)'; echo "${x@P}"
x=1; echo ${x:=2}
echo "${HOME:-$(rm x)}"
echo "${HOME/x/$(rm x)}"
echo "$@"
echo $*
echo $1 "$2"
echo $!
echo $-
echo "$0"
echo $_
ls "$HOME"
ls $HOME
ls "$HOME/.."
cat $HOME/../etc/passwd
cat "$PWD/../outside.txt"
cat "$PWD/link"
ls "$(pwd)/.."
ls $(echo /etc)
cat "$(cat a.txt)"
ls -la "$(git rev-parse --show-toplevel)"
grep "$(cat a.txt)" b.txt
grep $(cat a.txt) b.txt
echo $(cat a.txt)
echo `cat a.txt`
find . $(cat a.txt)
sort $(echo -o x) a.txt
git log $(cat a.txt)
git diff "$(cat a.txt)"
sed "$(cat a.txt)" a.txt
awk "$(cat a.txt)" a.txt
sed -n "$x" a.txt
printf "$(cat a.txt)" x
printf "$x"
x=$(cat a.txt); cat "$x"
x=$(cat a.txt); ls $x
x=$(cat a.txt); sort $x
x=$(cat a.txt); echo $x
x=$(cat a.txt); [ $x ]
x=$(cat a.txt); [ "$x" y ]
x=$(cat a.txt); [ a -a "$x" y ]
x=$(cat a.txt); test "$x" a.txt
x=$(cat a.txt); [[ "$x" -eq 1 ]]
x=$(cat a.txt); [[ 1 -lt $x ]]
x=$(cat a.txt); echo $((x))
x=$(cat a.txt); echo $((x+1))
x='a[$(id)]'; echo $((x))
x='a[$(id)]'; [[ x -eq 1 ]]
x='a[$(id)]'; [[ $x -eq 1 ]]
echo $((a[$(id)]))
echo $((x=1))
echo $((x++))
echo $((`id`))
echo $(($(id)))
echo $[1+1]
(( 1 + 1 ))
(( x = 1 )) && ls
[[ -v x ]]
[[ -v 'a[$(id)]' ]]
[[ -R x ]]
[[ -o emacs ]]
[[ a -eq b ]]
[[ a -lt $(id) ]]
[[ a =~ $(rm x) ]]
[[ a =~ (b|$(rm x)) ]]
[[ -f $(rm x) ]]
test -v x
[ -v x ]
x=a; cat "$x" "$y"
x=a; y=$z; cat "$y"
x=..; cat $x/outside.txt
x=../outside.txt; cat "$x"
x=/etc/passwd; cat $x
x=link; cat $x
x=-o; sort $x y
x="-o y"; sort $x a.txt
x=-delete; find . $x
x="a.txt -o y"; sort $x
x='*'; cat $x
x=*; cat $x
x='*.py'; wc -l $x
x=~/y; cat $x
x=$HOME; ls $x
x=rm; $x y
x=ls; $x
x="ls -l"; $x
x=rm; "$x" y
x='rm y'; eval $x
x=1; eval "echo $x"
x=1; . ./a.py
x=a.txt; read x < link; cat "$x"
x=a.txt; builtin read x < a.py; cat "$x"
x=a.txt; command read x; cat "$x"
x=a.txt; printf -v x %s /etc/passwd; cat "$x"
x=a.txt; declare x=/etc/passwd; cat "$x"
x=a.txt; local x=/etc/passwd; cat "$x"
x=a.txt; typeset x=/etc/passwd; cat "$x"
x=a.txt; let x=1; cat "$x"
x=a.txt; unset x; cat "$x"
x=a.txt; mapfile x; cat "$x"
x=a.txt; readarray -t x; cat "$x"
x=a.txt; getopts a x; cat "$x"
x=a.txt; eval 'x=/etc/passwd'; cat "$x"
false && x=a.txt; cat "$x"
ls || x=a.txt; cat "$x"
if false; then x=a.txt; fi; cat "$x"
(x=a.txt); cat "$x"
echo a.txt | read x; cat "$x"
for x in; do ls; done; cat "$x"
cat "$x"; x=a.txt
for i in 1 2; do cat "$f"; f=/etc/passwd; done
f=a.txt; for i in 1 2; do cat "$f"; f=/etc/passwd; done
f=a.txt; for i in 1 2; do cat "$f"; f=../outside.txt; done
f=a.txt; for i in 1 2; do cat "$f"; read -r f; done
x=a; for i in 1 2; do cat "$x"; x="$x/.."; done
PATH=.; ls
PATH=$PWD:$PATH; ls
IFS=/; x=a/etc; cat $x
IFS=x ls
LD_PRELOAD=./x.so; ls
BASH_ENV=x; ls
ENV=x; ls
GIT_DIR=src; git status
GIT_PAGER=sh; git log
GIT_EXTERNAL_DIFF=x; git diff
PAGER=sh; git log
EDITOR=sh; ls
HOME=src; git status
PWD=/; ls
CDPATH=/; cd src
PYTHONPATH=.; python3 --version
NODE_OPTIONS=--require=./x; node --version
http_proxy=x; ls
npm_config_prefix=x; npm --version
PS4='$(rm x)'; set -x; ls
PROMPT_COMMAND=x; ls
SHELLOPTS=x; ls
POSIXLY_CORRECT=1; ls
RIPGREP_CONFIG_PATH=x; rg foo
GREP_OPTIONS=-f; grep x
TAR_OPTIONS=--to-command=sh; tar tf a.tar
MANPAGER=sh; ls
LESSOPEN='|rm x'; ls
TMPDIR=/; ls
OPTIND=1; ls
export PATH=.; ls
export LD_PRELOAD=x; ls
export GIT_PAGER=sh; git log
export x
export -f x
export -n x
export CI=$(id)
export CI=1 PATH=.
export
declare x=1
readonly x=1
unset PATH; ls
x+=1
x[0]=1; ls
x=(a b); ls "${x[0]}"
x=([0]=a); ls
set -a; ls
set -k; ls
set -f; ls *
set -- -o x; sort "$@"
set -o posix; ls
set
set -o
shopt -s extglob; ls
shopt -s expand_aliases; ls
alias ls=rm; ls
alias x='rm y'
ls() { rm x; }; ls
function ls { rm x; }; ls
f() { ls; }; f
trap 'rm x' EXIT; ls
trap 'rm x' DEBUG; ls
exec ls
exec > out; ls
coproc ls
coproc x { ls; }
ls & pwd
(ls &)
{ ls & }
for f in a; do ls & done
wait
while true; do ls; done
while :; do ls; done
until false; do ls; done
while ls; do pwd; done
while [ -f a.txt ]; do ls; done
while ! false; do ls; done
for ((i=0;i<3;i++)); do ls; done
for ((;;)); do ls; done
select x in a; do ls; done
for x do ls; done
for PATH in .; do ls; done
for IFS in x; do ls; done
for HOME in src; do git status; done
for LD_PRELOAD in x; do ls; done
for f in $(cat a.txt); do cat "$f"; done
for f in $x; do ls; done
for f in "$@"; do ls; done
for f in ~; do ls "$f"; done
for f in /etc/*; do cat "$f"; done
for f in ../*; do cat "$f"; done
for f in *; do cat "$f"; done
for f in link; do cat "$f"; done
for f in folder/*; do cat "$f"; done
for f in dash/*; do cd dash; sort "$f"; done
for f in *.py; do sort -o "$f" a.txt; done
for f in *.py; do rm "$f"; done
for f in *.py; do sed -i s/a/b/ "$f"; done
for f in *.py; do cat "$f" > "$f.bak"; done
for f in *.py; do cat "$f" > out; done
for f in *.py; do $f; done
for f in *.py; do ./$f; done
for f in *.py; do python3 "$f"; done
for f in *.py; do bash -c "cat $f"; done
for f in rm touch; do $f x; done
for f in a.txt -o; do sort "$f" y; done
for f in a.txt -delete; do find . "$f"; done
for f in a.txt /etc/passwd; do cat "$f"; done
for f in a.txt ../outside.txt; do cat "$f"; done
for d in src ..; do ls "$d"; done
for d in src ..; do (cd "$d" && ls); done
for d in src tests; do cd "$d"; ls; done
for d in src linked; do (cd "$d" && ls); done
for i in 1 2; do cd ..; done
for i in 1 2; do cd src; cat ../../outside.txt; done
while read -r f; do cat "$f"; done < a.txt
while read -r f; do wc -l "$f"; done < a.txt
while read -r f; do ls "$f"; done < a.txt
while read -r f; do ls $f; done < a.txt
while read -r f; do echo $f; done < a.txt
while read -r f; do $f; done < a.txt
while read -r f; do rm "$f"; done < a.txt
while read -r f; do cd "$f"; done < a.txt
while read -r f; do eval "$f"; done < a.txt
while read -r f; do bash -c "$f"; done < a.txt
while read -r f; do grep "$f" a.txt; done < a.txt
while read -r f; do printf "$f"; done < a.txt
while read -r f; do echo "$f"; done < link
while read -r f; do echo "$f"; done < ../outside.txt
while read -r f; do echo "$f"; done < /etc/passwd
while read -r f; do echo "$f"; done > out
while read -r PATH; do ls; done < a.txt
while read -r IFS; do ls; done < a.txt
while read -a x; do ls; done < a.txt
while read -u 3 x; do ls; done < a.txt
while read -r; do ls; done < a.txt
while read -r 'x[$(id)]'; do ls; done < a.txt
while PATH=. read -r x; do ls; done < a.txt
find . -name '*.py' | while read -r f; do cat "$f"; done
find . -name '*.py' | while read -r f; do wc -l "$f"; done
cat a.txt | while read -r f; do sh -c "$f"; done
case $(rm x) in a) ls;; esac
case a in $(rm x)) ls;; esac
case a in a) rm x;; esac
case a in a) ls;; *) rm x;; esac
case a in a) ls;& b) rm x;; esac
case a in a) ls > out;; esac
case "$SECRET" in a*) echo a;; esac
if rm x; then ls; fi
if true; then rm x; fi
if true; then ls; else rm x; fi
if false; then ls; elif rm x; then pwd; fi
if [ -f a.txt ]; then cat a.txt; fi > out
if [ -f $(rm x) ]; then ls; fi
! rm x
! ls > out
(rm x)
(ls; rm x)
(ls) > out
(cd ..; ls)
(cd / && ls)
(cat a.txt) > out
{ rm x; }
{ ls; } > out
{ ls; } >> a.txt
{ ls; rm x; } | cat
ls | { rm x; }
ls | (cat > out)
ls | { xargs rm; }
ls | { sh; }
ls | (bash)
cat a.txt | while read -r l; do rm "$l"; done
cat a.txt | { read -r x; cat "$x"; }
echo "$(rm x)"
echo "$(ls; rm x)"
echo "$(ls > out)"
echo "$(cd .. && ls)"
echo "$(cat ../outside.txt)"
echo "$(cat link)"
echo "$(< /etc/passwd)"
echo "$(<a.txt)"
echo "$(echo "$(rm x)")"
echo "`rm x`"
echo `rm x`
echo "`echo \`rm x\``"
echo "$(bash -c ls)"
echo "$(eval ls)"
echo "$($x)"
$(echo ls)
$(ls)
`ls`
"$(echo ls)"
x=$(rm y); echo "$x"
x=`rm y`; echo "$x"
x="$(touch y)"
x=$(ls) rm y
A=$(id) ls
ls "$(touch y)"
cat <<< "$(rm x)"
cat <<< $(touch x)
cat <<< "$SECRET"
bash <<< 'rm x'
sh <<< "$x"
xargs rm <<< x
xargs cat <<< /etc/passwd
python3 <<< 'import os'
cat < <(ls)
ls > >(cat)
tee >(cat) < a.txt
echo {1..3}
echo $'a'
echo $'\x41'
cat $'a.txt'
echo $"a"
echo ~
ls ~/x
echo ~root
cat !(a.txt)
cat @(a|b).txt
cat +(a).txt
echo !!
ls !$
echo "!x"
cd $x && ls
cd "$(git rev-parse --show-toplevel)" && ls
cd "$HOME" && ls
cd "$OLDPWD"
cd "$PWD/.."
cd src; cat ../outside.txt
cd tests; ls; cd ..; cd ..
cd missing; cd ..; ls
cd src || cd ..; ls
cd src && ls; cd ..; cd ..; ls
pushd src; ls; popd
find . -exec rm {} +
find . -exec rm {} \;
find . -exec sh -c 'cat {}' \;
find . -exec bash -c ls \;
find . -type f -exec sort -o {} a.txt \;
find . -type f -exec sed -i s/a/b/ {} +
find . -type f -exec grep -f {} a.txt \;
find . -type f -exec cat {} \; -delete
find . -type f -delete -exec cat {} \;
find . -type f -exec cat {} \; -exec rm {} \;
find . -type f -exec cat {}/../x \;
find . -type f -exec {} \;
find . -type f -exec ./{} \;
find . -execdir ls {} +
find .. -type f -exec cat {} +
find / -type f -exec cat {} +
find -L . -type f -exec cat {} +
find . -type f -exec env rm {} +
find . -type f -exec xargs rm {} +
find . -type f -fprint x -exec cat {} +
find . -name x -exec timeout 5 cat {} +
find .. -name x | xargs wc -l
find . -type f | xargs -I{} cat {}/..
find src | xargs -I{} wc -l {}/../../outside.txt
find src -print0 | xargs -0 -I{} wc -l {}/../../outside.txt
find . -name '*.py' | xargs sed -i s/a/b/
find . -name '*.py' | xargs rm
find . -name '*.py' | xargs sh -c 'rm x'
find src $(ls) | xargs wc -l
x=..; find $x | xargs wc -l
ls > "$x"
ls > $(echo out)
ls > "$PWD/out"
ls > $HOME/out
ls >> "$TMPDIR/x"
cat < "$x"
cat < $(echo a.txt)
cat < "$HOME/.ssh/id_rsa"
timeout $x ls
timeout "$(cat a.txt)" ls
env $x ls
env "$x" ls
nice $x
command $x
time $x
xargs $x
ls | xargs $x
git $x
git "$x" status
git -C "$x" status
git -C "$(cat a.txt)" status
git $(cat a.txt)
npm $x
python3 $x
python3 "$(cat a.txt)"
cat <<EOF
""".strip("\n").split("\n")  # fmt: skip

COMPOUND_NOT_PROVEN += [
    "cat <<EOF\n$(rm x)\nEOF",
    "cat <<EOF\n`rm x`\nEOF",
    "cat <<EOF\n$SECRET\nEOF",
    "cat <<EOF\na\\\nEOF",
    "cat <<'EOF' > out\nx\nEOF",
    "cat <<'EOF' | bash\nrm x\nEOF",
    "cat <<'EOF' | xargs rm\nx\nEOF",
    "cat <<'EOF' && rm x\na\nEOF",
    "cat <<'EOF'; rm x\na\nEOF",
    "cat <<'EOF'\na\nEOF\nrm x",
    "cat <<'EOF'\na\n EOF\nEOF\nrm x",
    "cat <<'EOF'\nEOF x\nrm y\nEOF\nrm x",
    "cat <<'A' <<'B'\nx\nA\ny\nB",
    'cat <<E"O"F\nx\nEOF',
    "cat <<\\EOF\nx\nEOF",
    "bash <<'EOF'\nrm x\nEOF",
    "python3 - <<'EOF'\nimport os\nEOF",
    "while read -r l; do rm \"$l\"; done <<'EOF'\na\nEOF",
    "for f in a\ndo rm $f\ndone",
    "if true\nthen rm x\nfi",
    "ls # comment\nrm x",
    "for f in a; do # rm\nrm x; done",
    'x=a.txt\ncat "$x"\ncat "$y"',
    "echo \"$(cat <<'EOF'\na\nEOF\nrm x\n)\"",
    "cat \"$(cat <<'EOF'\n/etc/passwd\nEOF\n)\"",
    "ls $(cat <<'EOF'\n-la /etc\nEOF\n)",
]

# ------------------------------------------------------------------------------------- every construct, every body

_CONSTRUCTS = (
    "for f in a b; do {}; done",
    "for f in *.py; do {}; done",
    "if true; then {}; fi",
    "if {}; then ls; fi",
    "if false; then ls; else {}; fi",
    "if false; then ls; elif {}; then pwd; fi",
    "case x in x) {};; esac",
    "case x in y) ls;; *) {} ;; esac",
    "while read -r l; do {}; done < a.txt",
    "cat a.txt | while read -r l; do {}; done",
    "({})",
    "({}) 2>/dev/null",
    "ls | ({})",
    "{{ {}; }}",
    "{{ {}; }} 2>&1",
    "! {}",
    'echo "$({})"',
    'x=$({}); echo "$x"',
    '[ -n "$({})" ] && ls',
    'cat <<< "$({})"',
    "set -e; {}",
    "export CI=1; {}",
    "x=1; {} # note",
    "ls; {} || true",
)
_SAFE_BODIES = (
    "ls",
    "cat a.txt",
    "git status",
    "wc -l a.py",
    "grep -n foo a.txt",
    "cat a.txt | wc -l",
    "ls && pwd",
    "find . -name '*.py'",
    "sed -n 1,5p a.txt",
    "[ -d src ]",
    "head -3 src/*.py",
    "timeout 5 ls",
)
_UNSAFE_BODIES = (
    "rm x",
    "touch x",
    "ls > x",
    "cat link",
    "cat ../outside.txt",
    "cat /etc/passwd",
    "find . -delete",
    "sed -i s/a/b/ a.txt",
    "git push",
    "bash -c ls",
    "eval ls",
    ". ./a.py",
    "./run.sh",
    "sort -o x a.txt",
    'cat "$y"',
    "tee x",
    "ls | xargs rm",
    "python3 a.py",
    "PATH=. ls",
    "alias ls=rm",
    'echo "$SECRET"',
    "exec ls",
    "cd ..",
    "npm test",
    "find . -exec rm {} +",
    "cat a.txt | sh",
)

WRITTEN_READ_ONLY = tuple(COMPOUND_READ_ONLY)
COMPOUND_READ_ONLY += [construct.format(body) for construct in _CONSTRUCTS for body in _SAFE_BODIES]
COMPOUND_NOT_PROVEN += [construct.format(body) for construct in _CONSTRUCTS for body in _UNSAFE_BODIES]
