"""BLEU, chrF and TER are sacrebleu's, down to the signature and the interval."""

import numpy as np
import pytest
import sacrebleu
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.tokenizers import tokenizer_spm

from espnet_diverse.errors import ConfigError
from espnet_diverse.scoring.bleu import bleu, chrf, compound_bleu, ter, tokenizer_of
from espnet_diverse.scoring.significance import Bootstrap, interval
from espnet_diverse.text.sentencepiece_training import train_model

PAIRS = {
    "bleu": (bleu, BLEU),
    "intl": (lambda: bleu("intl"), lambda: BLEU(tokenize="intl")),
    "bleu -lc": (lambda: bleu(lowercase=True), lambda: BLEU(lowercase=True)),
    "chrf": (chrf, CHRF),
    "chrf -lc": (lambda: chrf(lowercase=True), lambda: CHRF(lowercase=True)),
    "chrf++": (lambda: chrf(2), lambda: CHRF(word_order=2)),
    "ter": (ter, TER),
}


@pytest.mark.parametrize("name", PAIRS)
def test_scores_signatures_and_intervals_match_sacrebleu(name, translations):
    references, hypotheses, _ = translations
    ours, theirs = (make() for make in PAIRS[name])
    expected = theirs.corpus_score(hypotheses, [references], n_bootstrap=200)
    statistics = ours.statistics(references, hypotheses, [""] * len(references))
    assert ours.score(statistics.sum(0)) == pytest.approx(expected.score, abs=1e-12)
    assert ours.signature(["", ""], Bootstrap(200)) == f"{expected.name}|{theirs.get_signature()}"
    assert ours.cells(60, statistics.sum(0)) == ["60", f"{expected.score:.1f}"]
    low, high = interval(Bootstrap(200).scores(statistics, ours.score))
    # sacrebleu sums in single precision.
    assert (high - low) / 2 == pytest.approx(expected._ci, rel=1e-5)
    assert ours.name == expected.name


def test_several_rows_are_scored_at_once(translations):
    references, hypotheses, _ = translations
    metric = bleu()
    statistics = metric.statistics(references, hypotheses, [""] * 60)
    halves = np.stack([statistics[:30].sum(0), statistics[30:].sum(0)])
    expected = [
        sacrebleu.corpus_bleu(hypotheses[part], [references[part]]).score for part in (slice(30), slice(30, 60))
    ]
    assert metric.score(halves) == pytest.approx(expected, abs=1e-12)
    assert metric.details(halves[0]) == {"counts": halves[0].tolist()}


def test_each_language_has_its_tokenizer():
    references, hypotheses = (
        ["今天天气很好。", "the cat sat on it", "今日はいい天気です"],
        ["今天天气好。", "the cat sat", "今日は天気です"],
    )
    metric = bleu()
    statistics = metric.statistics(references, hypotheses, ["zh-CN", "en", "ja"])
    for index, tokenizer in enumerate(("zh", "13a", "char")):
        expected = sacrebleu.corpus_bleu([hypotheses[index]], [[references[index]]], tokenize=tokenizer).score
        assert metric.score(statistics[index]) == pytest.approx(expected, abs=1e-12)
    assert "|tok:13a+zh|" in metric.signature(["zh", "en", "zh"], Bootstrap())
    assert "|tok:char|" in metric.signature(["ja"], Bootstrap())
    assert bleu("13a").statistics(references[:1], hypotheses[:1], ["zh"])[0, 0] == 1


def test_compounds_are_split_on_both_sides():
    """Equals multi-bleu on manually split tokens: "rich-text" becomes rich, the mark and text."""
    references = ["The state-of-the-art rich-text format, as of 2020-21.", "No hyphen here at all - or one alone."]
    hypotheses = ["The state-of-the-art rich text format, as of 2020.", "No hyphen here - or one alone."]
    compound = "The state ##AT##-##AT## of ##AT##-##AT## the ##AT##-##AT## art rich"
    split = [[f"{compound} ##AT##-##AT## text format , as of 2020 - 21 .", "No hyphen here at all - or one alone ."]]
    hypothesis = [f"{compound} text format , as of 2020 .", "No hyphen here - or one alone ."]
    expected = sacrebleu.corpus_bleu(hypothesis, split, tokenize="none").score
    metric = compound_bleu()
    statistics = metric.statistics(references, hypotheses, ["de", "de"])
    assert metric.score(statistics.sum(0)) == pytest.approx(expected, abs=1e-12)
    assert metric.score(statistics.sum(0)) > bleu().score(bleu().statistics(references, hypotheses, ["", ""]).sum(0))
    signature = metric.signature(["de", "de"], Bootstrap())
    assert signature.startswith("compound-split BLEU|nrefs:1|") and signature.endswith("|compounds:split")
    assert (metric.name, metric.columns, metric.score_column) == (
        *("compound-split BLEU", ("Snt", "compound-split BLEU")),
        "compound-split BLEU",
    )


