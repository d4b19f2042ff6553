#!/usr/bin/env bash
# All figures of a GPU by one command, in pieces of at most 10 minutes.
#
#     benchmarks/gpu.sh --check                         # only the values of `check`; prints the table
#     benchmarks/gpu.sh --output_dir DIR                # all pieces; call again to continue where one was stopped
#     benchmarks/gpu.sh --output_dir DIR steps_1000 length   # some of them; --list shows all with their commands
#     benchmarks/gpu.sh --output_dir DIR --device cpu --tiny # the same at a tiny size, to see that all of them run
#
# Each piece writes DIR/NAME.json, with every measurement, and DIR/NAME.md, with the tables. A piece whose result is
# there is skipped. One that fails, or needs more than --minutes (10), leaves DIR/NAME.log, and the next begins; the
# exit status is 0 when all are done. --compare DIR shows the ratios of an earlier folder beside those of now.
#
#     check         values that kernels may break: rows without keys, all cores, memory that is not written to, TF32
#     modules       an attention module in bfloat16, T 200 to 8000
#     steps_T       training steps in bfloat16 with T frames after subsampling; ESPnet's takes too much memory at 8000
#     decoding      real-time factor with batches of 1, 8 and 64 utterances, and of ESPnet's search
#     translation   target tokens a second of text translation, and of ESPnet's mt_train
#     length        time and memory of an encoder from 10 seconds to 60 minutes of audio
#     base          the runs tatoeba_base of egs/reproduce.yaml, only where --tatoeba DIR names the corpus; each call
#                   continues with them for --minutes
#
# There is no fused kernel of the semantic mask yet: sdma in modules and steps is its form in PyTorch's operations.

source "$(dirname "$0")/pieces.sh"

device=cuda minutes=10 tatoeba='' check=''
read_options "$@"
if [[ $check ]]; then exec "$python" "$here/values.py" --device "$device"; fi

# base_runs: train, decode and score within the time of a piece; the table is the result when all runs are done.
base_runs() {
    local runs=("$here/../egs/reproduce.py" run --only 'tatoeba_base/*' --corpus "tatoeba=$tatoeba")
    [[ $device = cuda ]] && runs+=(--recipe_options '--ngpu 1')
    runs+=(--minutes "$((minutes > 1 ? minutes - 1 : 1))" --results "$output_dir/base.tsv.partial")
    piece base "$output_dir/base.tsv" \
        bash -c '"${@:2}" && cp "$1.partial" "$1"' base "$output_dir/base.tsv" "$python" "${runs[@]}"
}

benchmark check values.py --device "$device"
speech=(attention.py --device "$device" --dtype bfloat16)
if [[ $tiny ]]; then
    benchmark modules "${speech[@]}" --times 8 --tokens 16 --repeats 1
    benchmark steps_16 "${speech[@]}" --times --steps 1x1/32/64 --step_time 16 --utterances 2 --repeats 1
    benchmark decoding decoding.py --device "$device" --config model/tiny --characters 60 --lengths 1 --batches 1 8 64 \
        --utterances 4 --espnet_utterances 1 --repeats 1
    benchmark translation translation.py --device "$device" --use_amp --sentences 100 --characters 50 --tokens 200 \
        --batch_tokens 400 --repeats 1 --config model/mt_mini,attention/softmax,update/adam_inverse_sqrt_800
    benchmark length length.py --device "$device" --layers 1 --width 8 --heads 2 --units 8 --seconds 1 2 --repeats 1
else
    benchmark modules "${speech[@]}" --times 200 500 1000 2000 4000 8000 --tokens 16000
    for time in 200 1000 2000 4000; do
        benchmark "steps_$time" "${speech[@]}" --times --steps 12x6/256/2048 --step_time "$time" \
            --utterances "$((16000 / time))"
    done
    benchmark steps_8000 "${speech[@]}" --times --steps 12x6/256/2048 --step_time 8000 --utterances 2 \
        --contestants softmax sma sdma
    benchmark decoding decoding.py --device "$device" --batches 1 8 64 --utterances 64 --espnet_utterances 4 --repeats 2
    benchmark translation translation.py --device "$device" --use_amp --memory --tokens 100000 --batch_tokens 16384 \
        --config model/mt_base,attention/softmax,update/adam_inverse_sqrt_10k
    benchmark length length.py --device "$device" --units 2048 --quadratic_limit 3600 \
        --seconds 10 60 300 600 1800 3600 --cores espnet softmax window luna cdt
fi
if [[ $tatoeba ]]; then base_runs; fi
finish
