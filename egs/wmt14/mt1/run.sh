#!/usr/bin/env bash
# English–German translation on WMT14; see README.md; `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh

task=mt token_type=bpe average_number=5 average_metric=valid.epoch metric='bleu compound_bleu chrf'
parse_options "$@"
default config model/mt_tiny,attention/sdma,losses/sdma_text_half,conf/demo.yaml \
    model/mt_base,conf/base.yaml,model/shared_embeddings,attention/sdma,losses/sdma_text,update/adamw_inverse_sqrt_4k,conf/train.yaml
[[ $token_type == char ]] || default vocab_size 400 43770
run_stages
