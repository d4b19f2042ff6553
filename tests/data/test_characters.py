import time
import unicodedata

import pytest

from espnet_diverse.data.characters import clean_text, columns, guess_encodings, id_fault, safe_name, text_fault


@pytest.mark.parametrize(
    ("text", "width"), [("", 0), ("ab c", 4), ("今日", 4), ("e\u0301", 1), ("हिन्दी", 5), ("ที่", 1), ("ｱ", 1)]
)
def test_columns_of_a_terminal(text, width):
    assert columns(text) == width


@pytest.mark.parametrize(
    ("text", "cleaned", "repairs"),
    [
        ("plain words", "plain words", []),
        ("  two   spaces ", "two spaces", []),
        ("a\tb", "a b", ["tab"]),
        ("a\u00a0b\u3000c\u2028d", "a b c d", ["unusual space"]),
        ("a\u200bb\u200f\ufeffc\u00add", "abcd", ["invisible character"]),
        ("سلام\u061c ok\U000e0067", "سلام ok", ["invisible character"]),
        ("cafe\u0301", "café", ["decomposed text (not NFC)"]),
        ("مرحبا بالعالم", "مرحبا بالعالم", []),
        ("می\u200cروم", "می\u200cروم", []),
        ("می\u200c\u200cروم", "می\u200cروم", ["invisible character"]),
        ("\u200cمی\u200c روم\u200c", "می روم", ["invisible character"]),
        ("க்\u200cஷ", "க்\u200cஷ", []),
        ("ක්\u200dෂ", "ක්\u200dෂ", []),
        ("Auf\u200clage", "Auflage", ["invisible character"]),
        ("می\u200c7", "می7", ["invisible character"]),
    ],
)
def test_texts_are_cleaned(text, cleaned, repairs):
    assert clean_text(text) == (cleaned, repairs)


def test_a_long_text_of_marks_is_composed_in_linear_time():
    marks = "\u0301\u0323\u0344\u0f73 각e\u1e69\u0325"
    short = "a" + marks * 1_200
    assert clean_text(short) == (unicodedata.normalize("NFC", short), ["decomposed text (not NFC)"])
    times = []
    for count in (10_000, 40_000):
        start = time.process_time()
        clean_text("a" + "\u0301\u0323" * count)
        times.append(time.process_time() - start)
    assert times[1] < 10 * times[0]


@pytest.mark.parametrize("name", ["BAC009S0002W0122", "-8BZfYY3hFo_0001", "说话人-1", "a.b:c,d=e+f@g%"])
def test_good_ids(name):
    assert id_fault(name) is None


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("a/b", "contains '/'"),
        ("..secret", "contains '..'"),
        ("$(reboot)", "contains '$'"),
        ("a`b", "contains '`'"),
        ("a|b", "contains '|'"),
        ("a b", "contains ' '"),
        ("a\0b", "U+0000"),
        ("字" * 81, "243 bytes long; allowed are 240"),
    ],
)
def test_bad_ids(name, what):
    assert what in id_fault(name)


@pytest.mark.parametrize("symbol", ["<blank>", "<unk>", "<sos/eos>", "<s>", "</s>"])
def test_reserved_symbols_are_refused(symbol):
    assert f"reserved symbol {symbol}" in text_fault(f"one {symbol} two")


def test_control_characters_are_refused_and_less_than_is_not():
    assert "control character U+0000" in text_fault("one\0two")
    assert text_fault("1 < 2 > 0 <laugh>") is None


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        *[(f"utt1 {text}".encode("gbk"), ["GBK"]) for text in ("你好", "明天，我用 ai 技术", "中a国")],
        *[(text.encode("utf-16"), ["UTF-16"]) for text in ("utt1 hello\n", "你好")],
        ("utt1 hello\n".encode("utf-16-le"), ["UTF-16"]),
        (b"utt1 caf\xe9", ["cp1252"]),
        *[
            (f"a1 {text}\n".encode("cp1252"), ["cp1252"])
            for text in (
                "Die Straße ist schön",
                "GRÖSSE",
                "Füße, Größe, Übermut",
                "à bientôt, créée",
                "El niño – ¿qué?",
            )
        ],
        *[(text.encode("cp1251"), ["cp1251"]) for text in ("a1 Привет, мир", "a2 съешь ещё булок")],
        ("МОСКВА".encode("cp1251"), ["cp1251", "GBK"]),
        (b"a1 \xb0\xc9abc", ["cp1252", "GBK"]),
        (b"a1 \x81\x8d \xff\xff\xff", []),
        ("a1 今天天氣很好".encode("big5"), []),
        ("a1 voilà l'été à Paris".encode("cp1252"), ["cp1252"]),
    ],
)
def test_encodings_are_guessed(raw, expected):
    assert guess_encodings(raw) == expected


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        *(("a-1.b", "a-1.b"), ("Anna  M.", "Anna_M."), ("../x", "__x"), ("星 a", "星_a"), ("a/\u0301", "a_\u0301")),
        *((name, name) for name in ("सीता", "सोता", "தமிழ்", "สมชี", "José")),
        ("Jose\u0301", "José"),
    ],
)
def test_safe_names_have_no_fault(name, safe):
    assert safe_name(name) == safe
    assert id_fault(safe) is None
