import numpy as np
import pytest

from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.runs.condition_names import ConditionIndices, condition_table, fill_in, fill_in_without_data
from espnet_diverse.runs.config import merge
from espnet_diverse.training.config.early_check import check_early

GROUP = "encoder_conf.attention.selection={strategy: group}"
LISTED = "encoder_conf.attention.selection.conditions"
TAG = "decoder_conf.start_tag={by: tgtlang}"
BOTH = "decoder_conf.adapter={by: [lang, domain]}"


def write(data_dir, **tables):
    """A data directory of nothing but the given columns of tables."""
    data_dir.mkdir(exist_ok=True)
    for table, names in tables.items():
        lines = "".join(f"utt{number} {name}\n" for number, name in enumerate(names.split()))
        (data_dir / table).write_text(lines)
    return data_dir


@pytest.fixture
def data(tmp_path):
    train = write(tmp_path / "train", utt2lang="ru de ru ar", utt2domain="b a b b")
    return train, write(tmp_path / "valid", utt2lang="de", utt2domain="b")


def filled(data, *overrides):
    config = merge([], overrides)
    return fill_in(config, *data), config


def test_names_of_the_training_data_go_where_they_are_asked_for(data):
    conditions, config = filled(data, GROUP, TAG, BOTH, "encoder_conf.output_size=4")
    languages, domains = ["ar", "de", "ru"], ["a", "b"]
    assert conditions == ["domain", "lang", "tgtlang"]
    assert config["model_conf"] == {"conditions": {"lang": languages, "tgtlang": languages, "domain": domains}}
    selection = {"strategy": "group", "by": ["lang"], "conditions": {"lang": languages}}
    assert config["encoder_conf"] == {"attention": {"selection": selection}, "output_size": 4}
    assert config["decoder_conf"] == {
        "start_tag": {"by": ["tgtlang"], "conditions": {"tgtlang": languages}},
        "adapter": {"by": ["lang", "domain"], "conditions": {"lang": languages, "domain": domains}},
    }


def test_without_data_names_come_from_the_configuration():
    static = (
        "decoder_conf.attention.selection={strategy: static, families: [[a, b], [c]], default_condition: {lang: c}}"
    )
    config = merge([], [GROUP, f"{LISTED}={{lang: [x, y]}}", static, BOTH])
    fill_in_without_data(config)
    assert config["encoder_conf"]["attention"]["selection"]["conditions"] == {"lang": ["x", "y"]}
    assert config["decoder_conf"]["attention"]["selection"]["conditions"] == {"lang": ["a", "b", "c"]}
    assert config["decoder_conf"]["adapter"]["conditions"] == {"lang": ["?"], "domain": ["?"]}
    with pytest.raises(ConfigError, match=r"decoder_conf.start_tag: by must be .* but is 'tongue'"):
        fill_in_without_data(merge([], ["decoder_conf.start_tag={by: tongue}"]))


@pytest.mark.parametrize("option", ["conditions: [ru, ar]", "default_condition: ru"])
def test_non_mapping_conditions_are_refused_without_data(option):
    with pytest.raises(ConfigError, match=option.partition(":")[0] + " must be a .*, such as {lang: "):
        check_early([], ["encoder=diverse_transformer", f"{GROUP[:-1]}, {option}}}"], "asr")


def test_a_language_model_has_parts_by_condition_too(data):
    conditions, config = filled(data, "lm_conf.attention.selection={strategy: group}")
    selection = {"strategy": "group", "by": ["lang"], "conditions": {"lang": ["ar", "de", "ru"]}}
    assert conditions == ["lang"] and config["lm_conf"] == {"attention": {"selection": selection}}


@pytest.mark.parametrize(
    "override", ["encoder_conf.adapter=null", "encoder_conf.attention.selection={strategy: none, by: lang}"]
)
def test_a_model_without_such_parts_needs_no_table(tmp_path, override):
    empty = write(tmp_path / "data")
    conditions, config = filled((empty, empty), override)
    assert conditions == [] and config == merge([], [override])


