#!/usr/bin/env bash
# One of the corpora, named by the first argument, into data directories of text; `espnet-diverse prepare CORPUS --help` lists the options.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../path.sh"
espnet-diverse prepare --on_missing drop "$@"
