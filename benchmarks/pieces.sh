# What cpu.sh and gpu.sh share: their options, and a piece of work that is done once. They source this file.

set -u
trap 'exit 130' INT TERM
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-$here/../.venv/bin/python}
pieces=() known=() times=() left=()

fail() {
    echo "error: $*" >&2
    exit 2
}

# Read the options of the command line; `device`, `minutes` and the variables that --KEY VALUE may set have been set.
read_options() {
    output_dir='' compare='' tiny='' list=''
    while (($#)); do
        case $1 in
            --help) sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; exit ;;
            --tiny) tiny=yes; shift ;;
            --list) list=yes; shift ;;
            --check) [[ -v check ]] || fail "$(basename "$0") has no option $1; --help shows all"; check=yes; shift ;;
            --output_dir | --compare | --minutes | --device | --tatoeba)
                [[ -v ${1#--} || $1 = --output_dir ]] || fail "$(basename "$0") has no option $1; --help shows all"
                (($# > 1)) || fail "$1 needs a value"
                printf -v "${1#--}" %s "$2"
                shift 2 ;;
            -*) fail "$(basename "$0") has no option $1; --help shows all" ;;
            *) pieces+=("$1"); shift ;;
        esac
    done
    [[ $minutes =~ ^[1-9][0-9]*$ ]] || fail "--minutes $minutes is not a whole number above 0"
    [[ $list ]] && { output_dir=${output_dir:-DIR}; return; }
    [[ $output_dir || ${check:-} ]] || fail "give --output_dir, the folder of the results"
    [[ -x $python ]] || fail "no Python in $python; \`make test\` makes one, or name one by PYTHON="
    [[ -z $compare || -d $compare ]] || fail "--compare $compare: no such folder"
    [[ ${check:-} ]] || mkdir -p "$output_dir" || exit 2
}

# piece NAME RESULT COMMAND...: run a command, at most $minutes, unless its result is there. Its tables go to NAME.md;
# where it fails, what it said goes to NAME.log.
piece() {
    local name=$1 result=$2 status spent TIMEFORMAT='%0lR, %0lU of CPU'
    shift 2
    known+=("$name")
    ((${#pieces[@]})) && [[ " ${pieces[*]} " != *" $name "* ]] && return
    if [[ $list ]]; then
        printf '%s:%s\n' "$name" "$(printf ' %q' "$@")"
        return
    elif [[ -f $result ]]; then
        echo "$name: done before; remove $result to run it again"
        return
    fi
    echo "$name: begins"
    spent=$({ time limited "$@" >"$output_dir/$name.partial" 2>"$output_dir/$name.log"; } 2>&1)
    status=$?
    times+=("$name: $spent")
    if ((status == 0)) && [[ -f $result ]]; then
        mv "$output_dir/$name.partial" "$output_dir/$name.md"
        rm "$output_dir/$name.log"
        echo "$name: done in $spent"
        return
    fi
    left+=("$name")
    case $status in
        75) echo "$name: not finished, the next call continues" ;; # EX_TEMPFAIL
        124 | 137) echo "$name: stopped after $minutes minutes, see $output_dir/$name.log" >&2 ;;
        *) echo "$name: failed, see $output_dir/$name.log: $(tail -n 1 "$output_dir/$name.log")" >&2 ;;
    esac
}

# limited COMMAND...: run it for at most $minutes. `timeout` has a process group of its own, which Ctrl-C does not reach.
limited() {
    trap 'kill "$!"; exit 130' INT TERM
    timeout --kill-after 10 "${minutes}m" "$@" &
    wait "$!"
}

# benchmark NAME SCRIPT OPTIONS...: a piece that is a benchmark of this folder; compares with the file of --compare.
benchmark() {
    local name=$1 script=$2 earlier=()
    shift 2
    [[ $compare && -f $compare/$name.json ]] && earlier=(--compare "$compare/$name.json")
    piece "$name" "$output_dir/$name.json" "$python" "$here/$script" "$@" --output "$output_dir/$name.json" "${earlier[@]}"
}

# Say how long each piece took; the exit status is 0 if all that were asked for are done.
finish() {
    local name
    for name in "${pieces[@]}"; do
        [[ " ${known[*]} " = *" $name "* ]] || fail "there is no piece $name; the pieces are: ${known[*]}"
    done
    [[ $list ]] && exit
    ((${#times[@]})) && printf '%s\n' "${times[@]}"
    ((${#left[@]} == 0)) || { echo "not done: ${left[*]}; the same command continues with them" >&2; exit 1; }
}
