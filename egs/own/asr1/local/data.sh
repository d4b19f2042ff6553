#!/usr/bin/env bash
# Recordings that a table lists into data directories; `espnet-diverse prepare table --help` lists the options.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../path.sh"
espnet-diverse prepare table "$@"
