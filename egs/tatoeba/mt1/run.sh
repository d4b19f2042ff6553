#!/usr/bin/env bash
# Many-to-one and one-to-many translation on Tatoeba; README.md explains, `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh

task=mt token_type=bpe average_number=5 metric='bleu chrf' score_by='utt2lang utt2tgtlang'
parse_options "$@"
if [[ $corpus == synthetic ]]; then
    : "${config:=model/mt_tiny,attention/softmax,conf/many_to_one.yaml,conf/demo.yaml}"
    size=1000
else
    : "${config:=model/mt_tiny,model/shared_embeddings,attention/softmax,conf/many_to_one.yaml,update/adamw_inverse_sqrt_4k,conf/train.yaml}"
    size=16000
fi
[[ $token_type == char ]] || : "${vocab_size:=$size}"
run_stages
