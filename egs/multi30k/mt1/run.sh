#!/usr/bin/env bash
# Translation of image descriptions on Multi30k; see README.md; `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh

task=mt token_type=bpe average_number=5 metric='bleu chrf ter' score_by='utt2lang utt2tgtlang'
test_sets='dev test_2016_flickr test_2017_flickr'
parse_options "$@"
default config model/mt_tiny,attention/best_text,conf/demo.yaml \
    model/mt_tiny,attention/best_text,conf/train.yaml
[[ $token_type == char ]] || default vocab_size 400 6000
run_stages
