"""Compound commands in both directions: loops, branches, groups, substitutions, variables, here-documents.

As in `shell_lines`, a line in the wrong half is a hole or an annoyance. The second half of each table puts every
construct around every body, so that nothing is judged differently because of what surrounds it.
"""

from __future__ import annotations

from tests.support.tables import cells

COMPOUND_READ_ONLY = cells(r"""
diff -u <(jq -r 'keys[]' a.json) <(jq -r 'keys[]' b.json) ¦ comm -12 <(sort a.txt) <(sort b.txt)
paste <(cut -d: -f1 a.txt) <(cut -d: -f1 b.txt) ¦ while read -r x; do echo "$x"; done < <(git ls-files)
for f in $(find src -name '*.py'); do head -1 "$f" | grep -q foo || echo "$f"; done
for f in $(find src -name '*.py' | sort | head -5); do wc -l $f; done
find src -type f | grep py | head -3 | xargs wc -l ¦ find src -type f | xargs -I{} head -2 {}
find src -type f | xargs -n1 awk 'NR==1' ¦ grep -rl foo src | xargs wc -l
git show --stat $(git rev-parse HEAD)
git log --oneline $(git rev-list --max-count=1 --before=2020-01-01 main)..HEAD
base=$(git merge-base main HEAD); git diff --stat $base
base=$(git merge-base origin/main HEAD) && git log --oneline "$base"..HEAD
[ "$(git rev-parse HEAD)" = abc ] && echo same ¦ for f in a{b,c}; do cat "$f"; done ¦ echo "$USER" "$SHELL"
ls; echo "exit: $?" ¦ exit $? ¦ { ls; pwd; } | head -5 ¦ { ls; pwd; } 2>/dev/null
if [ -f a.txt ]; then cat a.txt; else echo none; fi ¦ if ! grep -q foo a.txt; then echo missing; fi
if [ -f a.txt ] && [ -f b.txt ]; then diff a.txt b.txt; fi ¦ for i in $(seq 1 3); do echo "$i"; done
for f in a.py b.py; do wc -l $f; done ¦ for f in a.txt b.txt; do grep -n foo "$f" || true; done
for f in a.txt b.txt; do test -f "$f" || echo "no $f"; done
for f in src/*.py tests/*.py; do sed -n '1,5p' "$f"; done ¦ for d in src tests; do (cd "$d" && ls); done
for d in src tests; do echo "$d: $(ls "$d" | wc -l)"; done ¦ for f in "a.txt" 'b.txt'; do cat "$f"; done
for p in foo bar; do grep -c -e "$p" a.txt; done ¦ for f in a.txt; do if [ -s "$f" ]; then cat "$f"; fi; done
for f in *.txt; do case "$f" in a*) cat "$f";; *) echo skip;; esac; done
for f in src/*.py; do echo "$(basename "$f")"; done ¦ for f in src/*.py; do echo "${f##*/}"; done
for f in a.txt b.txt; do git log --oneline -1 -- "$f"; done ¦ for cmd in git python3; do command -v "git"; done
while IFS=, read -r x y; do echo "$x $y"; done < a.txt ¦ while IFS= read -r -d '' f; do echo "$f"; done < a.txt
ls | while read -r f; do [ -f "$f" ] && echo "$f"; done ¦ case "$PWD" in */src) echo src;; *) pwd ;; esac
[[ "$(git branch --show-current)" == main* ]] && echo main ¦ [[ $PWD =~ ^/home ]] || echo no
[[ 1 -lt 2 ]] && echo less ¦ [ -n "$(git status --porcelain)" ] && echo dirty
[ "$(wc -l < a.txt)" -gt 1 ] && echo long ¦ [ "$(git branch --show-current)" = main ] || echo other
echo "today: $(date +%F)" ¦ echo "$(cat a.txt | head -1)" ¦ echo "$(basename "$(pwd)")"
basename "$(git rev-parse --show-toplevel)" ¦ dirname "$(git rev-parse --git-dir)"
printf '%s\n' "$(git log -1 --format=%s)"
""")

