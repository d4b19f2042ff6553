#!/usr/bin/env bash
# Many-to-one and one-to-many translation on Tatoeba, WMT or messages of programs; see README.md; `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh

option dataset tatoeba "tatoeba, wmt_languages for the 14 languages of WMT of the head-selection paper, or catalogues for messages of programs"
task=mt token_type=bpe average_number=5 metric='bleu chrf' score_by='utt2lang utt2tgtlang'
parse_options "$@"
if [[ $dataset == wmt_languages ]]; then
    default config model/mt_tiny,attention/softmax,conf/many_to_one.yaml,conf/demo.yaml \
        model/mt_base,model/shared_embeddings,attention/softmax,conf/many_to_one.yaml,conf/wmt_languages.yaml
    default data_dir data/synthetic_wmt_languages data/wmt_languages
    [[ $token_type == char ]] || default vocab_size 1000 64000
fi
[[ $dataset =~ ^(tatoeba|wmt_languages|catalogues)$ ]] || die "--dataset '$dataset' is not known; give tatoeba, wmt_languages or catalogues"
[[ $dataset != catalogues ]] || default data_dir data/catalogues data/catalogues
default config model/mt_tiny,attention/softmax,conf/many_to_one.yaml,conf/demo.yaml \
    model/mt_tiny,model/shared_embeddings,attention/softmax,conf/many_to_one.yaml,update/adamw_inverse_sqrt_4k,conf/train.yaml
[[ $token_type == char ]] || default vocab_size 1000 16000
run_stages
