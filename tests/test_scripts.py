"""The table of scripts: normalisation, error rates, BLEU, chrF, subtitles and joining, one test a cell.

docs/scoring.md prints the table.
"""

from typing import NamedTuple

import pytest
import sacrebleu
from references.markdown import ROOT

from espnet_diverse.data.scripts import join_texts
from espnet_diverse.scoring.bleu import TOKENIZER_OF, bleu, chrf, tokenizer_of
from espnet_diverse.scoring.error_rate import ErrorRate
from espnet_diverse.scoring.normalisation import Normalisation
from espnet_diverse.scoring.texts import written_languages
from espnet_diverse.transcription.result import Segment
from espnet_diverse.transcription.transcript import Transcript


class Row(NamedTuple):
    """A script.

    Attributes:
        script: Its name.
        language: A language that is written in it.
        text: A sentence.
        wrong: The sentence with an error.
        bare: The sentence without case and punctuation.
        word, char, unit: Units of the sentence and errors of the wrong one, without punctuation, for WER, CER and MER.
        lines: The sentence in lines of 9 columns.
    """

    script: str
    language: str
    text: str
    wrong: str
    bare: str
    word: tuple[int, int]
    char: tuple[int, int]
    unit: tuple[int, int]
    lines: list[str]


ROWS = (
    Row(
        "Latin",
        "en",
        "It was raining, then stopped.",
        "It was rainy, then stopped.",
        "it was raining then stopped",
        (5, 1),
        (23, 3),
        (5, 1),
        ["It was", "raining,", "then", "stopped."],
    ),
    Row(
        "Latin, Turkish",
        "tr",
        "İyi akşamlar, IŞIK nerede?",
        "İyi akşamlar, IŞIN nerede?",
        "iyi akşamlar ışık nerede",
        (4, 1),
        (21, 1),
        (4, 1),
        ["İyi", "akşamlar,", "IŞIK", "nerede?"],
    ),
    Row(
        "Latin, Yoruba",
        "yo",
        "Ọmọ náà jẹ́ ẹ̀kọ́.",
        "Ọmọ náà jẹ̀ ẹ̀kọ́.",
        "ọmọ náà jẹ́ ẹ̀kọ́",
        (4, 1),
        (14, 1),
        (4, 1),
        ["Ọmọ náà", "jẹ́ ẹ̀kọ́."],
    ),
    Row(
        "Cyrillic",
        "ru",
        "Завтра мы пойдём домой.",
        "Завтра мы пойдём дамой.",
        "завтра мы пойдём домой",
        (4, 1),
        (19, 1),
        (4, 1),
        ["Завтра мы", "пойдём", "домой."],
    ),
    Row(
        "Greek",
        "el",
        "Πού είναι η ΟΔΟΣ;",
        "Πού ήναι η ΟΔΟΣ;",
        "πού είναι η οδος",
        (4, 1),
        (13, 2),
        (4, 1),
        ["Πού είναι", "η ΟΔΟΣ;"],
    ),
    Row(
        "Devanagari",
        "hi",
        "मैं कल दिल्ली जाऊँगा।",
        "मैं कल दिल्ली जाऊँगी।",
        "मैं कल दिल्ली जाऊँगा",
        (4, 1),
        (17, 1),
        (4, 1),
        ["मैं कल", "दिल्ली", "जाऊँगा।"],
    ),
    Row(
        "Bengali",
        "bn",
        "আমি কাল বাড়ি যাব।",
        "আমি কাল বাড়ী যাব।",
        "আমি কাল বাড়ি যাব",
        (4, 1),
        (14, 1),
        (4, 1),
        ["আমি কাল", "বাড়ি যাব।"],
    ),
    Row(
        "Tamil",
        "ta",
        "நான் நாளை வீட்டுக்கு போவேன்.",
        "நான் நாளை வீட்டுக்கு போவான்.",
        "நான் நாளை வீட்டுக்கு போவேன்",
        (4, 1),
        (24, 1),
        (4, 1),
        ["நான் நாளை", "வீட்டுக்கு", "போவேன்."],
    ),
    Row(
        "Telugu",
        "te",
        "నేను రేపు ఇంటికి వెళ్తాను.",
        "నేను రేపు ఇంటికి వెళ్తాడు.",
        "నేను రేపు ఇంటికి వెళ్తాను",
        (4, 1),
        (22, 1),
        (4, 1),
        ["నేను రేపు", "ఇంటికి", "వెళ్తాను."],
    ),
    Row(
        "Arabic",
        "ar",
        "ذهب الولد إلى المدرسة، أمس.",
        "ذهب الولد إلى المدرسه، أمس.",
        "ذهب الولد إلى المدرسة أمس",
        (5, 1),
        (21, 1),
        (5, 1),
        ["ذهب الولد", "إلى", "المدرسة،", "أمس."],
    ),
    Row(
        "Hebrew",
        "he",
        "הילד הלך אתמול הביתה.",
        "הילד הלך אתמול הביתא.",
        "הילד הלך אתמול הביתה",
        (4, 1),
        (17, 1),
        (4, 1),
        ["הילד הלך", "אתמול", "הביתה."],
    ),
    Row(
        "Georgian",
        "ka",
        "ხვალ ჩვენ სახლში წავალთ.",
        "ხვალ ჩვენ სახლში წავალტ.",
        "ხვალ ჩვენ სახლში წავალთ",
        (4, 1),
        (20, 1),
        (4, 1),
        ["ხვალ ჩვენ", "სახლში", "წავალთ."],
    ),
    Row(
        "Ge'ez",
        "am",
        "እኔ ነገ ወደ ቤት እሄዳለሁ።",
        "እኔ ነገ ወደ ቤት እሄዳለው።",
        "እኔ ነገ ወደ ቤት እሄዳለሁ",
        (5, 1),
        (13, 1),
        (5, 1),
        ["እኔ ነገ ወደ", "ቤት እሄዳለሁ።"],
    ),
    Row(
        "Hangul",
        "ko",
        "나는 내일 집에 갑니다.",
        "나는 내일 집애 갑니다.",
        "나는 내일 집에 갑니다",
        (4, 1),
        (9, 1),
        (4, 1),
        ["나는 내일", "집에", "갑니다."],
    ),
    Row("Thai", "th", "พรุ่งนี้ฉันไปตลาด", "พรุ่งนี้ฉันไปตลอด", "พรุ่งนี้ฉันไปตลาด", (1, 1), (17, 1), (17, 1), ["พรุ่งนี้ฉันไปต", "ลาด"]),
    Row(
        "Lao", "lo", "ມື້ອື່ນຂ້ອຍໄປຕະຫຼາດ", "ມື້ອື່ນຂ້ອຍໄປຕະຫລາດ", "ມື້ອື່ນຂ້ອຍໄປຕະຫຼາດ", (1, 1), (19, 1), (19, 1), ["ມື້ອື່ນຂ້ອຍໄປ", "ຕະຫຼາດ"]
    ),
    Row(
        "Khmer", "km", "ស្អែកខ្ញុំទៅផ្សារ។", "ស្អែកខ្ញុំទៅផ្ទះ។", "ស្អែកខ្ញុំទៅផ្សារ", (1, 1), (17, 3), (17, 3), ["ស្អែកខ្ញុំទៅ", "ផ្សារ។"]
    ),
    Row(
        "Burmese",
        "my",
        "မနက်ဖြန်ဈေးသွားမယ်။",
        "မနက်ဖြန်ဈေးသွားမည်။",
        "မနက်ဖြန်ဈေးသွားမယ်",
        (1, 1),
        (18, 1),
        (18, 1),
        ["မနက်ဖြန်ဈေး", "သွားမယ်။"],
    ),
    Row(
        "Tibetan",
        "bo",
        "སང་ཉིན་ཁྲོམ་ལ་འགྲོ།",
        "སང་ཉིན་ཁྲོམ་ལ་འགྲི།",
        "སང ཉིན ཁྲོམ ལ འགྲོ",
        (5, 1),
        (14, 1),
        (14, 1),
        ["སང་ཉིན་ཁྲོམ་", "ལ་འགྲོ།"],
    ),
    Row(
        "Chinese",
        "zh",
        "我明天去市场，买菜。",
        "我明天去市长，买菜。",
        "我明天去市场 买菜",
        (2, 1),
        (8, 1),
        (8, 1),
        ["我明天去", "市场，买", "菜。"],
    ),
    Row(
        "Japanese",
        "ja",
        "明日、市場へ行きます。",
        "明日、市場に行きます。",
        "明日 市場へ行きます",
        (2, 1),
        (9, 1),
        (9, 1),
        ["明日、市", "場へ行き", "ます。"],
    ),
)
every_script = pytest.mark.parametrize("row", ROWS, ids=[row.script for row in ROWS])


