#!/usr/bin/env bash
# The benchmarks of a CPU, one after another, each in one thread. `make bench` calls this.
#
#     benchmarks/cpu.sh --output_dir DIR                    # all pieces; call again to continue where it was stopped
#     benchmarks/cpu.sh --output_dir DIR decoding steps     # some of them; --list shows all with their commands
#     benchmarks/cpu.sh --output_dir NEW --compare DIR      # the ratios of an earlier folder beside those of now
#     benchmarks/cpu.sh --output_dir DIR --tiny             # the same at a tiny size, to see that all of them run
#
# Each piece writes DIR/NAME.json, with every measurement, and DIR/NAME.md, with the tables. A piece whose result is
# there is skipped. One that fails, or needs more than --minutes (60), leaves DIR/NAME.log, and the next begins; the
# exit status is 0 when all are done.
#
#     modules, steps              attention.py: attention modules, and training steps
#     decoding, decoding_mt       decoding.py: speech, and texts
#     translation, text_step      translation.py, with random sentences, and text_step.py
#     search_cores                search_cores.py: the search of texts with several attentions
#     head_selection, repulsion, classification, length     the benchmarks of these names
#     growth                      growth.py with 1,000 and 10,000 utterances; it has no ratios to compare
#
# streaming.py and hotwords.py need a trained model.

source "$(dirname "$0")/pieces.sh"

minutes=60
read_options "$@"
if [[ $tiny ]]; then
    step=(1x1/32/64 --repeats 1 --utterances 2)
    benchmark modules attention.py --times 8 --tokens 16 --repeats 1
    benchmark steps attention.py --times --step_time 16 --steps "${step[@]}"
    benchmark decoding decoding.py --config model/tiny --characters 60 --lengths 1 --batches 1 --utterances 1 \
        --espnet_utterances 1 --repeats 1
    benchmark decoding_mt decoding.py --task mt --config model/mt_mini --characters 60 --lengths 5 --batches 1 \
        --utterances 1 --espnet_utterances 1 --repeats 1
    benchmark translation translation.py --sentences 100 --characters 50 --tokens 200 --batch_tokens 400 --repeats 1 \
        --config model/mt_mini,attention/softmax,update/adam_inverse_sqrt_800
    benchmark text_step text_step.py --sentences 2 --time 5 --vocabulary 20 --repeats 1
    benchmark search_cores search_cores.py --sentences 2 --times 5 --vocabulary 20 --repeats 1 \
        --cores softmax lambda_attention random_features luna softmax+decoder_xl softmax+heads/group
    benchmark head_selection head_selection.py --times 8 --step_time 16 --languages 2 --steps "${step[@]}"
    benchmark repulsion repulsion.py --time 16 --size "${step[@]}"
    benchmark classification classification.py --units 4 --heads 3 --sentences 2 --time 5 --repeats 1
    benchmark length length.py --layers 1 --width 8 --heads 2 --units 8 --seconds 1 2 --repeats 1
    sizes=(10 20)
else
    benchmark modules attention.py --keep_memory
    benchmark steps attention.py --times --steps --keep_memory
    benchmark decoding decoding.py --repeats 2 --espnet_utterances 2
    benchmark decoding_mt decoding.py --task mt --repeats 2 --beam_size 5 --batches 1 8 32 --utterances 32
    benchmark translation translation.py --batch_tokens 1536 --tokens 16000 --keep_memory
    benchmark text_step text_step.py --keep_memory
    benchmark search_cores search_cores.py --keep_memory
    benchmark head_selection head_selection.py
    benchmark repulsion repulsion.py
    benchmark classification classification.py
    benchmark length length.py --seconds 10 60 --repeats 2
    sizes=(1000 10000)
fi
piece growth "$output_dir/growth.json" "$python" "$here/growth.py" --rows "${sizes[@]}" \
    --work_dir "$output_dir/growth.work" --output "$output_dir/growth.json"
finish
