#!/usr/bin/env bash
# WMT17 Chinese–English into data directories of text; `espnet-diverse prepare wmt17 --help` lists the options.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../path.sh"
espnet-diverse prepare wmt17 --on_missing drop "$@"
