#!/usr/bin/env bash
# Make a virtual environment, unless its folder holds one with a Python of these versions; one of another is removed.
# The first line of output names the interpreter.
#
#     tools/make_venv.sh FOLDER VERSION...
#
# $PYTHON chooses the interpreter; otherwise find_python.sh, beside this file, finds one.
set -euo pipefail

find_python=$(dirname "$0")/find_python.sh
folder=$1
shift
found=''
if [[ ${PYTHON:-} ]]; then
    found=$("$find_python" "$@")
    set -- "$(cut -d. -f1,2 <<<"$found")" # an environment of another version is not the one that was asked for
fi
fault=''
if own=$(PYTHON=$folder/bin/python "$find_python" "$@" 2>&1); then
    found=$own
else
    found=${found:-$("$find_python" "$@")}
    fault=${own#error: PYTHON=}
fi
echo "Python ${found%% *}: ${found#* }"
if [[ $fault && -f $folder/pyvenv.cfg ]]; then
    echo "$folder is made again: ${fault%%;*}"
    rm -rf "$folder"
fi
"$folder/bin/python" -c "import pip" 2>/dev/null || "${found#* }" -m venv "$folder"
