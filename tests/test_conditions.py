"""The table of conditions."""

from espnet_diverse.conditions import CONDITIONS, TABLES, given


def test_each_condition_has_an_option_and_a_table():
    assert [condition.option for condition in CONDITIONS.values()] == ["--language", "--target_language", "--domain"]
    assert TABLES == ("utt2lang", "utt2tgtlang", "utt2domain")
    assert len({condition.label for condition in CONDITIONS.values()}) == len(CONDITIONS)


def test_values_are_found_under_the_names_of_their_arguments():
    assert given({"language": "de", "target_language": "en", "domain": "news"}) == {
        "lang": "de",
        "tgtlang": "en",
        "domain": "news",
    }


def test_what_is_empty_or_no_condition_is_not_given():
    assert given({"language": None, "domain": "", "beam_size": "5", "lang": "de"}) == {}
