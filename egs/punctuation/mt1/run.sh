#!/usr/bin/env bash
# Restores case and punctuation of recognised text; see README.md; `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh

task=mt token_type=bpe average_number=3 metric='wer cer'
parse_options "$@"
default config model/mt_tiny,attention/best_text,conf/demo.yaml \
    model/mt_mini,model/shared_embeddings,attention/best_text,update/adam_inverse_sqrt_800,conf/train.yaml
[[ $token_type == char ]] || default vocab_size 400 4000
run_stages
