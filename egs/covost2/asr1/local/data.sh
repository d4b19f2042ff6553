#!/usr/bin/env bash
# CoVoST 2 into Kaldi data directories; `espnet-diverse prepare covost2 --help` lists the options.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../path.sh"
# Later releases of Common Voice lack clips of the fourth, for which CoVoST 2 was made: they are dropped and listed.
espnet-diverse prepare covost2 --on_missing drop "$@"