def unspaced(row):
    return bool(ErrorRate("word").notes([row.text], [row.wrong], written_languages([row.text], [""])))


@every_script
@pytest.mark.parametrize("name", ["wer", "whisper"])
def test_normalisation_removes_punctuation_and_hides_no_error(row, name):
    rules = Normalisation(name)
    assert rules(f"“{row.text}” — {row.text}", row.language).split() == [*row.bare.split()] * 2
    assert rules(row.wrong, row.language).split() != row.bare.split()


@every_script
@pytest.mark.parametrize("unit", ["word", "char", "unit"])
def test_error_rates_count_the_units_of_the_script(row, unit):
    metric = ErrorRate(unit, normalisation=Normalisation("whisper" if row.language != "bo" else "wer"))
    counts = metric.statistics([row.text], [row.wrong], [row.language])[0]
    assert (counts[:3].sum(), counts[1:4].sum()) == getattr(row, unit)
    assert len(metric.notes([row.text], [row.text], [row.language])) == (unit == "word" and unspaced(row)) + (
        metric.normalisation.name == "whisper" and has_marks(row)
    )


@every_script
@pytest.mark.parametrize("language", [None, ""])
def test_bleu_and_chrf_are_those_of_sacrebleu_with_its_tokenizer(row, language):
    """Without a language, the script tells the tokenizer."""
    texts = [row.text] * 2, [row.wrong, row.text]
    languages = written_languages(texts[0], [row.language if language is None else language] * 2)
    expected = sacrebleu.corpus_bleu(texts[1], [texts[0]], tokenize=tokenizer_of(row.language)).score
    assert bleu().score(bleu().statistics(*texts, languages).sum(0)) == pytest.approx(expected) and 0 < expected < 100
    assert bleu().score(bleu().statistics(texts[0], texts[0], languages).sum(0)) == pytest.approx(100)
    expected = sacrebleu.corpus_chrf(texts[1], [texts[0]]).score
    assert chrf().score(chrf().statistics(*texts, languages).sum(0)) == pytest.approx(expected)


