#!/usr/bin/env bash
# Build the wheel of the commit, and its bill of materials in CycloneDX, into a folder.
#
#     tools/release.sh FOLDER
#
# The wheel has the same bytes wherever this commit is built with the setuptools of constraints.txt: its sources, their
# permissions and times are those of git. $PYTHON has the packages of constraints.txt.
set -euo pipefail

python=$(realpath -s "${PYTHON:-.venv/bin/python}")
mkdir -p "$1"
folder=$(realpath "$1")
cd "$(dirname "$0")/.."
sources=$(mktemp -d)
trap 'rm -rf "$sources"' EXIT
umask 022
git -c tar.umask=0022 archive HEAD setup.py pyproject.toml README.md LICENSE espnet_diverse conf | tar -xpC "$sources"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
"$python" -m pip wheel --quiet --no-index --no-deps --no-build-isolation --wheel-dir "$folder" "$sources"
for wheel in "$folder"/*.whl; do
    "$python" tools/sbom.py "$wheel" >"${wheel%.whl}.cdx.json"
    sha256sum "$wheel"
done