COMPOUND_READ_ONLY += [
    *("cat <<EOF\nx\nEOF", "cat <<'EOF'\n$(rm x)\nEOF", 'cat <<"EOF"\n`rm x`\nEOF'),
    *("cat <<-'EOF'\n\tindented\n\tEOF", "cat <<'EOF' | grep a\na\nb\nEOF"),
    *("cat <<'EOF' | sort | head -1\nb\na\nEOF\nls", "cat <<'EOF' && ls\na\nEOF"),
    *("sort <<'EOF' 2>/dev/null\nb\na\nEOF", "wc -l <<'EOF'\na\nEOF\npwd"),
    *("while read -r l; do echo \"$l\"; done <<'EOF'\na\nb\nEOF", 'for f in a.txt b.txt\ndo\n  cat "$f"\ndone'),
    "if [ -f a.txt ]\nthen\n  cat a.txt\nelse\n  ls\nfi",
    '# look around\nfor f in *.py; do\n  # one file\n  wc -l "$f"\ndone',
    *("case a in\n  a)\n    ls\n    ;;\n  *)\n    pwd\n    ;;\nesac", "set -e\nls\npwd"),
    *("set -euo pipefail; ls | head -3", "set -o pipefail; ls | wc -l", "set -x; ls; set +x", "CI=1; ls"),
    *("export CI=1; ls", "export CI=1 NO_COLOR=1 && ls", "export NODE_ENV=test; pwd", "export CI=a.txt; cat $CI"),
    *("sleep 100", "sleep 2 && ls", "ls # rm -rf build", "ls; # rm -rf build\npwd", "cd src && ls && cd .."),
    *("find src -name '*.py' -exec wc -l {} +", "find src -type f -name '*.py' -exec cat {} \\;"),
    *("find . -type f -exec grep -l foo {} +", "find . -type f -not -path './.git/*' -exec head -1 {} \\;"),
    *("find src -type f -exec ls -l {} +", "find src -name '*.py' | xargs wc -l"),
    *("find src -name '*.py' -print | xargs wc -l", "find src -type f -name '*.py' | xargs grep -n foo"),
    *("find src -type f | xargs head -2", "find src -type f | xargs cat | wc -l"),
]

