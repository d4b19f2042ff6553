#!/usr/bin/env bash
# Recognition of Czech and Dutch dialogue of Fish Fillets; see README.md; `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh

metric='cer wer' score_by=utt2lang score_options='--normalise wer'
parse_options "$@"
default config model/small,attention/softmax,heads/group,tag/target_language,conf/demo.yaml \
    model/whisper_features,attention/softmax,heads/group,tag/target_language,conf/train.yaml
run_stages
