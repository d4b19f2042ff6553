#!/usr/bin/env bash
# Prepares a corpus for a task, both named by the folders of the recipe: egs/covost2/st1/local/data.sh, a link to this
# file, prepares covost2 for speech translation. Utterances with faults, such as empty audio, are dropped, listed
# and counted, up to 1 % of a set. A recipe that prepares its corpus with other options has its own local/data.sh.
set -euo pipefail
recipe=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$recipe/path.sh"
corpus=${recipe%/*}
options=(--on_bad drop)
[[ ${recipe##*/} != st* ]] || options=(--task st "${options[@]}")
espnet-diverse prepare "${corpus##*/}" "${options[@]}" "$@"
