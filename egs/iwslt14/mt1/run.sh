#!/usr/bin/env bash
# German–English translation on IWSLT14; README.md explains, `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh

task=mt token_type=bpe src_token_type=bpe average_number=5 average_metric=valid.epoch metric='bleu chrf'
parse_options "$@"
if [[ $corpus == synthetic ]]; then
    : "${config:=model/mt_tiny,attention/sdma,losses/sdma_text_half,conf/demo.yaml}"
    size=400 src_size=400
else
    : "${config:=model/mt_base,attention/sdma,losses/sdma_text,update/adamw_inverse_sqrt_8k,conf/train.yaml}"
    size=6632 src_size=8848
fi
[[ $token_type == char ]] || : "${vocab_size:=$size}"
[[ $src_token_type == char ]] || : "${src_vocab_size:=$src_size}"
run_stages
