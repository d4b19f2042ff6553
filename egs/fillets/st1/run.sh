#!/usr/bin/env bash
# Translation of Czech and Dutch dialogue of Fish Fillets; see README.md; `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh

task=st token_type='' src_token_type=char metric='bleu chrf' score_by='utt2lang utt2tgtlang'
parse_options "$@"
default config model/small,attention/softmax,heads/group,tag/target_language,conf/demo.yaml \
    model/whisper_features,attention/softmax,heads/group,tag/target_language,conf/train.yaml
default token_type char unigram
[[ $token_type == char ]] || : "${vocab_size:=2000}"
run_stages
