#!/usr/bin/env bash
# The language of short sentences of Tatoeba; see README.md; `./run.sh --help` lists the options.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
. ./path.sh
. ./cmd.sh
. ../../common/recipe.sh

task=cls prepare_options='--pairs de-en en-de en-es en-fr --train_utterances 200'
parse_options "$@"
default config model/cls_bilstm,conf/demo.yaml \
    model/cls_bilstm,conf/train.yaml
run_stages
