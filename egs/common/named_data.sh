#!/usr/bin/env bash
# Prepares the corpus of texts that is named first; those that are empty or broken are dropped, listed and counted.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../path.sh"
espnet-diverse prepare --on_missing drop "$@"
