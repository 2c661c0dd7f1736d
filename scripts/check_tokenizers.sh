#!/usr/bin/env bash
# Compares the tokenizers with the libraries `tokenizers` and `sentencepiece` (PyPI) on many generated texts: ids and
# decoded texts must be equal. Needs the built target text_test.
# usage: scripts/check_tokenizers.sh [LINES [SEED]]     default: 10000 lines, seed 7
#   WARPTUNE_TEXT_TEST: the test program (default build/tests/text_test)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
lines=${1-10000}
seed=${2-7}
test=${WARPTUNE_TEXT_TEST:-build/tests/text_test}
if ! [[ $lines =~ ^[1-9][0-9]*$ && $seed =~ ^[0-9]+$ ]]; then
  echo "check_tokenizers: '$lines' lines with seed '$seed'; both must be integers" >&2
  exit 2
fi
if [[ ! -x $test ]]; then
  echo "check_tokenizers: $test is not here; build it with scripts/setup.sh text_test" >&2
  exit 2
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q install tokenizers==0.23.3 sentencepiece==0.2.3
"$folder/venv/bin/python" scripts/make_tokenizers.py "$folder/tokenizers" --lines "$lines" --seed "$seed" --vocab 1200
WARPTUNE_TEST_TOKENIZERS=$folder/tokenizers "$test" --gtest_filter='*/Tokenizers.*' --gtest_brief=1
echo "check_tokenizers: equal on $lines texts"
