#!/usr/bin/env bash
# Classification of sentences and of pairs of sentences; see README.md; `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh

option dataset tatoeba "tatoeba, for the language of a sentence; snli, for pairs of sentences; yelp; or age"
task=cls token_type='' pairs=false
parse_options "$@"
few='--pairs de-en en-de en-es en-fr --train_utterances 200' large=model/cls_large,conf/large.yaml
case $dataset in
    tatoeba) default token_type char char && default prepare_options "$few" "$few" ;;
    snli) pairs=true large+=,conf/pairs.yaml && default config model/cls_bilstm,conf/demo.yaml,conf/pairs.yaml "$large" ;;
    yelp | age) default config model/cls_bilstm,conf/demo.yaml,conf/labels.yaml "$large,conf/labels.yaml" ;;
    *) die "--dataset '$dataset' is not known; give tatoeba, snli, yelp or age" ;;
esac
[[ $dataset == tatoeba ]] || { default data_dir "data/synthetic_$dataset" "data/$dataset" && default token_type char bpe; }
[[ $token_type == char ]] || default vocab_size 1000 20000
default config model/cls_bilstm,conf/demo.yaml \
    model/cls_bilstm,conf/train.yaml
run_stages
