#!/usr/bin/env bash
# Non-autoregressive translation on Multi30k; see README.md; `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh

task=mt token_type=bpe average_number=5 metric='bleu chrf ter' score_by='utt2lang utt2tgtlang'
test_sets='dev test_2016_flickr test_2017_flickr'
parse_options "$@"
default config model/mt_mini,model/shared_embeddings,attention/softmax,model/flow,conf/demo.yaml \
    model/mt_mini,model/shared_embeddings,attention/softmax,model/flow,update/adam_inverse_sqrt_800,conf/train.yaml
[[ $token_type == char ]] || default vocab_size 400 4000
run_stages