COMPOUND_NOT_PROVEN = cells(r"""
for f in *; do cat "/$f"; done ¦ x=a.txt; true && x=link; cat "$x"
x=a.txt; case a in a) x=link;; esac; cat "$x" ¦ for d in $PWD; do ls $d/..; done
for d in $PWD; do cat $d/../outside.txt; done ¦ for d in $HOME; do ls $d/..; done ¦ ls | tee >(cat)
ls > >(cat) ¦ diff <(curl x) a.txt ¦ cat <() ¦ sh <(cat a.txt) ¦ sed -f <(ls) a.txt ¦ awk -f <(ls) a.txt
cd <(ls) ¦ find . -newer <(ls) -delete ¦ while read x; do ls; done < <(rm a.txt)
while read x; do ls; done < <(ls > x) ¦ while read x; do rm "$x"; done < <(ls) ¦ bash < <(ls)
cat $(find folder) ¦ cat $(find src -name '*.py' -delete) ¦ cat $(find src | grep -o '/.*')
sort -o $(find src -name '*.py') ¦ jq $(find src -name '*.py') ¦ source $(find src -name '*.py')
for f in $(find src -name '*.py'); do cat "../$f"; done
for f in $(find src -name '*.py'); do cat "${f%.py}"; done
for f in $(find src -name '*.py'); do cat < "$f.x"; done ¦ for f in $(find src -name '*.py'); do cd "$f"; done
for f in $(find src -name '*.py'); do "$f"; done ¦ find src -type f | xargs -I{} cat ../{}
find src -type f | sed s/a/b/ | xargs cat ¦ find src -type f | grep -o x | xargs cat
find src -type f | head -c 3 | xargs cat ¦ grep -l foo a.txt | xargs sort -o
git show $(git log --format=%h --output=x) ¦ git diff --output=$(git rev-parse HEAD)
git diff -$(git rev-parse HEAD) ¦ git checkout $(git rev-parse HEAD)
git reset --hard $(git merge-base main HEAD) ¦ git branch $(git rev-parse HEAD) ¦ git tag $(git rev-parse HEAD)
git show $(git rev-parse -- --output=x) ¦ git show $(git rev-list --boundary HEAD)
git show $(git merge-base main HEAD):a.txt --output=x ¦ cd "$(git rev-parse --show-toplevel)/.."
echo ${#SECRET} ¦ x='$(id)'; echo "${x@P}" ¦ echo "${HOME:-$(rm x)}" ¦ ls "$HOME/.." ¦ cat $HOME/../etc/passwd
cat "$PWD/../outside.txt" ¦ cat "$PWD/link" ¦ ls "$(pwd)/.." ¦ sed "$(cat a.txt)" a.txt
awk "$(cat a.txt)" a.txt ¦ x=$(cat a.txt); [ $x ] ¦ x=$(cat a.txt); [ a -a "$x" y ]
x=$(cat a.txt); test "$x" a.txt ¦ x=$(cat a.txt); [[ "$x" -eq 1 ]] ¦ x=$(cat a.txt); echo $((x))
echo $((a[$(id)])) ¦ (( 1 + 1 )) ¦ (( x = 1 )) && ls ¦ [[ -v x ]] ¦ [[ a -lt $(id) ]] ¦ [[ a =~ $(rm x) ]]
[[ a =~ (b|$(rm x)) ]] ¦ [ -v x ] ¦ x=a; y=$z; cat "$y" ¦ x=/etc/passwd; cat $x ¦ x="-o y"; sort $x a.txt
x=-delete; find . $x ¦ x="a.txt -o y"; sort $x ¦ x='*'; cat $x ¦ x=$HOME; ls $x
x=a.txt; read x < link; cat "$x" ¦ x=a.txt; builtin read x < a.py; cat "$x"
x=a.txt; declare x=/etc/passwd; cat "$x" ¦ x=a.txt; unset x; cat "$x" ¦ x=a.txt; getopts a x; cat "$x"
if false; then x=a.txt; fi; cat "$x" ¦ for i in 1 2; do cat "$f"; f=/etc/passwd; done
f=a.txt; for i in 1 2; do cat "$f"; read -r f; done ¦ x=a; for i in 1 2; do cat "$x"; x="$x/.."; done
PATH=$PWD:$PATH; ls ¦ IFS=x ls ¦ PS4='$(rm x)'; set -x; ls ¦ export x ¦ export CI=$(id) ¦ export CI=1 PATH=.
export -n CI=1; ls ¦ export -f ls; ls ¦ export CI x; ls ¦ declare -x CI=1; ls ¦ export D=/etc; cat $D/shadow
export CI=link; cat $CI ¦ CI=a.txt; for i in 1 2; do cat $CI; export CI=link; done ¦ export CI=1 > out; ls
cd gone; export CI=1 && cat ../outside.txt ¦ cd gone; x=1 && cat ../outside.txt
cd gone; case a in esac && cat ../outside.txt ¦ cd gone || (x=1 && cat ../outside.txt)
x+=1 ¦ set -f; ls * ¦ set -o ¦ alias x='rm y' ¦ ls() { rm x; }; ls ¦ function ls { rm x; }; ls ¦ f() { ls; }; f
exec > out; ls ¦ coproc x { ls; } ¦ { ls & } ¦ for f in a; do ls & done ¦ while true; do ls; done
until false; do ls; done ¦ for ((i=0;i<3;i++)); do ls; done ¦ select x in a; do ls; done
for PATH in .; do ls; done ¦ for f in ~; do ls "$f"; done ¦ for f in /etc/*; do cat "$f"; done
for f in ../*; do cat "$f"; done ¦ for f in folder/*; do cat "$f"; done
for f in dash/*; do cd dash; sort "$f"; done ¦ for f in *.py; do sort -o "$f" a.txt; done
for f in *.py; do sed -i s/a/b/ "$f"; done ¦ for f in *.py; do cat "$f" > out; done
for f in a.txt -delete; do find . "$f"; done ¦ for f in a.txt /etc/passwd; do cat "$f"; done
for d in src ..; do ls "$d"; done ¦ for d in src ..; do (cd "$d" && ls); done
for d in src tests; do cd "$d"; ls; done ¦ for i in 1 2; do cd ..; done
for i in 1 2; do cd src; cat ../../outside.txt; done ¦ while read -r f; do cd "$f"; done < a.txt
while read -r f; do eval "$f"; done < a.txt ¦ while read -r f; do grep "$f" a.txt; done < a.txt
while read -r f; do printf "$f"; done < a.txt ¦ while read -r f; do echo "$f"; done < link
while PATH=. read -r x; do ls; done < a.txt ¦ find . -name '*.py' | while read -r f; do cat "$f"; done
case $(rm x) in a) ls;; esac ¦ case a in $(rm x)) ls;; esac ¦ case a in a) ls;& b) rm x;; esac
if false; then ls; elif rm x; then pwd; fi ¦ if [ -f a.txt ]; then cat a.txt; fi > out
if [ -f $(rm x) ]; then ls; fi ¦ ! ls > out ¦ ls | { sh; } ¦ cat a.txt | { read -r x; cat "$x"; }
echo "$(ls; rm x)" ¦ echo "$(ls > out)" ¦ echo "$(cd .. && ls)" ¦ echo "$(cat ../outside.txt)"
echo "$(cat link)" ¦ echo "$(< /etc/passwd)" ¦ echo "`rm x`" ¦ echo `ls` ¦ echo "$(bash -c ls)"
echo "$(eval ls)" ¦ echo "$($x)" ¦ ls "$(touch y)" ¦ cat <<< "$(rm x)" ¦ cat <<< x ¦ cd tests; ls; cd ..
head -n $((1+2)) a.txt ¦ for f in a.txt; do echo "${#f}"; done ¦ python3 <<< 'import os' ¦ ls > >(cat)
echo {1..3} ¦ echo $'a' ¦ echo $"a" ¦ echo !! ¦ echo "!x" ¦ cd "$(git rev-parse --show-toplevel)" && ls
cd "$HOME" && ls ¦ cd "$PWD/.." ¦ cd tests; ls; cd ..; cd .. ¦ cd src || cd ..; ls
cd src && ls; cd ..; cd ..; ls ¦ find . -exec sh -c 'cat {}' \; ¦ find . -type f -exec sort -o {} a.txt \;
find . -type f -exec sed -i s/a/b/ {} + ¦ find . -type f -exec grep -f {} a.txt \;
find .. -type f -exec cat {} + ¦ find -L . -type f -exec cat {} + ¦ find . -type f -fprint x -exec cat {} +
find . -name x -exec timeout 5 cat {} + ¦ find .. -name x | xargs wc -l
find . -name '*.py' | xargs sed -i s/a/b/ ¦ find src $(ls) | xargs wc -l ¦ x=..; find $x | xargs wc -l
cat < "$HOME/.ssh/id_rsa" ¦ timeout "$(cat a.txt)" ls ¦ git -C "$(cat a.txt)" status
x=/etc/passwd; true || x=a.txt && cat $x ¦ x=a.txt; true && x=/etc/passwd || x=a.txt; cat "$x"
x=a.txt; true && x=/etc/passwd && false && x=a.txt; cat "$x"
x=-n; true && x=--pre=./run.sh || x=-n; rg $x foo a.txt ¦ for _ in a.txt; do echo /etc/passwd; cat $_; done
x=1; echo $((x<<=3)); cat a$x ¦ x=8; echo $((x>>=3)); cat a$x
""")

