#!/usr/bin/env bash
# Renew hashes.txt: the packages of `make demo` and `make test` in the versions of constraints.txt, with the SHA-256 of
# each of their files. pip and uv read it: `pip install --require-hashes -r hashes.txt`, `uv pip install` likewise.
#
#     tools/renew_pins.sh [--upgrade]
#
# constraints.txt gets what it lacks, and with --upgrade the newest version of each package. $UV is the uv that asks the
# indexes that it is configured with; no address of one is written.
set -euo pipefail

cd "$(dirname "$0")/.."
case ${1:-} in
    '') pins=(-c constraints.txt) ;;
    --upgrade) pins=() ;;
    *) echo "$0: $1 is unknown; give --upgrade or nothing" >&2 && exit 1 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# compile FILE ARGUMENT...: what setup.py needs, without options, where uv writes the addresses of indexes.
compile() {
    local file=$1
    "${UV:-.venv/bin/uv}" pip compile --quiet --universal --python-version 3.12 --no-header --no-annotate "${@:2}" \
        setup.py | sed '/^--/d' >"$file"
    if grep '://' "$file" >&2; then
        echo "$0: these are addresses, and nothing is written; require versions in setup.py" >&2
        exit 1
    fi
}

compile "$work/all" ${pins[@]+"${pins[@]}"} --all-extras
sed 's/ *;.*//' "$work/all" | sort -u >"$work/constraints.txt"
compile "$work/hashes.txt" -c "$work/constraints.txt" --extra test --extra demo --generate-hashes
cp "$work"/*.txt .
