#!/usr/bin/env bash
# German–English translation on IWSLT14; see README.md; `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh

task=mt token_type=bpe src_token_type=bpe average_number=5 average_metric=valid.epoch metric='bleu chrf'
parse_options "$@"
default config model/mt_tiny,attention/sdma,losses/sdma_text_half,conf/demo.yaml \
    model/mt_base,attention/sdma,losses/sdma_text,update/adamw_inverse_sqrt_8k,conf/train.yaml
[[ $token_type == char ]] || default vocab_size 400 6632
[[ $src_token_type == char ]] || default src_vocab_size 400 8848
run_stages
