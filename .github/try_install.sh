#!/usr/bin/env bash
# Installs a built wheel or sdist as a user would, into folders of its own, and uses it.
#   bash .github/try_install.sh pip|pipx|uv dist/agentcli-*.whl
set -euo pipefail
how=$1 package=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/tools"

case $how in
    pip)
        "$place/tools/bin/pip" install -q "$package"
        command="$place/tools/bin/agentcli"
        ;;
    pipx)
        "$place/tools/bin/pip" install -q pipx
        PIPX_HOME="$place/pipx" PIPX_BIN_DIR="$place/bin" "$place/tools/bin/pipx" install -q "$package"
        command="$place/bin/agentcli"
        ;;
    uv)
        "$place/tools/bin/pip" install -q uv
        UV_TOOL_DIR="$place/uv" UV_TOOL_BIN_DIR="$place/bin" UV_CACHE_DIR="$place/cache" \
            "$place/tools/bin/uv" tool install -q --python python3 "$package"
        command="$place/bin/agentcli"
        ;;
    *)
        echo "usage: $0 pip|pipx|uv PACKAGE" >&2
        exit 2
        ;;
esac

# Nothing of the person's own and nothing of the checkout takes part.
cd "$place"
unset PYTHONPATH ANTHROPIC_API_KEY ANTHROPIC_BASE_URL
export HOME="$place/home"
mkdir -p "$HOME"
"$command" --version
"$command" --help >/dev/null
"$command" doctor || true
"$command" demo --auto --speed 8
echo "$how: installed and used"
