#!/usr/bin/env bash
# WMT14 into data directories of text; `espnet-diverse prepare wmt14 --help` lists the options.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../path.sh"
espnet-diverse prepare wmt14 --on_missing drop "$@"
