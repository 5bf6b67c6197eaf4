"""Shell lines in both directions. A line in the wrong half is a hole or an annoyance."""

from __future__ import annotations

from tests.support.tables import cells

READ_ONLY = cells(r"""
env ¦ printenv PATH ¦ awk '/foo/{print FILENAME": "$0}' src/*.py ¦ awk -F= -v n=2 '{print $n}' *.txt
jq -r --arg a b '.x' a.json *.json ¦ sed -n -e 1p -e 2p src/*.py a.txt ¦ unzip -l src/*.zip 2>/dev/null | head
tar tzf *.tar.gz ¦ wc -l {src,tests}/*.py ¦ grep -rnE 'a|b' --include=*.{ts,tsx} src ¦ git clean -ndx src
git apply --check -R a.diff ¦ git symbolic-ref --short HEAD ¦ git check-attr -a a.txt ¦ bash -n a.sh
sh -n ./a.sh ¦ bash --version ¦ node --check a.js ¦ ss -tlnp ¦ netstat -tlnp ¦ go env GOPATH ¦ join a.txt b.txt
tail -n +5 a.txt ¦ sort < src/app.py | uniq -c ¦ egrep -n 'a|b' a.txt ¦ fgrep -rl foo src ¦ rg --version
pwd -P ¦ echo "cost: \$5" ¦ : ¦ false || true ¦ printf '%s' x ¦ whoami ¦ id -u ¦ uname -a
date -d yesterday +%F ¦ df -h . ¦ du -h --max-depth=1 . ¦ stat -c %s a.txt ¦ file a.png ¦ which python3
type ls ¦ command -v git ¦ dirname /a/b ¦ realpath a ¦ readlink -f a ¦ cut -d' ' -f1 a.txt
echo x | tr ' ' '\n' ¦ diff -U 3 a.txt b.txt ¦ cmp a b ¦ comm -12 a.txt b.txt ¦ paste -sd, a.txt
column -t -s , a.csv ¦ fold -w 80 a.txt ¦ expand -t 4 a.txt ¦ nl -ba a.txt ¦ tac a.txt ¦ rev a.txt ¦ od -c a.txt
xxd -l 16 a.txt ¦ command cd src && ls ¦ hexdump -n 16 -C a.txt ¦ strings -n 8 a.png ¦ sha256sum a
md5sum a.txt b.txt ¦ sha1sum a.txt ¦ sha512sum a.txt ¦ b2sum a.txt ¦ cksum a.txt ¦ base64 -d a.txt ¦ seq -w 1 10
expr 1 + 2 ¦ echo '1+1' | bc ¦ factor 12 ¦ tree -a -I node_modules ¦ nproc ¦ arch ¦ hostname -f ¦ uptime
free -m ¦ lscpu ¦ ps -p 1 -o pid,comm ¦ ps --sort=-rss -ef ¦ pgrep -fl python ¦ lsof -i :3000 ¦ locale ¦ groups
getconf PAGE_SIZE ¦ sleep 1 ¦ exit 0 ¦ test -d src && echo yes ¦ [ -f a.txt ] && cat a.txt
[ "a" = "b" ] || echo differ ¦ rg -l foo | head ¦ find . ! -name '*.pyc' -type f
find . -name '*.py' -print0 | xargs -0 wc -l ¦ find . -name '*.py' | sort | head -20
find . -type f -print0 | xargs -0 grep -l foo ¦ find . -type f -name '*.txt' -print0 | xargs -0 cat
find src tests -type f -iname '*.py' -size 20k -print0 | xargs -0 head -5 ¦ git ls-files | xargs ls
ls | xargs -n 1 echo ¦ ls | xargs -I{} basename {} ¦ fd -e py ¦ git log --format="%H %s" -n 3
git log --follow -p a.txt ¦ git show --stat HEAD ¦ git branch --list 'feature-1' ¦ git branch --merged
git branch --merged main ¦ git tag -l 'v1' ¦ git remote -v ¦ git rev-parse --show-toplevel
git ls-tree -r HEAD --name-only ¦ git cat-file -p HEAD ¦ git blame -L 1,5 a.py ¦ git shortlog -sn HEAD
git stash show -p ¦ git reflog -5 ¦ git --no-pager log -1 ¦ git -C src log --oneline -3 ¦ git describe --tags
git grep -n foo ¦ git merge-base main HEAD ¦ git rev-list --count HEAD
git for-each-ref --sort=-committerdate --format='%(refname:short)' ¦ git show-ref --tags ¦ git worktree list
git check-ignore -v a.txt ¦ git count-objects -vH ¦ git config --get user.name
git diff-tree --no-commit-id --name-only -r HEAD ¦ cat a.json | jq -c '.items[]' ¦ python3 --version
python --version ¦ git --version ¦ npm --version ¦ pip list ¦ pip show requests ¦ pip freeze ¦ pip --version
cargo --version ¦ rustc --version ¦ go version ¦ gcc --version ¦ make --version ¦ java -version ¦ bash --version
docker --version ¦ ls || true ¦ ls missing 2>&1 | head -5 ¦ cat a.txt 2>/dev/null || echo none ¦ 2>/dev/null ls
echo "✓ done" ¦ ls # comment ¦ git diff -- src/*.py ¦ cd ./src && git status ¦ time -p ls
timeout 10s git status ¦ timeout -k 5 10 rg foo ¦ timeout --preserve-status 5 ls ¦ nice -n 10 ls ¦ nohup ls
stdbuf -oL ls ¦ env NO_COLOR=1 ls ¦ LC_ALL=C sort a.txt
""")

