# The stages that all recipes share. The run.sh of a recipe sources this file and calls `parse_options "$@"` and
# `run_stages`; to change a stage it defines the function stage_<name> again. README.md in egs/ describes the layout.
#
# A stage does not run its commands. It adds them to a plan, which `espnet-diverse plan` runs in one process, skipping
# finished ones. While the plan is made, `espnet-diverse` is therefore a shell function, exported so that
# local/data.sh calls it too. A stage that needs another program calls `note program arguments`.

set -f # words of options such as --test_sets are not expanded as file name patterns
caller=${OLDPWD:-$PWD} # run.sh changes to its own folder; --corpus_dir, --bert and --cluster are relative to the caller's

log() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { log "error: $*" && exit 1; }

options=() descriptions=() sets=() help=false defaults=false
# option NAME DEFAULT TEXT: define the variable NAME, which `--NAME VALUE` sets.
option() {
    options+=("$1")
    descriptions+=("$3")
    printf -v "$1" '%s' "$2"
}

stages=(data tokens stats train decode score)
option stage data "first stage, by name or number 1 to ${#stages[@]}: ${stages[*]}"
option stop_stage score "last stage"
option corpus_dir '' "folder of the unpacked official release; without --corpus_dir and --corpus the release is downloaded"
option corpus '' "'synthetic' generates a small synthetic corpus in the official layout and uses it"
option corpus_size '' "size of the synthetic corpus: demo or tiny (default: demo)"
option data_dir '' "folder of the prepared data, relative to the folder of run.sh; without it data, or data/synthetic for the synthetic corpus"
option task asr "asr, st for speech translation, mt for text translation, lm for a language model, or cls for classification of text"
option prepare_options '' "further options of espnet-diverse prepare, such as '--languages ar de'"
option config '' "configuration fragments joined by commas, files relative to the folder of run.sh; later ones override earlier ones"
option set '' "change of the configuration as key.sub=value; may be repeated"
option seed 0 "random seed of the training"
option tag '' "name of the experiment in exp/; by default made from data_dir or corpus, config, set, init_param and seed"
option init_param '' "pretrained parameters to start from, such as ../asr1/exp/x/valid.acc.ave.pth:encoder:encoder"
option speed_perturb '' "speed factors of the training set, such as '0.9 1.0 1.1'"
option token_type char "char, byte, bpe or unigram"
option vocab_size '' "number of bpe or unigram tokens"
option src_token_type '' "token type of the source text, src_text; without it source and target share one vocabulary (mt), or only the target has one (st)"
option src_vocab_size '' "number of bpe or unigram tokens of the source text"
option bert '' "pretrained source encoder, a folder or hf:owner/name; needs --src_token_type bert and model/bert_fusion"
option average_metric valid.acc "criterion that selects the epochs to average"
option average_number 3 "number of epochs to average"
option decode_config conf/decode.yaml "configuration fragments of the beam search"
option test_sets 'dev test' "data sets to decode and score"
option metric cer "metrics to compute, one or several of cer wer mer bleu compound_bleu chrf chrf++ ter bertscore"
option score_by '' "tables whose values become rows of the results, such as 'utt2lang utt2domain'"
option score_options '' "further options of espnet-diverse score, such as '--normalise wer'"
option nj "$(env -u OMP_NUM_THREADS nproc)" "number of parallel jobs"
option ngpu 0 "number of GPUs per machine, with one training process each"
option nproc 1 "number of training processes on the CPU per machine"
option num_nodes 1 "number of machines that train together; run this command on each, see docs/scale.md"
option node_rank 0 "number of this machine, from 0; machines other than 0 only train"
option rdzv_endpoint '' "HOST:PORT at which the other machines reach machine 0"
option train_options '' "further options of espnet-diverse train, such as '--allow_changed max_epoch'"
option cluster "${cluster-}" "cluster for preparation, statistics and decoding, such as slurm, or a YAML file; empty for this machine"
option dry_run false "only print the commands"

