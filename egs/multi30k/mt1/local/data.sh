#!/usr/bin/env bash
# Multi30k into data directories of text; `espnet-diverse prepare multi30k --help` lists the options.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../path.sh"
espnet-diverse prepare multi30k --case lower --on_bad drop "$@"
