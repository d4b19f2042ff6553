#!/usr/bin/env bash
# WikiText-103 into data directories of text; `espnet-diverse prepare wikitext103 --help` lists the options.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../path.sh"
espnet-diverse prepare wikitext103 --on_missing drop "$@"
