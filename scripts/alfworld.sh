#!/bin/sh
# Put ALFWorld's engine into .venv, which scripts/setup.sh has made. It is apart, since its planner is compiled for some minutes, with tools
# that not everybody has; tests need it, and who plays or trains on ALFWorld. What was compiled is kept, so that it is done once.
set -eu
cd "$(dirname "$0")/.."
VENV=$PWD/.venv
STAMP=$VENV/.alfworld
PINS=$(grep -E '^(alfworld|textworld|fast-downward-textworld|jericho|tatsu|hashids|mementos|more-itertools|termcolor)==' constraints.txt)
WANTED="$VENV $(printf '%s' "$PINS" | cksum)"
WHEELS=${XDG_CACHE_HOME:-$HOME/.cache}/branchwise/wheels

fail() {
    echo "alfworld: $1" >&2
    exit 1
}

has_compilers() {
    { command -v cmake && command -v make && command -v c++; } >/dev/null 2>&1
}

# Install what compiles the planner; true where it is there afterwards.
install_compilers() {
    command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ] || return 1
    echo "alfworld: installing cmake, make and g++ with apt-get"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends cmake make g++; } >/dev/null || return 1
    has_compilers
}

if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$WANTED" ]; then
    exit 0
fi
[ -x "$VENV/bin/pip" ] || fail "there is no .venv yet; type: make setup"
mkdir -p "$WHEELS"
echo "alfworld: installing the engine (a few minutes the first time, in which its planner is compiled)"
# The build asks for `python`, and it is the one of .venv that it must find.
PATH=$VENV/bin:$PATH
export PATH MAKEFLAGS="-j$(nproc 2>/dev/null || echo 1)"
planner=$(printf '%s\n' "$PINS" | grep '^fast-downward-textworld==')
if ! pip --disable-pip-version-check install -qq --no-deps --no-index --find-links "$WHEELS" "$planner" 2>/dev/null; then
    has_compilers || install_compilers ||
        fail "cmake, make and a C++ compiler are missing; type: sudo apt-get install cmake make g++ (or install them as your system does)"
    pip --disable-pip-version-check wheel -qq --no-deps --no-build-isolation -w "$WHEELS" "$planner" ||
        fail "the planner could not be compiled; see pip's message above, then run make again"
    pip --disable-pip-version-check install -qq --no-deps --no-index --find-links "$WHEELS" "$planner" ||
        fail "the planner could not be installed; see pip's message above, then run make again"
fi
# Without the packages that only ALFWorld's other front ends need.
pip --disable-pip-version-check install -qq --no-deps --no-build-isolation $PINS ||
    fail "ALFWorld could not be installed; see pip's message above, then run make again"
printf '%s\n' "$WANTED" >"$STAMP"
echo "alfworld: done"
