#!/usr/bin/env bash
# The tiny synthetic Aishell recipe: data, statistics and decoding by one process and by jobs of Slurm. All files must
# be the same. `make cluster-test` runs this beside the Slurm of slurm.sh.
#
#     tests/cluster/recipe.sh [CLUSTER]    (default: conf/cluster/slurm.yaml)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$root/egs" "$root/conf" "$work"
cd "$work"
export PATH=$root/.venv/bin:$PATH
recipe=(egs/aishell/asr1/run.sh --corpus synthetic --corpus_size tiny --tag tiny --nj 1 --average_number 1
    --speed_perturb '0.9 1.0' --config 'model/tiny,attention/sdma,conf/demo.yaml' --set max_epoch=1)
cluster=(--cluster "${1:-conf/cluster/slurm.yaml}")
made=(data exp/tiny/stats exp/tiny/decode)

"${recipe[@]}"
cd egs/aishell/asr1
for folder in "${made[@]}"; do
    mkdir -p "$work/alone/$(dirname "$folder")"
    mv "$folder" "$work/alone/$folder"
done
cd "$work"
"${recipe[@]}" --stop_stage stats "${cluster[@]}"
"${recipe[@]}" --stage decode "${cluster[@]}"
for folder in "${made[@]}"; do
    diff -r --exclude '*.log' --exclude decode.json "alone/$folder" "egs/aishell/asr1/$folder"
    echo "same: $(find "alone/$folder" -type f | wc -l) files in $folder"
done
