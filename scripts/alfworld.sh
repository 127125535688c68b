#!/bin/sh
# Put ALFWorld's engine into .venv, which scripts/setup.sh has made. It is apart, since its planner is compiled for some minutes, with tools
# that not everybody has; tests need it, and who plays or trains on ALFWorld. What was built is kept in the user's cache, so that it is done
# once: neither a new clone nor `make clean` does it again.
#   alfworld.sh compilers   what compiles the planner, unless the packages are built already
#   alfworld.sh wheels      the packages, which needs no more than `setup.sh venv`
#   alfworld.sh             what is missing of both, and the installation
set -eu
cd "$(dirname "$0")/.."
VENV=$PWD/.venv
STAMP=$VENV/.alfworld
# Without the packages that only ALFWorld's other front ends need.
PINS=$(grep -E '^(alfworld|textworld|fast-downward-textworld|jericho|tatsu|hashids|mementos|more-itertools|termcolor)==' constraints.txt)
WANTED="$VENV $(printf '%s' "$PINS" | cksum)"

fail() {
    echo "alfworld: $1" >&2
    exit 1
}

pip() {
    "$VENV/bin/python" -m pip --disable-pip-version-check "$@"
}

has_compilers() {
    { command -v cmake && command -v make && command -v c++; } >/dev/null 2>&1
}

# Install what compiles the planner; true where it is there afterwards.
install_compilers() {
    command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ] || return 1
    echo "alfworld: installing cmake, make and g++ with apt-get"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends cmake make g++ libc6-dev; } >/dev/null || return 1
    has_compilers
}

# The folder of the built packages. The planner's file does not tell for which system it was compiled, so the folder's name does.
wheels() {
    system=$("$VENV/bin/python" -c 'import platform, sys; print(platform.machine(), *platform.libc_ver(), *sys.version_info[:2])')
    echo "${XDG_CACHE_HOME:-$HOME/.cache}/branchwise/wheels/alfworld-$(printf '%s' "$PINS $system" | cksum | cut -d ' ' -f 1)"
}

build() {
    echo "alfworld: building the engine (a few minutes, once: its planner is compiled)"
    mkdir -p "$(dirname "$WHEELS")"
    building=$(mktemp -d "$WHEELS.XXXXXX")
    trap 'rm -rf "$building"' EXIT
    trap 'exit 130' INT TERM
    # The planner's build asks for `python`, and it is the one of .venv that it must find.
    PATH=$VENV/bin:$PATH pip wheel -qq --no-deps --no-build-isolation -w "$building" $PINS ||
        fail "its packages could not be built; see pip's message above, then run make again"
    # It is whole or not there; what another set-up has put there in the meantime is as good.
    mv -T "$building" "$WHEELS" 2>/dev/null || [ -d "$WHEELS" ]
}

if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$WANTED" ]; then
    exit 0
fi
[ -x "$VENV/bin/python" ] || fail "there is no .venv yet; type: make alfworld"
WHEELS=$(wheels)
if [ ! -d "$WHEELS" ]; then
    has_compilers || install_compilers ||
        fail "cmake, make and a C++ compiler are missing; type: sudo apt-get install cmake make g++ (or install them as your system does)"
    [ "${1:-}" = compilers ] || build
fi
if [ -z "${1:-}" ]; then
    pip install -qq --no-deps --no-index --find-links "$WHEELS" $PINS ||
        fail "the engine could not be installed; type: rm -r $WHEELS, then run make again"
    printf '%s\n' "$WANTED" >"$STAMP"
    echo "alfworld: done"
fi
