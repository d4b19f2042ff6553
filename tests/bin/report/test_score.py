"""`espnet-diverse score`: the tables, the reports, the exit codes."""

import json
import random
import re
import subprocess
import sys

import pytest
from sacrebleu import corpus_bleu, corpus_chrf, corpus_ter

from espnet_diverse.bin.main import main

HEADER = "|dataset|Snt|Chr|Corr|Sub|Del|Ins|Err|S.Err|"
RULE = "|---|---|---|---|---|---|---|---|---|"


@pytest.fixture
def score(tmp_path):
    """Write texts and tables, run the command and return its exit code; reports go to tmp_path / "out"."""

    def run(reference, hypothesis, *options, **tables):
        hypotheses = tmp_path / "exp" / "decode" / "test" / "text"
        data = tmp_path / "data"
        hypotheses.parent.mkdir(parents=True, exist_ok=True)
        data.mkdir(exist_ok=True)
        hypotheses.write_text(hypothesis, encoding="utf-8")
        (data / "reference").write_text(reference, encoding="utf-8")
        for name, table in tables.items():
            (data / name).write_text(table, encoding="utf-8")
        paths = ["--reference", str(data / "reference"), "--hypothesis", str(hypotheses)]
        return main(["score", *paths, "--output_dir", str(tmp_path / "out"), *options])

    return run


def summary_of(tmp_path):
    return json.loads((tmp_path / "out" / "score.json").read_text(encoding="utf-8"))


def test_reports(score, tmp_path, capsys):
    assert score("a 广州市\nb 天 气\n", "a 广州\nb 天气\n") == 0
    row = "|decode/test|2|5|80.0|0.0|20.0|0.0|20.0|50.0|0.0 to 33.3|"
    expected = f"### CER\n\n{HEADER}95 % interval|\n{RULE}---|\n{row}\n"
    printed = capsys.readouterr()
    assert printed.out == expected
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == [
        *("alignment.cer.html", "alignment.txt", "score.json", "score.md"),
    ]
    assert (out / "score.md").read_text() == f"{expected}\n{printed.err}"
    assert printed.err.startswith("CER|spaces:ignored|case:mixed|norm:NFC|bs:1000|seed:12345|")
    summary = summary_of(tmp_path)
    overall = summary["metrics"]["cer"]["overall"]
    assert (summary["name"], summary["missing"], overall["score"], overall["units"]) == ("decode/test", [], 20, 5)
    assert overall["interval"] == [0, pytest.approx(100 / 3)]
    assert summary["files"]["reference"].endswith("data/reference")
    blocks = (out / "alignment.txt").read_text(encoding="utf-8").split("\n\n")
    assert (blocks[0].splitlines()[:2], blocks[1].splitlines()[0]) == (["# CER", "id: a"], "id: b")


def test_results_of_a_run_gather_in_one_table(score, tmp_path):
    results = tmp_path / "RESULTS.md"
    for name in ("dev", "test", "test"):
        options = ["--results", str(results), "--name", name, "--by", "utt2lang", "--metric", "cer", "chrf"]
        assert score("a 广州市\nb x\n", "a 广州\nb x\n", *options, utt2lang="a zh\nb de\n") == 0
    tables = results.read_text().split("### ")[1:]
    rows = [[line.split("|")[1] for line in table.splitlines() if line.startswith("|")] for table in tables]
    names = [f"{name}{row}" for name in ("dev", "test") for row in ("", " de", " zh", " AVG")]
    assert rows == [["dataset", "---", *names]] * 2
    assert [table.split("\n")[0] for table in tables] == ["CER", "chrF2"]
    assert f"{HEADER}95 % interval|signature|\n" in tables[0]
    row = next(line for line in tables[0].splitlines() if line.startswith("|test|"))
    assert r"|0.0 to 33.3|CER\|spaces:ignored\|case:mixed\|norm:NFC\|bs:1000\|seed:12345\|" in row


