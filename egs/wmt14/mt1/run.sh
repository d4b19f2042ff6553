#!/usr/bin/env bash
# English–German translation on WMT14; README.md explains, `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh

task=mt token_type=bpe average_number=5 average_metric=valid.epoch metric='bleu compound_bleu chrf'
parse_options "$@"
if [[ $corpus == synthetic ]]; then
    : "${config:=model/mt_tiny,attention/sdma,losses/sdma_text_half,conf/demo.yaml}"
    size=400
else
    : "${config:=model/mt_base,conf/base.yaml,model/shared_embeddings,attention/sdma,losses/sdma_text,update/adamw_inverse_sqrt_4k,conf/train.yaml}"
    size=43770
fi
[[ $token_type == char ]] || : "${vocab_size:=$size}"
run_stages