COMPOUND_NOT_PROVEN += [
    *("cat <<EOF\n$(rm x)\nEOF", "cat <<EOF\n`rm x`\nEOF", "cat <<EOF\n$SECRET\nEOF", "cat <<EOF\na\\\nEOF"),
    *("cat <<'EOF' > out\nx\nEOF", "cat <<'EOF' | bash\nrm x\nEOF", "cat <<'EOF' | xargs rm\nx\nEOF"),
    *("cat <<'EOF' && rm x\na\nEOF", "cat <<'EOF'; rm x\na\nEOF", "cat <<'EOF'\na\nEOF\nrm x"),
    *("cat <<'EOF'\na\n EOF\nEOF\nrm x", "cat <<'EOF'\nEOF x\nrm y\nEOF\nrm x", "cat <<'A' <<'B'\nx\nA\ny\nB"),
    *('cat <<E"O"F\nx\nEOF', "cat <<\\EOF\nx\nEOF", "bash <<'EOF'\nrm x\nEOF", "python3 - <<'EOF'\nimport os\nEOF"),
    *("while read -r l; do rm \"$l\"; done <<'EOF'\na\nEOF", "for f in a\ndo rm $f\ndone", "if true\nthen rm x\nfi"),
    *("ls # comment\nrm x", "for f in a; do # rm\nrm x; done", 'x=a.txt\ncat "$x"\ncat "$y"'),
    *("echo \"$(cat <<'EOF'\na\nEOF\nrm x\n)\"", "cat \"$(cat <<'EOF'\n/etc/passwd\nEOF\n)\""),
    "ls $(cat <<'EOF'\n-la /etc\nEOF\n)",
]

