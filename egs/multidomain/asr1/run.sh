#!/usr/bin/env bash
# Speech recognition in three domains: TEDx talks, read sentences, debates; see README.md; `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh
. ../domains.sh

token_type='' average_number='' metric='wer cer' score_by='utt2domain utt2lang' score_options='--normalise wer'
parse_options "$@"
default config model/small,attention/softmax,heads/group,conf/domain.yaml,tag/target_language,conf/demo.yaml \
    model/transformer_12x6,attention/softmax,heads/group,conf/domain.yaml,tag/target_language,update/adam_inverse_sqrt_10k,conf/train.yaml
default token_type char unigram
default average_number 3 10
[[ $token_type == char ]] || : "${vocab_size:=8000}"
run_stages
