#!/usr/bin/env bash
# Prepares the text corpus that the first argument names; empty or broken texts are dropped, listed and counted.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../path.sh"
espnet-diverse prepare --on_bad drop "$@"
