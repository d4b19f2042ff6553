#!/usr/bin/env bash
# IWSLT14 into data directories of text; `espnet-diverse prepare iwslt14 --help` lists the options.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../path.sh"
espnet-diverse prepare iwslt14 --case lower --on_bad drop "$@"
