#!/usr/bin/env bash
# Print the version and the path of a Python interpreter that is fit, or say in one line why there is none.
#
#     tools/find_python.sh VERSION...        such as 3.12 3.13; the first one is preferred
#
# If $PYTHON is set, only that one is looked at. Otherwise the first that is fit is taken from: pythonVERSION and
# python3 on PATH, the versions below `pyenv root`, what `uv python find` knows, what `uv python install` gets. Each is
# run, because a shim of pyenv may exist and fail. Fit means one of the versions, with the modules that make a virtual
# environment.
set -uo pipefail

(($#)) || { echo "usage: $0 VERSION..." >&2; exit 2; }
versions=("$@")
wanted="Python $(printf '%s or ' "$@")"
wanted=${wanted% or }
faults=()
# "t" marks an interpreter without the GIL, for which packages are built apart. Debian packs ensurepip apart.
probe='
import sys
print("%d.%d.%d" % sys.version_info[:3] + ("t" if "t" in getattr(sys, "abiflags", "") else ""))
sys.stdout.flush()
import venv, ensurepip'

# consider PATH: print the version and path of an interpreter and leave, or note its fault.
consider() {
    local said version complete=yes
    said=$("$1" -c "$probe" 2>/dev/null </dev/null) || complete=''
    for version in "${versions[@]}"; do
        [[ $said =~ ^"$version"\.[0-9]+$ ]] || continue
        [[ $complete ]] && { echo "$said $1"; exit; }
        faults+=("$1 has no venv or no ensurepip (Debian: python$version-venv)")
        return
    done
    faults+=("$1 ${said:+is }${said:-does not run}")
}

fail() {
    echo "error: $*" >&2
    exit 1
}

# find_uv: set `uv` to the one on PATH, or to one that pip installs into a temporary folder.
find_uv() {
    uv=$(type -P uv) && return
    folder=$(mktemp -d) || return
    trap 'rm -rf "$folder"' EXIT
    uv=$folder/bin/uv
    { python3 -m venv "$folder" && timeout 60 "$folder/bin/python" -m pip install uv; } &>/dev/null </dev/null ||
        { faults+=("no uv on PATH, nor can pip install it"); return 1; }
}

# consider_uv VERSION: consider what uv knows of a version, apart from virtual environments.
consider_uv() {
    local path
    if path=$(UV_PYTHON_DOWNLOADS=never "$uv" python find --system "$1" 2>/dev/null); then
        consider "$path"
    else
        faults+=("uv knows no $1")
    fi
}

if [[ ${PYTHON:-} ]]; then
    consider "$PYTHON"
    fail "PYTHON=${faults[0]}; $wanted is needed: give another one, or none to have one looked for"
fi

for name in "${versions[@]/#/python}" python3; do
    if path=$(type -P "$name"); then consider "$path"; else faults+=("no $name on PATH"); fi
done

pyenv=$(pyenv root 2>/dev/null) || pyenv=${PYENV_ROOT:-${HOME:-}/.pyenv}
for version in "${versions[@]}"; do
    mapfile -t paths < <(compgen -G "$pyenv/versions/$version.*/bin/python3" | sort --version-sort --reverse)
    for path in "${paths[@]}"; do consider "$path"; done
    ((${#paths[@]})) || faults+=("no $version in $pyenv/versions")
done

if find_uv; then
    for version in "${versions[@]}"; do consider_uv "$version"; done
    # Without a link in a folder on PATH, which nobody asked for.
    if UV_PYTHON_INSTALL_BIN=0 timeout 300 "$uv" python install "${versions[0]}" &>/dev/null; then
        consider_uv "${versions[0]}"
    else
        faults+=("uv cannot install ${versions[0]}")
    fi
fi
fail "no $wanted: $(printf '%s; ' "${faults[@]}")install one, or give its path: PYTHON=/path/to/python${versions[0]}"
