# Text corpora as domains: each is prepared by local/data.sh, and their sets are combined, with utt2domain. --corpus_dir
# is a folder with a folder for each domain: ted, captions and so on.

option domains 'ted=iwslt14 captions=multi30k news=wmt14 tatoeba=tatoeba' "domains and their corpora, as domain=corpus"
option direction de-en "direction of translation"

stage_data() {
    local word domain corpus_name test name source parts
    for word in $domains; do
        domain=${word%%=*} corpus_name=${word#*=} source=(--download)
        [[ -z $corpus ]] || source=(--corpus "$corpus" ${corpus_size:+--size "$corpus_size"})
        [[ -z $corpus_dir ]] || source=("$corpus_dir/$domain")
        # shellcheck disable=SC2086 # the options hold several words
        local/data.sh "$corpus_name" "${source[@]}" --download_dir "downloads/$corpus_name" \
            --output_dir "$data_dir/$domain" --nj "$nj" --pairs "$direction" $prepare_options
    done
    for name in train dev test; do
        parts=()
        for word in $domains; do
            domain=${word%%=*} test=$name
            [[ $word != *=multi30k || $name != test ]] || test=test_2016_flickr
            parts+=("$domain=$data_dir/$domain/$test")
        done
        espnet-diverse combine "${parts[@]}" --output_dir "$data_dir/$name"
    done
}
