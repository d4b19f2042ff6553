#!/usr/bin/env bash
# The tiny synthetic Aishell recipe, trained by two processes: alone, and with Slurm, where data, statistics and decoding
# are by jobs of a cluster and training is a job of its own. All files must be the same. `make cluster-test` runs this
# beside the Slurm of slurm.sh.
#
#     tests/cluster/recipe.sh [CLUSTER]    (default: slurm; with another one training is no job)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$root/egs" "$root/conf" "$work"
cd "$work/egs/aishell/asr1"
export PATH=$root/.venv/bin:$PATH
recipe=(./run.sh --corpus synthetic --corpus_size tiny --tag tiny --nj 1 --nproc 2 --average_number 1
    --speed_perturb '0.9 1.0' --config 'model/tiny,attention/sdma,conf/demo.yaml' --set max_epoch=1)
cluster=(--cluster "${1:-slurm}")
train=()
if (($# == 0)); then
    train=(sbatch --wait --nodes 1 --cpus-per-task 2 --output "$work/train.log" ../../common/train.sbatch)
fi
made=(data exp/tiny/stats exp/tiny/decode)
weights=exp/tiny/valid.acc.ave.pth

"${recipe[@]}"
mkdir -p "$work/alone/exp"
mv data "$work/alone"
mv exp/tiny "$work/alone/exp"
"${recipe[@]}" --stop_stage stats "${cluster[@]}"
"${train[@]}" "${recipe[@]}" --stop_stage train || { cat "$work/train.log" && exit 1; }
"${recipe[@]}" "${cluster[@]}"
for folder in "${made[@]}"; do
    diff -r --exclude '*.log' --exclude decode.json "$work/alone/$folder" "$folder"
    echo "same: $(find "$folder" -type f | wc -l) files in $folder"
done
cmp "$work/alone/$weights" "$weights"
echo "same: $weights"