def test_tokenizer_of():
    assert [tokenizer_of(language) for language in ("", "de", "zh", "zh-TW", "ja", "jam")] == [
        *("13a", "13a", "zh", "zh", "char", "13a")
    ]
    assert [tokenizer_of(language) for language in ("zh_CN", "ZH-Hant", "cmn_hans_cn", "yue", "ja_jp", "jpn")] == [
        *("zh", "zh", "zh", "zh", "char", "char")
    ]


def test_reference_units_are_none_for_empty_references(translations):
    for make, _ in PAIRS.values():
        metric = make()
        statistics = metric.statistics(["", "a b"], ["a", ""], ["", ""])
        assert (metric.reference_units(statistics) > 0).tolist() == [False, True]


def test_tokenizers_that_need_packages_are_used_if_these_are_there(monkeypatch):
    with pytest.raises(ConfigError, match="^unknown tokenizer 'spm'; choose one of 13a, zh, char, intl, none, ja-"):
        bleu("spm")
    for installed in (None, object()):
        monkeypatch.setattr("importlib.util.find_spec", lambda package, found=installed: found)
        notes = bleu().notes(["안녕"], ["안녕"], ["ko"])
        assert (tokenizer_of("ko"), len(notes)) == (("13a", 1) if installed is None else ("ko-mecab", 0))
        assert tokenizer_of("ja") == "char" and tokenizer_of("km") == "char"
        if installed is None:
            assert "ko-mecab" in notes[0]
            with pytest.raises(ConfigError, match="ja-mecab needs MeCab and ipadic; run: pip install 'sacrebleu.ja.'"):
                bleu("ja-mecab")


@pytest.mark.parametrize("name", ["flores101", "flores200"])
def test_tokenizers_of_sentencepiece_are_used_where_sacrebleu_has_them(name, translations, tmp_path, monkeypatch):
    references, hypotheses, _ = translations
    monkeypatch.setattr(tokenizer_spm, "SACREBLEU_DIR", str(tmp_path))
    monkeypatch.setattr(tokenizer_spm, "download_file", None)  # nothing is downloaded
    with pytest.raises(ConfigError, match=rf"^tokenizer {name} needs its model in {tmp_path}.*tokenize='{name}'"):
        bleu(name)
    path = tmp_path / "models" / tokenizer_spm.SPM_MODELS[name]["url"].rpartition("/")[2]
    path.parent.mkdir()
    path.write_bytes(train_model(references, "bpe", 60, 1000))
    expected = BLEU(tokenize=name).corpus_score(hypotheses, [references]).score
    metric = bleu(name)
    found = metric.score(metric.statistics(references, hypotheses, ["km"] * len(references)).sum(0))
    assert found == pytest.approx(expected, abs=1e-12) and f"|tok:{name}|" in metric.signature(["km"], Bootstrap())
    assert found != pytest.approx(BLEU().corpus_score(hypotheses, [references]).score, abs=0.1)
    path.write_bytes(b"no model")
    with pytest.raises(ConfigError, match=f"^tokenizer {name}: {path} is not a sentencepiece model"):
        bleu(name)


def test_the_case_of_letters_may_be_ignored():
    texts = ["The Cat sat On the Mat", "A-B"], ["the cat Sat on the mat", "a-b"], ["en", "en"]
    for make in (bleu, compound_bleu, chrf):
        cased, without = (metric.score(metric.statistics(*texts).sum(0)) for metric in (make(), make(lowercase=True)))
        assert cased < 70 and without == pytest.approx(100)
        assert "|case:lc|" in make(lowercase=True).signature(["en"], Bootstrap())


def test_metrics_of_words_have_a_note_on_languages_without_spaces():
    texts = ["ไป"], ["ไป"], ["th"]
    assert bleu().notes(*texts) == chrf().notes(*texts) == bleu("char").notes(*texts) == []
    for metric in (bleu("13a"), ter(), compound_bleu("intl")):
        (note,) = metric.notes(*texts)
        assert note.startswith(metric.name) and "makes no sense in th," in note
        assert metric.notes(["go"], ["go"], ["en"]) == []


@pytest.mark.parametrize("name", PAIRS)
def test_scores_and_signatures_of_several_references_match_sacrebleu(name, translations):
    references, hypotheses, _ = translations
    more = [[*references[1:], references[0]], [text[::2] for text in references]]
    ours, theirs = (make() for make in PAIRS[name])
    expected = theirs.corpus_score(hypotheses, [references, *more], n_bootstrap=200)
    statistics = ours.statistics(references, hypotheses, [""] * len(references), more)
    assert ours.score(statistics.sum(0)) == pytest.approx(expected.score, abs=1e-12)
    assert ours.signature(["", ""], Bootstrap(200)) == f"{expected.name}|{theirs.get_signature()}"