def test_missing_hypotheses_are_named_and_change_the_exit_code(score, tmp_path, capsys):
    reference = "".join(f"utt{n} ab\n" for n in range(8))
    assert score(reference, "utt0 ab\nutt1\n") == 2
    assert "|decode/test|8|16|12.5|0.0|87.5|0.0|87.5|87.5|" in capsys.readouterr().out
    note = "decode/test: 6 of 8 references have no hypothesis and count as deleted: utt2 utt3 utt4 utt5 utt6 and 1 more"
    assert note in (tmp_path / "out" / "score.md").read_text()
    assert summary_of(tmp_path)["missing"] == [f"utt{n}" for n in range(2, 8)]


def test_words_counted_spaces_and_normalisation(score, capsys):
    assert score("a the cat\n", "a a <unk> cat\n", "--metric", "wer", "--name", "mine") == 0
    assert "|mine|1|2|50.0|50.0|0.0|50.0|100.0|100.0|" in capsys.readouterr().out
    assert score("a x y\n", "a xy\n", "--count_spaces") == 0
    assert "|decode/test|1|3|66.7|0.0|33.3|0.0|33.3|100.0|" in capsys.readouterr().out
    assert score("a Oh, I!\n", "a oh ı\n", "--metric", "wer", "--normalise", "wer", utt2lang="a tr\n") == 0
    assert "|decode/test|1|2|100.0|" in capsys.readouterr().out


def test_an_empty_reference_line_is_scored(score, capsys):
    assert score("a\nb xy\n", "a z\nb xy\n") == 0
    assert "|decode/test|2|2|100.0|0.0|0.0|50.0|50.0|50.0|" in capsys.readouterr().out


def test_directions_have_rows_and_trained_and_zero_shot_averages(score, tmp_path, capsys):
    reference = "a ab\nb cdef\nc gh\nd ij\n"
    tables = {"utt2lang": "a es\nb es\nc fr\nd pt\n", "utt2tgtlang": "a en\nb en\nc en\nd es\n"}
    options = ["--by", "utt2lang", "utt2tgtlang", "--zero_shot", "pt-es", "it-es"]
    sizes = tmp_path / "sizes"
    sizes.write_text("es-en 9\nfr-en 5\npt-es 0\n")
    options += ["--sizes", str(sizes), "--above", "5"]
    assert score(reference, "a ax\nb cdef\nc g\nd xx\n", *options, **tables) == 0
    printed = capsys.readouterr()
    errors = {line.split("|")[1]: line.split("|")[8] for line in printed.out.splitlines() if line.startswith("|decode")}
    expected = {"": "40.0", "es-en": "16.7", "fr-en": "50.0", "pt-es": "100.0", "AVG": "55.6", "AVG-T": "33.3"}
    expected |= {"AVG-Z": "100.0", "High": "16.7", "Low": "75.0"}
    assert errors == {f"decode/test {name}".strip(): error for name, error in expected.items()}
    assert "zero-shot rows that do not exist: it-es; known: es-en fr-en pt-es\n" in printed.err
    cer = summary_of(tmp_path)["metrics"]["cer"]
    assert (list(cer), list(cer["rows"])) == (["overall", "rows", "averages"], ["es-en", "fr-en", "pt-es"])
    assert cer["averages"]["AVG-T"]["mean_of"] == ["es-en", "fr-en"]
    assert cer["rows"]["es-en"]["sentences"] == 2


def test_chinese_is_split_without_being_told(score, tmp_path, capsys):
    texts = "a 今天天气很好\nb the cat sat on it\n"
    tables = {"utt2lang": "a en\nb zh\n", "utt2tgtlang": "a zh\nb en\n"}
    assert score(texts, texts, "--metric", "bleu", "--by", "utt2tgtlang", **tables) == 0
    rows = summary_of(tmp_path)["metrics"]["bleu"]["rows"]
    assert [rows[name]["signature"].split("|")[6] for name in ("en", "zh")] == ["tok:13a", "tok:zh"]
    assert rows["zh"]["counts"][:2] == [6, 6]
    assert "|tok:13a+zh|" in capsys.readouterr().err
    assert not (tmp_path / "out" / "alignment.txt").exists()


def test_a_translation_is_not_scored_as_text_of_the_language_it_is_from(score, tmp_path):
    texts = "a the cat sat on it\n"
    tables = {"utt2lang": "a ja\n", "src_text": "a 猫は座った\n"}
    assert score(texts, texts, "--metric", "bleu", "--by", "utt2lang", **tables) == 0
    assert "|tok:13a|" in summary_of(tmp_path)["metrics"]["bleu"]["overall"]["signature"]