READ_ONLY += [
    *("ls\npwd", "ls\n\n\npwd\n", "# What is here?\nls -la\n# And there\ncat a.txt"),
    *("git log \\\n  --oneline \\\n  -5", "ls &&\npwd", "echo 'two\nlines'", "cat a.txt |\n  head -5"),
]

NOT_PROVEN = cells(r"""
env A=1 ¦ awk src/*.py ¦ awk -f *.awk ¦ awk '{print > FILENAME}' src/*.py ¦ jq --arg *.json . a.json
jq -f *.jq a.json ¦ jq --from-file src/*.jq ¦ sed -n -e *.py ¦ sed -i s/a/b/ src/*.py ¦ unzip *.zip
unzip -o src/*.zip ¦ tar xf *.tar ¦ cd dash && awk '{print}' * ¦ cd dash && unzip -l * ¦ cd dash && tar tf *
cd dash && jq . * ¦ cd dash && sed -n p * ¦ cd dash && find * ¦ cd dash && find * -type f -exec cat {} +
sed -n p *link ¦ jq . *link ¦ cat {../outside.txt,a.txt} ¦ cat {/etc/passwd,a.txt} ¦ find . -{delete,print}
sort {-o,a.txt} b.txt ¦ ls {a,{b,c}} ¦ {ls,-la} ¦ git clean -d ¦ git clean -nf ¦ git clean -ni
git clean -n --force ¦ git clean -n --interactive ¦ git clean -qn -e '*.log' -f ¦ git apply a.diff
git apply --check --apply a.diff ¦ git apply --check --index a.diff ¦ git apply --stat --cached a.diff
git apply --check --3way a.diff ¦ git apply --numstat --build-fake-ancestor=x a.diff
git apply --check --unsafe-paths a.diff ¦ git apply --check ../outside.txt ¦ git apply --exclude --check a.diff
git apply --directory --stat a.diff ¦ git apply -p --check a.diff ¦ git apply -Rp --check a.diff
git symbolic-ref -d HEAD ¦ git symbolic-ref -m x HEAD refs/heads/x ¦ git reflog expire --all
git reflog delete HEAD@{1} ¦ git fetch --dry-run ¦ wc -l < link ¦ python3 - < a.py ¦ rg --version --pre=x
git --help ¦ find . -name evil.sh | xargs -I ls timeout 5 ls ¦ find . -name evil.sh | xargs -Ils nice ls
find . -name evil.sh | xargs -I {} {} ¦ find . -printf '--files0-from=/etc/passwd\0' -print0 | xargs -0 wc
rg -l0 x | xargs -0 grep x ¦ diff -q . src ¦ git branch --format --list new ¦ git branch --contains --list new
git branch --points-at --list new ¦ git branch --no-merged -v --list new ¦ git tag --format --list new
git tag --sort --list new ¦ git tag --contains --list new ¦ git tag --points-at -l new
git branch --merged main new ¦ ps -opid,environ ¦ ps -o pid -o environ ¦ ps -p 1 -oenviron ¦ ps -o
ls > out.txt ¦ ls 3> x ¦ ls >&3 ¦ ls > $OUT ¦ ls > *.txt ¦ > out.txt ¦ ls > out -la ¦ ls & rm x ¦ ls $(rm x)
echo "$(rm x)" ¦ echo $[1+1] ¦ echo $'a' ¦ echo $"a" ¦ echo "$@" ¦ ls ~ ¦ A=1 ¦ GIT_PAGER=sh git log
LC_ALL=../x ls ¦ a[0]=1 ¦ for ((;;)); do ls; done ¦ while true; do ls; done ¦ until true; do ls; done
select x in a; do ls; done ¦ f() { ls; } ¦ function f { ls; } ¦ (( 1 + 1 )) ¦ test -v 'a[$(id)]' ¦ [ -v x ]
[ a -eq $(id) ] ¦ l\s ¦ ls |& cat ¦ ls ;; ls ¦ ; ls ¦ echo "!foo" ¦ exec > out ¦ set ¦ export ¦ export A=1
unset x ¦ cd ¦ cd .. ¦ cd /tmp && ls ¦ cd src && cat ../../outside.txt ¦ cd src | ls ¦ ls | cd src
env cd src && ls ¦ timeout 5 cd src && cat ../a.txt ¦ nice cd src ¦ ls | xargs sh -c 'echo'
cat list | xargs wc -l ¦ git ls-files -z | xargs -0 cat ¦ find . -print0 | xargs -0 sed -i s/a/b/
find . -print0 | xargs -0 sort -o x ¦ cat a.sh | bash ¦ cat evil.py | python ¦ cat evil.py | python3 -v
sudo ls ¦ timeout 5 rm x ¦ timeout rm x ¦ timeout -s KILL 5 sh ¦ nice rm x ¦ nohup rm x ¦ time rm x
stdbuf -oL rm x ¦ command rm x ¦ command -p ls ¦ cat a | tee b ¦ rmdir a ¦ curl http://x ¦ ssh host
npm --version; npm install ¦ awk 'BEGIN{system("rm x")}' ¦ awk '{print > "out"}' a ¦ awk -f x.awk a
awk '{print}' /inet/tcp/0/example.com/80 ¦ awk ¦ gawk --load x '{print}' a ¦ sed -i.bak s/a/b/ x
sed --in-place s/a/b/ x ¦ sed -ni p x ¦ sed -n '1e rm x' a ¦ sed -n '1,5p' -i a ¦ sed -f script a
sed 'r /etc/passwd' a ¦ sed '{p;w out ¦ jq -n '$ENV.HOME' ¦ jq -L . 'import "x" as x; .' a
jq '"x" | modulemeta' a ¦ tail -n 5 -f a ¦ sort -o out a ¦ sort -oout a ¦ sort --output=out a
sort --compress-program=sh a ¦ sort -T /x a ¦ sort --files0-from=x ¦ uniq -c a b ¦ xxd a.txt -p ¦ xxd 'a b' c
date -s now ¦ date --set=now ¦ find . -- -delete ¦ find . -exec rm {} \; ¦ find . -ok rm x \;
find . -fprint out ¦ find . -fls out ¦ find -L . -name x ¦ find . '-delete' ¦ find . "-exec" rm {} ";"
find . -files0-from x ¦ sort -- -o x ¦ git diff -- --output=x ¦ rg --pre=sh x ¦ rg --pre-glob x y ¦ rg -z x
rg -L x ¦ rg --follow x ¦ rg --hostname-bin=sh x ¦ rg -f patterns x ¦ rg --ignore-file=x y ¦ grep -rf patterns x
file -C -m x ¦ diff --to-file=x a ¦ lsof -D u ¦ lsof -i @example.org ¦ lsof -i@example.org:80
lsof -nPi TCP@example.org ¦ tree -Lo 1 x ¦ tree -Io x y ¦ strings -n @a.txt ¦ strings -e @a.txt a.py ¦ ps e
tar -xf a.tar ¦ tar -tf a.tar --to-command=sh ¦ tar -tf a.tar --checkpoint-action=exec=sh ¦ tar -I sh -tf a.tar
tar --list --file=a.tar --rsh-command=sh ¦ unzip -l -o a.zip ¦ exit foo ¦ printf -v x a ¦ printf 'abc%n' PATH
git ¦ git commit -m x ¦ git add . ¦ git push ¦ git pull ¦ git checkout x ¦ git switch x ¦ git restore x
git reset --hard ¦ git clean -fd ¦ git merge x ¦ git rebase x ¦ git cherry-pick x ¦ git revert x ¦ git am x
git stash show -p; git stash drop ¦ git branch -d x ¦ git branch -m x ¦ git branch --list -D x
git branch -a new ¦ git branch -f main HEAD~1 ¦ git branch --set-upstream-to=x ¦ git branch --edit-description
git tag -a v1 -m x ¦ git tag -l -d v1 ¦ git remote add x y ¦ git config --list
git config --get http.extraheader ¦ git -c alias.x='!sh' x ¦ git -ccore.pager=sh log ¦ git -C .. status
git -C src diff --output=x ¦ git --git-dir=x status ¦ git --work-tree=/ status ¦ git --exec-path=x status
git --config-env=x=y status ¦ git --paginate log ¦ git -p log ¦ git log --output=x ¦ git log --outp=x
git log --output x ¦ git diff --output x ¦ git diff --ext-diff ¦ git log -p --ext-diff
git show --ext-diff HEAD ¦ git log --textconv -p ¦ git diff --no-index a b ¦ git diff -O/etc/passwd
git show --show-signature ¦ git log --show-signature ¦ git log --format=%G? ¦ git log --pretty=%GG
git for-each-ref --format='%(signature)' ¦ git grep -O sh x ¦ git grep -Osh x
git grep --open-files-in-pager=sh x ¦ git grep -f x ¦ git reflog expire --all ¦ git rev-parse --parseopt
git cat-file --textconv a ¦ git cat-file --filters a ¦ git cat-file --batch ¦ git worktree add x
git update-index --refresh ¦ git update-ref x y ¦ git ls-remote ¦ git archive --output=x HEAD
git bundle create x ¦ git bisect start ¦ git bisect run sh ¦ git submodule update ¦ git hash-object -w a
git blame --contents x a ¦ git blame -S x a ¦ git ls-files -X x ¦ git ls-files --exclude-from=x ¦ git difftool
git mergetool ¦ git filter-branch ¦ git gc ¦ git init ¦ git clone x ¦ git daemon ¦ git help log ¦ git gui
git instaweb ¦ git send-email x ¦ git notes add ¦ git shortlog --output=x ¦ git lg ¦ git describe --dirty
find / -name x ¦ ls folder/* ¦ head folder/*.txt ¦ ls --color=never --hyperlink=always x --zero=1
cat a >(tee b) ¦ xxd * ¦ awk * a ¦ ls .* ¦ ls '[a]'? ¦ echo ** ¦ ls||rm x
""")

NOT_PROVEN += [
    "",
    "   ",
    "\n",
    "# only a comment",
    "ls\nrm x",
    "ls\n\nrm x",
    "ls\rrm x",
    "ls\r\npwd",
    "ls\x00",
    "ls \x1b[2J",
    "ls\x0bpwd",
    "ls \x7f",
    "ls \x9b",
    "ec\\\nho a",
    "cat a\\\nb",
    "ls # comment\nrm x",
    "ls #\\\nrm x",
    "echo \\\n$(rm x)",
    "bash <<EOF\nrm x\nEOF",
    "ls \ud800",
    "echo " + "a" * 30_000,
    "(" * 200 + "ls" + ")" * 200,
    "ls " + "a " * 5_000,
    "ls && " * 3_000 + "ls",
]

# Characters that look like others, or like nothing.
NOT_PROVEN += ["ls\u00a0-la", "git\u2003status", "ls\u3000-la", "ls \u2013la", "ls \u201ca\u201d", "rm\u200b x"]
NOT_PROVEN += ["echo a\u202eb", "echo 'a\u200bb'", "echo '\ufeffx'", 'echo "a\u2066b"', "ls \uff0dla", "cat a\u00adb"]
