#!/usr/bin/env bash
# Prepares Tatoeba as sentences with their language; `espnet-diverse prepare tatoeba --help` lists the options.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../path.sh"
espnet-diverse prepare tatoeba --on_missing drop "$@"
