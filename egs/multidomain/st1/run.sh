#!/usr/bin/env bash
# Speech translation in three domains: TEDx talks, read sentences, debates; see README.md; `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh
. ../domains.sh

task=st token_type='' average_number='' metric='bleu chrf' score_by='utt2domain utt2lang utt2tgtlang'
score_options='--zero_shot mtedx-it-en mtedx-it-es mtedx-pt-es'
parse_options "$@"
: "${europarl_options:=--pairs es-en es-fr es-it es-pt fr-en fr-es fr-pt it-en it-es pt-en pt-es}"
default config model/small,attention/softmax,heads/group,conf/domain.yaml,tag/target_language,conf/demo.yaml \
    model/transformer_12x6,attention/softmax,heads/group,conf/domain.yaml,tag/target_language,update/adam_inverse_sqrt_10k,conf/train.yaml
default token_type char unigram
default average_number 3 10
default covost2_options '' '--pairs es-en fr-en it-en pt-en ru-en'
[[ $token_type == char ]] || : "${vocab_size:=8000}"
run_stages
