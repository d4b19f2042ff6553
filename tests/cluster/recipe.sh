#!/usr/bin/env bash
# The tiny synthetic Aishell recipe, decoded by one process and by jobs of Slurm: all files must be the same.
# `make cluster-test` runs this beside the Slurm of slurm.sh.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$root/egs" "$root/conf" "$work"
cd "$work"
export PATH=$root/.venv/bin:$PATH
recipe=(egs/aishell/asr1/run.sh --corpus synthetic --corpus_size tiny --tag tiny --nj 1 --average_number 1
    --config 'model/tiny,attention/sdma,conf/demo.yaml' --set max_epoch=1)
run=egs/aishell/asr1/exp/tiny

"${recipe[@]}"
mv "$run/decode" alone
"${recipe[@]}" --stage decode --cluster conf/cluster/slurm.yaml
for name in text score failures.json score.json alignment.txt; do
    for file in alone/*/"$name"; do
        cmp "$file" "$run/decode/${file#alone/}"
        echo "same: ${file#alone/}"
    done
done
