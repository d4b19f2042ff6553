#!/usr/bin/env bash
# AISHELL-1 into Kaldi data directories; `espnet-diverse prepare aishell --help` lists the options.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../path.sh"
# The release holds 325 recordings without a transcript: they are dropped, listed and counted.
espnet-diverse prepare aishell --on_missing drop "$@"