# ------------------------------------------------------------------------------------- every construct, every body

_CONSTRUCTS = (
    *("for f in a b; do {}; done", "for f in *.py; do {}; done", "if true; then {}; fi", "if {}; then ls; fi"),
    *("if false; then ls; else {}; fi", "if false; then ls; elif {}; then pwd; fi", "case x in x) {};; esac"),
    *("case x in y) ls;; *) {} ;; esac", "while read -r l; do {}; done < a.txt"),
    *("cat a.txt | while read -r l; do {}; done", "({})", "({}) 2>/dev/null", "ls | ({})", "{{ {}; }}"),
    *("{{ {}; }} 2>&1", "! {}", 'echo "$({})"', 'x=$({}); echo "$x"', '[ -n "$({})" ] && ls', "set -e; {}"),
    *("export CI=1; {}", "x=1; {} # note", "ls; {} || true"),
)
_SAFE_BODIES = (
    *("ls", "cat a.txt", "git status", "wc -l a.py", "grep -n foo a.txt", "cat a.txt | wc -l", "ls && pwd"),
    *("find . -name '*.py'", "sed -n 1,5p a.txt", "[ -d src ]", "head -3 src/*.py", "timeout 5 ls"),
)
_UNSAFE_BODIES = (
    *("rm x", "touch x", "ls > x", "cat link", "cat ../outside.txt", "cat /etc/passwd", "find . -delete"),
    *("sed -i s/a/b/ a.txt", "git push", "bash -c ls", "eval ls", ". ./a.py", "./run.sh", "sort -o x a.txt"),
    *('cat "$y"', "tee x", "ls | xargs rm", "python3 a.py", "PATH=. ls", "alias ls=rm", 'echo "$SECRET"', "exec ls"),
    *("cd ..", "npm test", "find . -exec rm {} +", "cat a.txt | sh"),
)

WRITTEN_READ_ONLY = tuple(COMPOUND_READ_ONLY)
COMPOUND_READ_ONLY += [construct.format(body) for construct in _CONSTRUCTS for body in _SAFE_BODIES]
COMPOUND_NOT_PROVEN += [construct.format(body) for construct in _CONSTRUCTS for body in _UNSAFE_BODIES]
