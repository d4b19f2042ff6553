#!/usr/bin/env bash
# Europarl-ST into Kaldi data directories; `espnet-diverse prepare europarl_st --help` lists the options.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../path.sh"
# Some sentences of a debate are long, and no utterance of the test set may be left out.
espnet-diverse prepare europarl_st --max_seconds 60 --on_bad drop "$@"
