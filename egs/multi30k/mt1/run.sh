#!/usr/bin/env bash
# Translation of picture descriptions on Multi30k; README.md explains, `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh

task=mt token_type=bpe average_number=5 metric='bleu chrf ter' score_by='utt2lang utt2tgtlang'
test_sets='dev test_2016_flickr test_2017_flickr'
parse_options "$@"
if [[ $corpus == synthetic ]]; then
    : "${config:=model/mt_tiny,attention/sdma,losses/sdma_text_half,conf/demo.yaml}"
    size=400
else
    : "${config:=model/mt_tiny,attention/sdma,losses/sdma_text_half,conf/train.yaml}"
    size=6000
fi
[[ $token_type == char ]] || : "${vocab_size:=$size}"
run_stages
