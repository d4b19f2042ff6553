#!/usr/bin/env bash
# Multilingual TEDx into Kaldi data directories; `espnet-diverse prepare mtedx --help` lists the options.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../path.sh"
# Some segments are up to a minute long; the paper's toolkit decodes up to that length.
espnet-diverse prepare mtedx --max_seconds 60 --on_bad drop "$@"
