import unicodedata
from random import Random

import pytest

from espnet_diverse.data.normalisation import _tell_of_dotless_i, for_wer, lower_case, without_notes


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ("Guten Morgen, Welt!", "de", "guten morgen welt"),
        ("¿Qué tal? ¡Bien… «todo» bien!", "es", "qué tal bien todo bien"),
        ("L’homme d'État, c'est-à-dire l' homme", "fr", "l'homme d'état c'est-à-dire l homme"),
        ("Der 20-jährige zahlt 3,50 - nicht 1.000 €.", "de", "der 20-jährige zahlt 3,50 nicht 1.000"),
        ("U.S. e-mail/fax, (so) 50% 'quoted'", "en", "u s e-mail fax so 50 quoted"),
        ("ΟΔΟΣ. Τι είναι;", "el", "οδος τι είναι"),
        ("ما هذا؟ نعم، هذا ٣٫٥", "ar", "ما هذا نعم هذا ٣٫٥"),
        ("— Да, «Ёлка»…", "ru", "да ёлка"),
        ("IRMAK İzmir", "tr", "ırmak izmir"),
        ("IRMAK İzmir", "tr_TR", "ırmak izmir"),
        ("IRMAK İzmir", "TR", "ırmak izmir"),
        ("IRMAK", "en", "irmak"),
        ("İyi Işık", "", "iyi işık"),
        ("İyi i\u0307yi", "de", "iyi iyi"),
        ("ＡＩ技術２０、１．５", "ja", "ai技術20 1 5"),
        ("ｶﾞｷﾞｸﾞ ﾊﾟﾝ ﾃｽﾄ", "ja", "ガギグ パン テスト"),
        ("ﬁne oﬀice", "en", "fine office"),
        ("Cafe\u0301\u00a0bar", "fr", "café bar"),
        ("...", "en", ""),
        ("I \u2764\ufe0f you \u263a\ufe0f", "en", "i you"),
        ("press 1\ufe0f\u20e3 and #\ufe0f\u20e3", "en", "press 1 and"),
        ("a \u2248\u0338 b", "en", "a b"),
        ("don\u2018t l`eau O\u00b4Neil \u2018so\u2019", "en", "don't l'eau o'neil so"),
    ],
)
def test_lower_case_without_punctuation(text, language, expected):
    assert for_wer(text, language) == expected
    assert for_wer(expected, language) == expected


def test_lower_case_is_composed():
    assert lower_case("J\u030c") == "\u01f0"


@pytest.mark.parametrize(
    "text", ["It's 1,000.5 e-mails: don't (really) -- go!", "Well-known; a.b.c rock-and-roll 100%?"]
)
def test_words_match_the_13a_tokeniser_on_ascii_text(text):
    """What fairseq does: sacrebleu's 13a, lower case, tokens of punctuation alone removed."""
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    tokens = Tokenizer13a()(text).lower().split()
    kept = [token for token in tokens if not all(unicodedata.category(mark)[0] == "P" for mark in token)]
    # 13a leaves apostrophes and hyphens at the edges of words; here they go.
    assert for_wer(text) == " ".join(token.strip("'-") for token in kept)


def test_dotted_letters_without_a_language_are_noticed_once(caplog):
    for language, notices in (("tr", 0), ("en", 0), ("", 1)):
        _tell_of_dotless_i.cache_clear()
        caplog.clear()
        assert [lower_case(text, language) for text in ("İL", "İKİ", "Ilık")][:2] == ["il", "iki"]
        assert len(caplog.messages) == notices and all("language" in each for each in caplog.messages)
    assert lower_case("ISI", "az") == "ısı" and lower_case("ISI") == "isi"


def test_notes_in_brackets():
    assert without_notes("(Aplausos) Hola [Música] a (risas)todos.") == "Hola a todos."
    assert without_notes("eins (zwei") == "eins (zwei"


def test_normalising_again_changes_nothing():
    random = Random(0)
    for _ in range(3000):
        text = "".join(random.choices("ab1 .,'-!€\u0301\u20e3\ufe0f\u2764\u093f\u0915", k=random.randint(0, 9)))
        assert for_wer(for_wer(text)) == for_wer(text), text
