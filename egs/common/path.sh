# Find the command espnet-diverse in the active environment, or else in the repository's .venv.
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
command -v espnet-diverse >/dev/null || export PATH=$repository/.venv/bin:$PATH
command -v espnet-diverse >/dev/null || {
    echo "error: espnet-diverse is not installed; run 'make demo' in $repository or activate its environment" >&2
    exit 1
}