def test_transcripts_of_speech_that_is_translated_have_its_own_language(score, tmp_path):
    tables = {"src_text": "a 今天天气很好\n", "utt2lang": "a zh\n", "utt2tgtlang": "a en\n"}
    options = ["--metric", "bleu", "--reference", str(tmp_path / "data" / "src_text")]
    assert score("a it is nice\n", "a 今天天气很好\n", *options, **tables) == 0
    assert "|tok:zh|" in summary_of(tmp_path)["metrics"]["bleu"]["overall"]["signature"]


def test_reports_of_an_earlier_call_are_deleted(score, tmp_path):
    assert score("a x\n", "a x\n", "--by", "utt2lang", utt2lang="a de\n") == 0
    files = ["alignment.cer.html", "alignment.txt", "score.cer.png", "score.json", "score.md"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == files
    assert score("a x\n", "a x\n", "--metric", "ter") == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["score.json", "score.md"]


def test_the_page_of_alignments_has_the_worst_utterances_and_links_to_their_audio(score, tmp_path, capfd):
    (tmp_path / "b.wav").write_bytes(b"")
    wav_scp = f"a {tmp_path / 'a.wav'}\nb {tmp_path / 'b.wav'}\n"
    texts = "a one\nb two\nc three\n", "a ine\nb\nc three\n"
    assert score(*texts, "--worst", "1", **{"wav.scp": wav_scp}) == 0
    page = (tmp_path / "out/alignment.cer.html").read_text()
    assert re.search(r"<title>decode/test: CER 36\.4 % \([0-9.]+ to [0-9.]+\)</title>", page)
    assert "2 of 3 utterances have errors; the 1 with the most are here" in page
    assert page.count("<li") == 1 and 'data-audio="../b.wav"' in page
    assert score(*texts, "--embed_audio", **{"wav.scp": wav_scp}) == 0
    assert f"the audio of b, a is left out of the page: {tmp_path / 'b.wav'}: " in capfd.readouterr().err
    page = (tmp_path / "out/alignment.cer.html").read_text()
    assert page.count("<li") == 2 and "data-audio=" not in page
    assert score(*texts, "--embed_audio", "--metric", "ter") == 1
    assert "--embed_audio is for cer, wer, mer, not for ter; leave it out" in capfd.readouterr().err
    assert score(*texts, "--worst", "5", "--metric", "ter") == 1
    assert "--worst is for cer, wer, mer, not for ter; leave it out" in capfd.readouterr().err
    assert score(*texts, "--worst", "0") == 1
    assert "--worst must be at least 1, but is 0" in capfd.readouterr().err


def test_a_baseline_is_compared_as_sacrebleu_does(score, tmp_path, capsys):
    pick = random.Random(5)
    texts = [[pick.choice(["the", "cat", "sat", "on", "a", "red", "mat"]) for _ in range(9)] for _ in range(40)]

    def garbled(share):
        return [" ".join("dog" if pick.random() < share else word for word in text) for text in texts]

    sides = {"reference": garbled(0), "system": garbled(0.2), "baseline": garbled(0.25)}
    tables = {name: "".join(f"u{n:02d} {text}\n" for n, text in enumerate(side)) for name, side in sides.items()}
    (tmp_path / "baseline").write_text(tables["baseline"])
    options = ["--metric", "bleu", "chrf", "wer", "--baseline", str(tmp_path / "baseline")]
    assert score(tables["reference"], tables["system"], *options) == 0
    said = paired_test_of_sacrebleu(tmp_path, sides)
    expected = [re.findall(r"\d+\.\d+", line) for line in said.splitlines() if ".txt &" in line]
    (bleu, _, _, chrf, *_), (system_bleu, _, half, p, system_chrf, _, _, chrf_p) = expected
    metrics = summary_of(tmp_path)["metrics"]
    overall = metrics["bleu"]["overall"]
    ours = (overall["score"], (overall["interval"][1] - overall["interval"][0]) / 2, overall["baseline"]["p_value"])
    assert ours == pytest.approx((float(system_bleu), float(half), float(p)), abs=1e-4)
    assert overall["baseline"]["score"] == pytest.approx(float(bleu), abs=1e-4)
    overall = metrics["chrf"]["overall"]
    ours = (overall["score"], overall["baseline"]["score"], overall["baseline"]["p_value"])
    assert ours == pytest.approx((float(system_chrf), float(chrf), float(chrf_p)), abs=1e-4)
    assert f" - BLEU       {metrics['bleu']['overall']['signature'].removeprefix('BLEU|')}\n" in said
    assert 0 < metrics["wer"]["overall"]["baseline"]["p_value"] < 1
    assert metrics["wer"]["overall"]["baseline"]["difference"] < 0
    assert "|95 % interval|Baseline|Difference|p|" in capsys.readouterr().out


def paired_test_of_sacrebleu(tmp_path, sides):
    """The output of sacrebleu's own command, with four digits after the point."""
    for name, side in sides.items():
        (tmp_path / f"{name}.txt").write_text("\n".join(side) + "\n")
    command = [sys.executable, "-X", "utf8", "-m", "sacrebleu", "reference.txt", "-i", "baseline.txt", "system.txt"]
    command += ["-m", "bleu", "chrf", "--paired-bs", "-w", "4", "-f", "latex"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=True)
    return result.stdout


def test_a_baseline_with_missing_hypotheses_counts_too(score, tmp_path, capsys):
    (tmp_path / "baseline").write_text("a x\n")
    assert score("a x\nb y\n", "a x\nb y\n", "--baseline", str(tmp_path / "baseline")) == 2
    assert "1 of 2 references have no hypothesis and count as deleted: b" in capsys.readouterr().err
    assert summary_of(tmp_path)["baseline"]["missing"] == ["b"]


def test_the_seed_and_the_number_of_resamples_are_in_the_signature(score, tmp_path):
    texts = ["".join(f"u{n:03d} {word[n % 3 == 0]}\n" for n in range(300)) for word in ("aa", "ab")]
    intervals = []
    for seed in ("1", "1", "2"):
        assert score(*texts, "--seed", seed, "--samples", "100") == 0
        overall = summary_of(tmp_path)["metrics"]["cer"]["overall"]
        assert f"|bs:100|seed:{seed}|" in overall["signature"]
        intervals.append(overall["interval"])
    assert intervals[0] == intervals[1] != intervals[2]


@pytest.mark.parametrize(
    "reference, hypothesis, options, message",
    [
        ("", "a x\n", "", "reference: is empty"),
        ("a x\n", "", "", "text: is empty"),
        ("a x\na y\n", "a x\n", "", "reference:2: duplicate id 'a'"),
        ("a x\n", "a x\na x\n", "", "text:2: duplicate id 'a'"),
        ("a x\n", "a x\nb x\n", "", "decode/test/text: hypotheses without a reference (1): b; score against"),
        (
            "a\n",
            "a x\n",
            "",
            "data/reference: the references (1) have no chars, so that CER is undefined; give",
        ),
        ("x\n", "x\n", "--plain --by utt2lang", "--by finds the rows of texts by their ids"),
        (
            "a x\n",
            "a x\n",
            "--metric phone",
            "unknown metric 'phone'; choose from cer, wer, mer, bleu, compound_bleu, chrf, chrf++, ter",
        ),
        ("a x\n", "a x\n", "--metric wer --count_spaces", "--count_spaces is for cer, and the metrics are wer"),
        ("a x\n", "a x\n", "--normalise all", "unknown normalisation 'all'; choose one of none, wer"),
        ("a x\n", "a x\n", "--samples 9", "samples must be at least 100, but is 9"),
        ("a x\n", "a x\n", "--name a|b", "data set name 'a|b' does not fit a table cell"),
        (
            "a x\nb y\n",
            "a x\n",
            "--by utt2lang",
            "utt2lang: 1 of 2 reference utterances have no entry, the first is 'b'",
        ),
        ("a x\n", "a x\n", "--by utt2domain", "data/utt2domain: no such table; leave out --by, or write the table"),
        ("a x\n", "a x\n", "--by ./utt2lang", "utt2lang: no such table; leave out --by"),
        ("a x\n", "a x\n", "--zero_shot es-en", "--zero_shot and --sizes need rows; give the tables of the rows"),
        ("a x\n", "a x\n", "--above nan", "--above must be a number, but is nan"),
        ("a x\n", "a x\n", "--above 1e8", "--above 1e+08 needs amounts of training data; give --sizes FILE too"),
        ("a x\n", "a x\n", "--by utt2lang utt2lang", "--by utt2lang utt2lang: a table is given twice; give each once"),
        ("a x\n", "a x\n", "--by more", "more:1: missing columns: the line is only 'a'"),
    ],
)
def test_mistakes_get_one_line_and_leave_no_reports(reference, hypothesis, options, message, score, tmp_path, capsys):
    assert score(reference, hypothesis, *options.split(), utt2lang="a zh\n", more="a\n") == 1
    error = capsys.readouterr().err.splitlines()
    assert len(error) == 1
    assert error[0].startswith("espnet-diverse score: error: ")
    assert message in error[0]
    assert not (tmp_path / "out").exists()


def test_a_name_is_checked_before_texts_are_read(score, tmp_path, capsys):
    assert score("", "a x\n", "--name", "a|b") == 1
    assert "data set name 'a|b' does not fit a table cell" in capsys.readouterr().err


def test_a_directory_is_no_file_of_results(score, tmp_path, capsys):
    with pytest.raises(SystemExit):
        score("a x\n", "a x\n", "--results", str(tmp_path))
    assert f"argument --results: {tmp_path} is a directory; give a file such as RESULTS.md" in capsys.readouterr().err


def test_a_table_of_recordings_is_no_reference(score, capsys):
    assert score("a data/a.wav\nb data/b.wav\n", "a x\nb y\n") == 1
    said = "data/reference: has a recording a line, such as 'a data/a.wav', and no texts; give a file named text"
    assert said in capsys.readouterr().err


def test_a_row_without_words_is_left_out_and_named(score, tmp_path, capsys):
    options = ["--metric", "wer", "--normalise", "wer", "--by", "utt2lang"]
    assert score("a x\nb ...\n", "a x\nb y\n", *options, utt2lang="a es\nb fr\n") == 2
    said = "reference: no WER of row 'fr', whose references have no words; left out of averages too"
    assert said in capsys.readouterr().err
    wer = summary_of(tmp_path)["metrics"]["wer"]
    assert list(wer["rows"]) == wer["averages"]["AVG"]["mean_of"] == ["es"] and wer["overall"]["score"] == 100


def test_plain_lines_are_compared_by_their_numbers(score, tmp_path, capsys):
    lines = "it's a dog\n\nhello $20\n", "its a dog\nno\nhello\n"
    assert score(*lines, "--plain", "--metric", "wer", utt2lang="a table of other texts\n") == 0
    (tmp_path / "data" / "utt2lang").unlink()
    numbered = ["".join(f"u{n} {line}\n" for n, line in enumerate(text.splitlines())) for text in lines]
    plain = (tmp_path / "out" / "score.md").read_text()
    assert "|3|5|" in plain
    assert score(*numbered, "--metric", "wer") == 0
    assert (tmp_path / "out" / "score.md").read_text() == plain
    assert "1 of 3 references are empty and scored" in plain
    for hypothesis, count, advice in (
        (lines[1] + "more\n", 4, "find the line"),
        (lines[1] + "\n", 4, "text is blank: delete it"),
        ("its a dog\n", 1, "find the line"),
    ):
        assert score(lines[0], hypothesis, "--plain") == 1
        said = capsys.readouterr().err
        assert f"decode/test/text: has {count} lines, and {tmp_path}/data/reference has 3; " in said and advice in said
    assert score(lines[0], lines[1].replace("\n", "\r\n"), "--plain", "--metric", "wer") == 0
    assert (tmp_path / "out" / "score.md").read_text() == plain


def test_several_references_are_those_of_sacrebleu(score, tmp_path, capsys):
    texts = ["a dog ran to me\n", "a big dog ran up\n", "the dog ran to us\n"]
    for name, text in zip(("one", "two"), texts[1:], strict=True):
        (tmp_path / name).write_text(f"u {text}")
    paths = ["--reference", *(str(tmp_path / "data" / "reference"), str(tmp_path / "one"), str(tmp_path / "two"))]
    assert score(f"u {texts[0]}", "u the dog ran up now\n", *paths, "--metric", "bleu", "chrf", "ter") == 0
    metrics = summary_of(tmp_path)["metrics"]
    sides = ["the dog ran up now"], [[text.strip()] for text in texts]
    for name, function in (("bleu", corpus_bleu), ("chrf", corpus_chrf), ("ter", corpus_ter)):
        assert metrics[name]["overall"]["score"] == pytest.approx(function(*sides).score)
        assert "|nrefs:3|" in metrics[name]["overall"]["signature"]
    capsys.readouterr()
    assert score(f"u {texts[0]}", "u x\n", *paths, "--metric", "cer") == 1
    assert "metric 'cer' takes one reference of a text, and 3 are given" in capsys.readouterr().err
    assert score("u a\nv b\n", "u x\nv x\n", *paths, "--metric", "bleu") == 1
    assert f"{tmp_path}/one: lacks v; " in capsys.readouterr().err


def test_languages_without_spaces_are_told_by_their_script(score, tmp_path, capsys):
    texts = "a ฉันไปตลาดกับแม่\nb ក្មេងលេងបាល់\nc we went home now\nd 집에 간다\n"
    options = ["--metric", "bleu", "wer", "--by", "utt2lang"]
    assert score(texts, texts, *options, utt2lang="a tha\nb khm\nc en\nd kor\n") == 0
    metrics, said = summary_of(tmp_path)["metrics"], capsys.readouterr().err
    assert {name: row["signature"].split("|")[6] for name, row in metrics["bleu"]["rows"].items()} == {
        **{"tha": "tok:char", "khm": "tok:char", "en": "tok:13a", "kor": "tok:13a"},
    }
    assert metrics["bleu"]["overall"]["score"] == pytest.approx(100)
    assert "WER makes no sense in km, th, nor in averages" in said and "BLEU of Korean is by 13a" in said
    assert "BLEU AVG averages different units (" in said and "en tok:13a" in said


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
def test_hypotheses_of_a_table_with_columns_are_read(suffix, score, tmp_path, capsys):
    rows = [("utterance_id", "note", "Transcription"), ("b", "-", "one <unk>"), ("a", "+", "three")]
    lines = [{"csv": ",", "tsv": "\t"}.get(suffix, "").join(row) for row in rows]
    if suffix == "jsonl":
        lines = [json.dumps(dict(zip(rows[0], row, strict=True))) for row in rows[1:]]
    table = tmp_path / f"hyp.{suffix}"
    table.write_text("\n".join(lines) + "\n")
    hypothesis = ["--hypothesis", str(table), "--metric", "wer"]
    assert score("a three\nb one\n", "", *hypothesis) == 0
    assert summary_of(tmp_path)["metrics"]["wer"]["overall"]["insertions"] == 1
    table.write_text("\n".join([*lines, lines[-1]]) + "\n")
    assert score("a three\nb one\n", "", *hypothesis) == 1
    assert "duplicate id 'a'" in capsys.readouterr().err
    table.write_text("\n".join(lines).replace("utterance_id", "name") + "\n")
    assert score("a three\nb one\n", "", *hypothesis) == 1
    assert "has no columns 'id'; it has name, note, Transcription: name one column of id" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "lines", "form"),
    [
        ("hyp.ctm", "", "ctm"),
        ("hyp", ";; by a decoder\nrec A 1.50 0.20 yes\nrec A 1.90 0.25 no 0.93\n", "ctm"),
        ("hyp.stm", "rec A ann 0 2 yes no\n", "stm"),
        ("hyp", "rec A ann 0.00 2.50 <o,f0> yes no\nrec A ann 2.50 3.00\n", "stm"),
        ("hyp", "u1 1 2 3 4 5\nu2 1 2 3 4\n", ""),
    ],
)
def test_formats_with_times_are_named(name, lines, form, score, tmp_path, capsys):
    (tmp_path / name).write_text(lines)
    result = score("u1 1 2 3 4 5\nu2 1 2 3 4\n", "", "--hypothesis", str(tmp_path / name))
    said = capsys.readouterr().err
    assert (result, f"{tmp_path / name}: is in sclite's format {form}" in said) == ((1, True) if form else (0, False))
