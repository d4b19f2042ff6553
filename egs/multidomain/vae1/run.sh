#!/usr/bin/env bash
# A variational autoencoder of text in several domains; see README.md; `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh
. ../text_domains.sh

task=mt autoencoder=true token_type=bpe average_metric=valid.loss average_number=1 metric='bleu chrf' score_by='utt2domain'
parse_options "$@"
default config model/mt_mini,model/shared_embeddings,attention/softmax,model/vae,update/adam_inverse_sqrt_800,conf/demo.yaml \
    model/mt_mini,model/shared_embeddings,attention/softmax,model/vae,update/adam_inverse_sqrt_800,conf/train.yaml
[[ $token_type == char ]] || default vocab_size 400 4000
run_stages
