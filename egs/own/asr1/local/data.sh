#!/usr/bin/env bash
# Prepare recordings listed in a table as data directories; `espnet-diverse prepare table --help` lists the options.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../path.sh"
espnet-diverse prepare table --on_bad drop "$@"
