# Three corpora as three domains: each is prepared by local/data.sh, and their sets are combined, with utt2domain.
# --corpus_dir is a folder with the folders mtedx, covost2 and europarl_st.

option mtedx_options '' "further options of espnet-diverse prepare for mTEDx, such as '--languages de el'"
option covost2_options '' "further options of espnet-diverse prepare for CoVoST 2"
option europarl_options '' "further options of espnet-diverse prepare for Europarl-ST"

stage_data() {
    local domain name corpus_name more source parts
    for domain in mtedx covost2 europarl; do
        corpus_name=${domain/europarl/europarl_st} more=${domain}_options source=(--download)
        [[ -z $corpus ]] || source=(--corpus "$corpus" ${corpus_size:+--size "$corpus_size"})
        [[ -z $corpus_dir ]] || source=("$corpus_dir/$corpus_name")
        # shellcheck disable=SC2086 # the options hold several words
        local/data.sh "$corpus_name" "${source[@]}" --download_dir "downloads/$corpus_name" \
            --output_dir "$data_dir/$domain" --speed_perturb ${speed_perturb:-1.0} --nj "$nj" ${cluster:+--cluster "$cluster"} \
            ${!more} $prepare_options
    done
    for name in train dev test; do
        parts=()
        for domain in mtedx covost2 europarl; do parts+=("$domain=$data_dir/$domain/$name"); done
        espnet-diverse combine "${parts[@]}" --output_dir "$data_dir/$name"
    done
}
