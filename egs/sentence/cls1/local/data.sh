#!/usr/bin/env bash
# Prepares sentences with their classes; `espnet-diverse prepare CORPUS --help` lists the options.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../path.sh"
espnet-diverse prepare --on_missing drop "$@"
