"""Scripts without spaces: joining, breaking, and telling them apart."""

import pytest

from espnet_diverse.data.scripts import UNSPACED, join_texts, language_of_script, may_break


@pytest.mark.parametrize(
    ("texts", "text"),
    [
        ([], ""),
        (["", "one", "", "two", ""], "one two"),
        (["今天", "天气"], "今天天气"),
        (["今天，", "天气！", "「好」"], "今天，天气！「好」"),
        (["コーヒー", "です。", "𠀀"], "コーヒーです。𠀀"),
        (["人々", "は二〇", "一〇年", "〆"], "人々は二〇一〇年〆"),
        (["ｶﾀｶﾅ", "です｡", "ﾊｲ"], "ｶﾀｶﾅです｡ﾊｲ"),
        (["今天", "ok", "天气"], "今天 ok 天气"),
        (["안녕", "하세요"], "안녕 하세요"),
        (["ไปโรงเรียน", "ทุกวัน"], "ไปโรงเรียนทุกวัน"),
        (["ខ្ញុំទៅ", "ផ្ទះ។", "បាទ"], "ខ្ញុំទៅផ្ទះ។បាទ"),
        (["ນໍ້າ", "ຮ້ອນ"], "ນໍ້າຮ້ອນ"),
        (["ရေ", "နွေး။", "ပူ"], "ရေနွေး။ပူ"),
        (["ཆུ་", "ཚན།", "ཇ"], "ཆུ་ཚན། ཇ"),
    ],
)
def test_spaces_stand_where_the_script_has_them(texts, text):
    assert join_texts(texts) == text


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        (["น้ำ", "เย็", "น"], "marks, a vowel after and a vowel before"),
        (["ນ້ຳ", "ເຢັ", "ນ"], "the same in Lao"),
        (["ស្ត្រី", "ៗ".join(["ក", ""]), "ខ"], "stacked letters and the sign of repetition"),
        (["မ္မာ", "ပု"], "stacked letters"),
        (["སྐད་", "ཡིག"], "Tibetan syllables"),
        (["好，", "ok", "的。"], "punctuation, and a word of another script"),
        (["l'ami"], "a script with spaces"),
    ],
)
def test_texts_break_between_characters_but_not_within(parts, kind):
    text, found = "".join(parts), [""]
    for character in text:
        if found[-1] and may_break(found[-1], character):
            found.append("")
        found[-1] += character
    assert found == parts, kind


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("ok", ""),
        ("12, 3!", None),
        ("１２", None),
        ("да", ""),
        ("नमस्ते", ""),
        ("안녕 ok", "ko"),
        ("東京", "zh"),
        ("東京へ行く", "ja"),
        ("这句话很长很长，只有一个の", "zh"),
        ("กิน ok", "th"),
        ("ok ok ok กิน", ""),
        ("ບໍ່", "lo"),
        ("མི་", "bo"),
        ("လူ", "my"),
        ("មនុស្ស", "km"),
    ],
)
def test_the_script_of_most_letters_gives_a_language(text, language):
    assert language_of_script(text) == language
    assert language in ("", None, "ko") or language in UNSPACED