def test_the_target_language_is_the_language_unless_the_text_is_a_translation(data):
    train, _ = data
    assert condition_table(train, "tgtlang") == train / "utt2lang"
    (train / "src_text").touch()
    assert condition_table(train, "tgtlang") == train / "utt2tgtlang"
    with pytest.raises(DataError, match=r"depends on tgtlang, but .*/train has no table utt2tgtlang; add it"):
        filled(data, TAG)
    write(train, utt2tgtlang="en en en en")
    with pytest.raises(DataError, match=r"valid/utt2lang: utt0: tgtlang 'de' is unknown; known: en"):
        filled(data, TAG)


def test_the_validation_set_needs_the_tables_too(data):
    (data[1] / "utt2lang").unlink()
    with pytest.raises(DataError, match="depends on lang, but .*/valid has no table utt2lang; add it, or change `by`"):
        filled(data, "encoder_conf.adapter={by: lang, bottleneck: 4}")


def test_the_user_may_order_and_extend_no_names(data):
    _, config = filled(data, GROUP, TAG, "model_conf.conditions={lang: [ru, ar, de]}")
    assert config["encoder_conf"]["attention"]["selection"]["conditions"] == {"lang": ["ru", "ar", "de"]}
    assert config["model_conf"]["conditions"] == {"lang": ["ru", "ar", "de"], "tgtlang": ["ar", "de", "ru"]}


@pytest.mark.parametrize(
    ("overrides", "error", "said"),
    [
        (
            [GROUP, f"{LISTED}={{lang: [ru, fr]}}"],
            ConfigError,
            r"attention\.selection: conditions lists 'fr', which has no training data; .*utt2lang has: ar de ru",
        ),
        (
            [GROUP, "model_conf.conditions={lang: [ru, ar]}"],
            DataError,
            r"train/utt2lang: utt1: lang 'de' is unknown; known: ru ar",
        ),
        (
            [GROUP, "model_conf.conditions={lang: [ru, ar, de]}", f"{LISTED}={{lang: [ar, de, ru]}}"],
            ConfigError,
            r"conditions of lang are \['ar', 'de', 'ru'\] here and \['ru', 'ar', 'de'\] elsewhere; list the same",
        ),
        ([GROUP, "model_conf.conditions={lang: [ru, ru]}"], ConfigError, r"list of different .* is \['ru', 'ru'\]"),
        ([GROUP, "model_conf.conditions={lang: ru}"], ConfigError, "must be a list of different names .*, but is 'ru'"),
        (
            ["encoder_conf.adapter={by: language}"],
            ConfigError,
            r"encoder_conf\.adapter: by must be one or a list of lang tgtlang domain, but is 'language'",
        ),
        ([GROUP, f"{LISTED}=[ru, ar]"], ConfigError, r"conditions must be a mapping, such as .* but is \['ru', 'ar'\]"),
        (["encoder_conf.adapter={by: []}"], ConfigError, r"by must be .* but is \[\]"),
        (
            ["classifier=transformer", "classifier_conf={by: [domain], adapter: {by: lang, bottleneck: 4}}"],
            ConfigError,
            "classifier_conf.adapter: a classifier has no parts by condition, as `classify` gives it none",
        ),
    ],
)  # fmt: skip
def test_invalid_names_and_conditions_are_refused(data, overrides, error, said):
    with pytest.raises(error, match=said):
        filled(data, *overrides)


def test_the_error_names_file_and_line_of_the_part(data, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("encoder_conf:\n  adapter:\n    by: domain\n")
    (data[0] / "utt2domain").unlink()
    with pytest.raises(
        DataError, match=r"mine\.yaml:2: encoder_conf\.adapter: depends on domain, but .*train has no table"
    ):
        fill_in(merge([path]), *data)


def test_indices_stand_for_names():
    preprocess = ConditionIndices(lambda utterance, data: {"seen": list(data)}, {"lang": ["ar", "de"]})
    out = preprocess("utt0", {"text": "x", "lang": "de"})
    assert out["seen"] == ["text"] and out["lang"].tolist() == [1] and out["lang"].dtype == np.int64
    assert ConditionIndices(None, {"lang": ["ar"]})("utt0", {"text": "x"}) == {"text": "x"}
    with pytest.raises(DataError, match="utterance utt0: lang 'fr' is unknown; known: ar de"):
        preprocess("utt0", {"lang": "fr"})
