#!/usr/bin/env bash
# Speech translation on Multilingual TEDx, thirteen directions; see README.md; `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh

task=st token_type='' src_token_type='' average_number='' metric='bleu chrf' score_by='utt2lang utt2tgtlang'
score_options='--zero_shot it-en it-es pt-es'
parse_options "$@"
default config model/small,attention/softmax,heads/group,tag/target_language,conf/demo.yaml \
    model/transformer_12x6,attention/softmax,heads/group,tag/target_language,update/adam_inverse_sqrt_10k,conf/train.yaml
default token_type char unigram
default src_token_type char ''
default average_number 3 10
[[ $token_type == char ]] || : "${vocab_size:=8000}"
run_stages
