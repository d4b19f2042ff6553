#!/usr/bin/env bash
# One of the three corpora, named by the first argument, into Kaldi data directories; ../domains.sh calls it for each.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../path.sh"
# Some segments of talks and debates are up to a minute long.
espnet-diverse prepare --max_seconds 60 --on_bad drop "$@"