@every_script
def test_lines_of_subtitles(row):
    spoken = Transcript((Segment(0.0, 1.0, row.text, -1.0),), 1.0, {})
    assert spoken.to_srt(9).split("\n")[2:-1] == row.lines


@every_script
def test_segments_are_joined(row):
    assert join_texts([row.bare, row.bare]) == f"{row.bare}{'' if unspaced(row) else ' '}{row.bare}"


def has_marks(row):
    return bool(Normalisation("whisper").notes(set(row.text), set()))


def test_the_documentation_has_the_table():
    page = (ROOT / "docs" / "scoring.md").read_text("utf-8")
    lines = [line for line in page.splitlines() if line.startswith("|") and line.count("|") == 9]
    assert lines[2:] == [printed(row) for row in ROWS]


def printed(row):
    """The row of docs/scoring.md."""
    tokenizer = TOKENIZER_OF.get(row.language, "13a") + ", or 13a and a note" * (row.language == "ko")
    marks = "kept" if has_marks(row) else "none"
    if unspaced(row):
        cells = marks, "phrases, and a note", "characters", tokenizer, "without a space", "between characters"
    else:
        cells = marks, "words", "words", tokenizer, "with a space", "at spaces"
    return f"| {' | '.join((row.script, row.language, *cells))} |"
