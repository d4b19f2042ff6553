#!/usr/bin/env bash
# Text translation in several domains; see README.md; `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh
. ../text_domains.sh

task=mt token_type=bpe average_number=5 metric='bleu chrf' score_by='utt2domain'
parse_options "$@"
default config model/mt_tiny,attention/softmax,heads/group,conf/domain.yaml,conf/demo.yaml \
    model/mt_tiny,model/shared_embeddings,attention/softmax,heads/group,conf/domain.yaml,update/adamw_inverse_sqrt_4k,conf/train.yaml
[[ $token_type == char ]] || default vocab_size 400 16000
run_stages