usage() { # defaults are the values that the recipe has assigned or that `default` has recorded
    local i name both shown
    printf 'usage: %s [--option value]...\n' "${0##*/}"
    for i in "${!options[@]}"; do
        name=${options[i]} both=default_${options[i]}
        shown=${!both-${!name}}
        printf -- '  --%-15s %s%s\n' "$name" "${descriptions[i]}" "${shown:+ (default: $shown)}"
    done
    printf -- '  --%-15s %s\n' defaults "print every option and its value, one a line with a tab between them, and exit"
}

show_values() { # for programs: the defaults, and the values of options that are given
    local name
    for name in "${options[@]}"; do printf '%s\t%s\n' "$name" "${!name}"; done
}

parse_options() {
    local name
    for name; do
        [[ $name != --help && $name != -h ]] || { help=true && return 0; } # run_stages shows it
    done
    while (($#)); do
        [[ $1 != --defaults ]] || { defaults=true && shift && continue; }
        name=${1#--}
        [[ $1 == --* && " ${options[*]} " == *" $name "* ]] || die "unknown option '$1'; known: ${options[*]/#/--}"
        if [[ $name == dry_run && ${2-} != true && ${2-} != false ]]; then
            set -- "$1" true "${@:2}" # --dry_run may have no value
        fi
        [[ $# -ge 2 && ($2 != --* || $name == *_options) ]] || die "option $1 has no value; write $1 VALUE; known: ${options[*]/#/--}"
        [[ -n $2 || $name != @(corpus_dir|data_dir|test_sets) ]] || die "--$name is empty; give a value, or leave it out"
        [[ $name != config || -z $config ]] || set -- "$1" "$config,$2" "${@:3}" # given twice: merged in order
        printf -v "$name" '%s' "$2"
        [[ $name != set ]] || sets+=("$2")
        [[ $name != corpus_dir || $2 == /* ]] || corpus_dir=$caller/$2
        [[ $name != bert || $2 == /* || ! -d $caller/$2 ]] || bert=$caller/$2
        [[ $name != cluster || $2 == /* || ! -f $caller/$2 ]] || cluster=$caller/$2
        shift 2
    done
}

# whole_number NAME LEAST WHAT: refuse a value that is not a whole number. In arithmetic, bash would run a command
# inside an array index; it also reads 08 as a wrong octal number.
whole_number() {
    [[ -z ${!1} || ${!1} =~ ^(0|[1-9][0-9]{0,8})$ && ${!1} -ge $2 ]] || die "--$1 '${!1}' is not $3; give $2, $(($2 + 1)) and so on"
}

# default NAME SYNTHETIC OFFICIAL: set an option that was not given, for the synthetic corpus or for any other data.
default() {
    local value=$3
    [[ -z ${!1} ]] || return 0
    [[ $corpus != synthetic ]] || value=$2
    if [[ $help == true ]]; then
        printf -v "default_$1" '%s' "${2:-none} for the synthetic corpus, else ${3:-none}"
    else
        printf -v "$1" '%s' "$value"
    fi
}

# Add one command to the plan, quoted so that Python's shlex reads it back.
note() {
    local word line='' quote="'\\''"
    for word; do
        [[ $word != *$'\n'* ]] || { echo "error: there is a line break in '$word'" >&2 && exit 1; }
        [[ $word =~ ^[A-Za-z0-9_./:=,@%+-]+$ ]] || word="'${word//\'/"$quote"}'"
        line+=" $word"
    done
    printf '%s\t%s\n' "$current_stage" "${line# }" >>"$plan"
}
espnet-diverse() { note espnet-diverse "$@"; }

stems() { tr , '\n' <<<"$1" | sed -E 's|.*/||; s|\.yaml$||' | paste -s -d _; } # a/b,./c.yaml -> b_c

stage_number() {
    local i
    for i in "${!stages[@]}"; do
        [[ $1 != "${stages[i]}" && $1 != $((i + 1)) ]] || { echo $((i + 1)) && return; }
    done
    die "unknown stage '$1'; known: ${stages[*]}, or 1 to ${#stages[@]}"
}

stage_data() {
    local source=(--download)
    [[ -z $corpus ]] || source=(--corpus "$corpus" ${corpus_size:+--size "$corpus_size"})
    [[ -z $corpus_dir ]] || source=("$corpus_dir")
    # shellcheck disable=SC2086 # speed_perturb and prepare_options hold several words
    local/data.sh ${dataset:+"$dataset"} "${source[@]}" --download_dir downloads --output_dir "$data_dir" \
        --speed_perturb ${speed_perturb:-1.0} --nj "$nj" ${cluster:+--cluster "$cluster"} $prepare_options
}
stage_tokens() {
    local name others=() texts=("$data_dir/train/text") source=(${src_vocab_size:+--vocab_size "$src_vocab_size"})
    [[ $src_token_type != bert ]] || source=(--bert "$bert")
    [[ $task != mt || -n $src_token_type || -n ${autoencoder-} ]] || texts+=("$data_dir/train/src_text")
    [[ ${pairs:-false} == false ]] || texts+=("$data_dir/train/src_text")
    for name in $test_sets; do others+=("$data_dir/$name/text"); done
    espnet-diverse tokens --text "${texts[@]}" --output_dir "$data_dir/tokens" --type "$token_type" \
        ${vocab_size:+--vocab_size "$vocab_size"} --coverage "${others[@]}"
    [[ -z $src_token_type ]] || espnet-diverse tokens --text "$data_dir/train/src_text" \
        --output_dir "$data_dir/src_tokens" --type "$src_token_type" "${source[@]}"
}
training_arguments() { # sets the array `training`, the options that stats and train share
    local change
    training=(--config "$config" --train_dir "$data_dir/train" --valid_dir "$data_dir/dev" --tokens_dir "$data_dir/tokens")
    [[ $task == asr ]] || training+=(--task "$task")
    [[ -z $src_token_type ]] || training+=(--src_tokens_dir "$data_dir/src_tokens")
    [[ -z $bert ]] || training+=(--set "frontend_conf.bert=$bert")
    for change in "${sets[@]}"; do training+=(--set "$change"); done
}
stage_stats() {
    training_arguments
    espnet-diverse stats "${training[@]}" --output_dir "$exp_dir/stats" ${init_param:+--init_param "$init_param"} \
        ${cluster:+--cluster "$cluster"}
}
stage_train() {
    local processes=(--ngpu "$ngpu")
    training_arguments
    [[ $nproc == 1 ]] || processes+=(--nproc "$nproc")
    [[ $num_nodes == 1 ]] || processes+=(--num_nodes "$num_nodes" --node_rank "$node_rank" --rdzv_endpoint "$rdzv_endpoint")
    # shellcheck disable=SC2086 # one word each
    espnet-diverse train "${training[@]}" --set "seed=$seed" --stats_dir "$exp_dir/stats" --output_dir "$exp_dir" \
        ${init_param:+--init_param "$init_param"} "${processes[@]}" $train_options
    [[ $node_rank == 0 ]] || return 0
    espnet-diverse average "$exp_dir" --metric "$average_metric" --number "$average_number"
}
stage_decode() {
    local name model=("$exp_dir" --model_file "$average_metric.ave.pth")
    for name in $test_sets; do
        if [[ $task == lm ]]; then
            espnet-diverse perplexity "${model[@]}" --data_dir "$data_dir/$name" --output_dir "$decode_dir/$name" \
                --results "$exp_dir/RESULTS.md" --device "$device"
        elif [[ $task == cls ]]; then
            espnet-diverse classify "${model[@]}" --data_dir "$data_dir/$name" --output_dir "$decode_dir/$name" \
                --results "$exp_dir/RESULTS.md" --device "$device"
        else
            espnet-diverse decode "${model[@]}" --config "$decode_config" --data_dir "$data_dir/$name" \
                --output_dir "$decode_dir/$name" --nj "$nj" --device "$device" ${cluster:+--cluster "$cluster"}
            [[ -z ${autoencoder-} ]] || espnet-diverse latent "${model[@]}" --data_dir "$data_dir/$name" \
                --output_dir "$decode_dir/latent/$name" --results "$exp_dir/RESULTS.md" --device "$device"
        fi
    done
}
stage_score() {
    local name
    [[ $task != lm && $task != cls ]] || return 0 # the decode stage has measured the perplexity, or the accuracy
    for name in $test_sets; do
        # shellcheck disable=SC2086 # metric, score_by and score_options hold several words
        espnet-diverse score --reference "$data_dir/$name/text" --hypothesis "$decode_dir/$name/text" \
            --output_dir "$decode_dir/$name" --metric $metric ${score_by:+--by $score_by} $score_options \
            --results "$exp_dir/RESULTS.md"
    done
    [[ $task == mt ]] ||
        espnet-diverse figure "$exp_dir" --data_dir "$data_dir/$name" --output_dir "$exp_dir/figures"
}

experiment_tag() { # such as aishell_small_sdma_train: the data, the fragments, changes, and the seed if it is not 0
    local name change
    name=${data_dir:-${corpus:-$corpus_dir}} name=${name%/}
    name=${name:+${name##*/}_}$(stems "$config")
    for change in "${sets[@]}"; do name+=_${change//[^A-Za-z0-9._=-]/}; done
    [[ -z $init_param ]] || name+=_init
    [[ $seed == 0 ]] || name+=_seed$seed
    echo "$name"
}

finish() { # keep the plan beside its results if there are any
    [[ $dry_run == true || ! -d $exp_dir ]] || cat "$plan" >"$exp_dir/plan.tsv"
    rm -f "$plan"
}

run_stages() {
    local first last number switches=(--cache_dir exp/.stamps --generated)
    [[ $config != *whisper_features* ]] || : "${init_param:=exp/whisper:encoder:frontend.encoder}"
    [[ $help == false ]] || { usage && exit 0; }
    [[ $defaults == false ]] || { show_values && exit 0; }
    whole_number ngpu 0 'a number of GPUs'
    whole_number nj 1 'a number of jobs'
    whole_number nproc 1 'a number of processes'
    whole_number num_nodes 1 'a number of machines'
    whole_number node_rank 0 'a number of a machine'
    whole_number seed 0 'a seed'
    whole_number average_number 1 'a number of epochs'
    whole_number vocab_size 1 'a number of tokens'
    whole_number src_vocab_size 1 'a number of tokens'
    [[ -z $corpus || -z $corpus_dir ]] || die "--corpus and --corpus_dir exclude each other; give one of them"
    [[ $node_rank == 0 ]] || stage=train stop_stage=train
    first=$(stage_number "$stage")
    last=$(stage_number "$stop_stage")
    ((first <= last)) || die "--stage $stage comes after --stop_stage $stop_stage; swap them"
    : "${tag:=$(experiment_tag)}" "${data_dir:=data${corpus:+/$corpus}}"
    device=cpu
    [[ $ngpu == 0 ]] || device=cuda
    exp_dir=exp/$tag decode_dir=exp/$tag/$(stems "$decode_config")
    [[ $dry_run == false ]] || switches+=(--dry_run)
    plan=$(mktemp)
    trap finish EXIT
    export plan current_stage
    export -f note espnet-diverse
    for ((number = first; number <= last; number++)); do
        current_stage=${stages[number - 1]}
        "stage_$current_stage"
    done
    unset -f espnet-diverse
    log "experiment $exp_dir, data $data_dir"
    espnet-diverse plan "$plan" "${switches[@]}"
}
