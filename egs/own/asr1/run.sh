#!/usr/bin/env bash
# Speech recognition on your own recordings, listed in a table; see README.md; `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh

metric='cer wer'
parse_options "$@"
default config model/small,attention/best_speech,conf/demo.yaml \
    model/small,attention/best_speech,conf/train.yaml
default speed_perturb 1.0 '0.9 1.0 1.1'
run_stages
