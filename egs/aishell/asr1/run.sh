#!/usr/bin/env bash
# Mandarin speech recognition on AISHELL-1; see README.md; `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh

parse_options "$@"
default config model/small,attention/sdma,conf/demo.yaml \
    model/transformer_6x6,attention/sdma,conf/learned_variance.yaml,update/adam_noam_25k,conf/train.yaml
default speed_perturb 1.0 '0.9 1.0 1.1'
run_stages
