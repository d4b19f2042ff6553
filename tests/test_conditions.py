"""The table of conditions."""

from inspect import signature

import pytest

from espnet_diverse.bin.main import command_parser
from espnet_diverse.conditions import CONDITIONS, TABLES, as_arguments, base_language, known_value, values_by_condition
from espnet_diverse.inference import Recognizer, Translator


def test_each_condition_has_an_option_and_a_table():
    assert [condition.option for condition in CONDITIONS.values()] == ["--language", "--target_language", "--domain"]
    assert TABLES == ("utt2lang", "utt2tgtlang", "utt2domain")
    assert len({condition.label for condition in CONDITIONS.values()}) == len(CONDITIONS)


def test_values_are_found_under_the_names_of_their_arguments():
    assert values_by_condition({"language": "de", "target_language": "en", "domain": "news"}) == {
        "lang": "de",
        "tgtlang": "en",
        "domain": "news",
    }


def test_empty_values_and_other_arguments_are_ignored():
    assert values_by_condition({"language": None, "domain": "", "beam_size": "5", "lang": "de"}) == {}


def test_values_are_taken_from_arguments_and_given_back_as_arguments():
    arguments = {"language": "de", "target_language": None, "domain": "", "text": "x"}
    assert values_by_condition(arguments) == {"lang": "de"}
    assert as_arguments({"lang": "de", "domain": "read"}) == {"language": "de", "domain": "read"}


@pytest.mark.parametrize("function", [Recognizer.transcribe, Translator.translate])
def test_every_condition_is_an_argument_in_python(function):
    assert {condition.argument for condition in CONDITIONS.values()} <= set(signature(function).parameters)


@pytest.mark.parametrize("command", ["transcribe", "translate", "decode"])
def test_help_of_conditions_holds_for_speech_and_text(command):
    shown = " ".join(command_parser(command)[1].format_help().split())
    assert "language of the input: of the speech, or of the source text" in shown
    assert "language of the output text (default for asr: the input's)" in shown
    assert "domain of the recordings or texts" in shown


@pytest.mark.parametrize(
    ("given", "names", "known"),
    [
        *[(form, ["da", "no", "sv"], "no") for form in ("no", "NO", "no-NO", "nb_NO", "nob", "nor", "Norwegian")],
        *[("pt-BR", ["pt", "es"], "pt"), ("pt", ["pt-BR", "es"], "pt-BR"), ("pt_br", ["pt-BR", "pt-PT"], "pt-BR")],
        *[("pt", ["pt-BR", "pt-PT"], None), ("pt-BR", ["pt-PT", "es"], None), ("nno", ["no"], None)],
        *[("de", ["eng", "deu"], "deu"), ("German", ["eng", "deu"], "deu"), ("zh-Hant-TW", ["zh", "yue"], "zh")],
        *[("yue", ["zh", "en"], None), ("cmn", ["zh", "yue"], "zh"), ("xx", ["de", "en"], None)],
        *[
            ("007", ["007", "1e3", "12:30"], "007"),
            ("7", ["007"], None),
        ],
    ],
)
def test_forms_of_a_value_are_understood(given, names, known):
    assert known_value("lang", given, names) == known
    assert known_value("tgtlang", given, names) == known


def test_of_a_domain_only_the_case_does_not_matter():
    assert known_value("domain", "News", ["news", "talk"]) == "news"
    assert known_value("domain", "news-2020", ["news", "talk"]) is None


def test_the_written_language_of_codes():
    codes = ("zh-CN", "cmn_hans_cn", "yue", "zho", "tur", "az_AZ", "tha", "Khmer", "xx-YY")
    assert list(map(base_language, codes)) == ["zh", "zh", "zh", "zh", "tr", "az", "th", "km", "xx"]
