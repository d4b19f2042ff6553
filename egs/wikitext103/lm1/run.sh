#!/usr/bin/env bash
# A language model on WikiText-103; see README.md; `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh

task=lm token_type='' average_metric=valid.loss average_number=5
parse_options "$@"
default config model/lm_tiny,conf/demo.yaml \
    model/lm_16x410,update/adamw_inverse_sqrt_4k,conf/train.yaml
default token_type char unigram
[[ $token_type == char ]] || : "${vocab_size:=32000}"
run_stages
