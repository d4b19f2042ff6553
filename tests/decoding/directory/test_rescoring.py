"""Rescoring of n-best hypotheses by a language model and by another model."""

import json

import numpy as np
import pytest
import soundfile
import torch
from references.espnet_models import write_model
from references.language_models import write_lm

from espnet_diverse.bin.main import main
from espnet_diverse.data.files.locks import folder_lock
from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.decoding.directory.perplexity import Scorer
from espnet_diverse.decoding.directory.rescoring import LanguageModel, OtherModel, read_nbest, rescore
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.runs.tasks import read_config


def decode(run, folder):
    arguments = ["decode", str(run.model_dir), "--data_dir", str(run.test_dir), "--output_dir", str(folder)]
    lengths = ["--minlenratio", "-2", "--maxlenratio", "-5"]
    assert main([*arguments, "--nbest", "5", "--ctc_weight", "0", "--penalty", "1.5", *lengths]) == 0
    return folder


@pytest.fixture
def decoded(tiny_run, tmp_path):
    return decode(tiny_run, tmp_path / "decode")


def other_model(run, data_dir=None):
    return OtherModel(load_predictor(run.model_dir), data_dir or run.test_dir, {})


@pytest.fixture
def lm(tiny_run, tmp_path):
    tokens = read_config(tiny_run.model_dir / "config.yaml")["token_list"]
    return write_lm(tmp_path / "lm", tokens)


def test_decoding_writes_the_hypotheses(decoded):
    nbest = read_nbest(decoded / "nbest.jsonl")
    best = dict(line.split(" ", 1) for line in (decoded / "text").read_text().splitlines())
    assert {name: hypotheses[0][0] for name, hypotheses in nbest.items()} == best
    for hypotheses in nbest.values():
        scores = [score for _, score in hypotheses]
        assert len(hypotheses) == 5 and scores == sorted(scores, reverse=True)


def test_scores_of_a_language_model_are_added(decoded, lm, tmp_path):
    nbest, scorer = read_nbest(decoded / "nbest.jsonl"), Scorer(lm)
    changed = rescore(LanguageModel(scorer, nbest, None, {}), nbest, 0.5, tmp_path / "new")
    again = read_nbest(tmp_path / "new" / "nbest.jsonl")
    for name, hypotheses in nbest.items():
        expected = {}
        for text, score in hypotheses:
            expected[text] = score + 0.5 * scorer([scorer.vocabulary.encode(text)], [{}])[0]
        ranked = sorted(expected, key=lambda text: -expected[text])
        assert [text for text, _ in again[name]] == ranked
        assert [score for _, score in again[name]] == pytest.approx([expected[text] for text in ranked], abs=1e-3)
    assert changed == sum(again[name][0][0] != nbest[name][0][0] for name in nbest) > 0


def test_a_folder_that_another_process_writes_to_is_refused(lm, tmp_path):
    nbest = {"u": [("ab", -1.0)]}
    with folder_lock(tmp_path / "new"), pytest.raises(DataError, match="/new: process .* writes here now"):
        rescore(LanguageModel(Scorer(lm), nbest, None, {}), nbest, 0.5, tmp_path / "new")


@pytest.mark.parametrize("name", ["tiny_run", "tiny_translation"])
def test_the_model_itself_gives_the_scores_of_its_search(request, name, tmp_path):
    """Without CTC and penalty, the score of the search is log p(text)."""
    run = request.getfixturevalue(name)
    scorer, complete = other_model(run), 0
    for utterance, hypotheses in read_nbest(decode(run, tmp_path) / "nbest.jsonl").items():
        found = scorer.score(utterance, [text for text, _ in hypotheses])
        for (text, score), own in zip(hypotheses, found, strict=True):
            if len(text) < 5:  # the greatest length ends a text without <eos>
                tokens, complete = len(scorer.predictor.tokens.encode(text)) + 1, complete + 1
                assert own == pytest.approx(score - 1.5 * tokens, abs=1e-3)
    assert complete
    with pytest.raises(
        DataError, match=f"^{run.test_dir}: has no utterance other; give the data directory of the text"
    ):
        scorer.score("other", ["a"])


def test_segments_are_read_as_decode_reads_them(tiny_run, tmp_path):
    names = ["test-00", "test-01"]
    samples = [soundfile.read(tiny_run.test_dir / f"{name}.wav", dtype="int16")[0] for name in names]
    soundfile.write(tmp_path / "long.wav", np.concatenate(samples), 16_000)
    (tmp_path / "wav.scp").write_text(f"long {tmp_path}/long.wav\n")
    (tmp_path / "segments").write_text("test-00 long 0 0.75\ntest-01 long 0.75 1.5\n")
    whole, cut = other_model(tiny_run), other_model(tiny_run, tmp_path)
    for name in names:
        assert cut.score(name, ["ab", "c"]) == pytest.approx(whole.score(name, ["ab", "c"]), abs=1e-4)


def test_an_utterance_that_is_too_short_for_the_other_model_is_named(tiny_run, tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(600, np.float32), 16_000)
    (tmp_path / "wav.scp").write_text(f"a {tmp_path}/a.wav\n")
    with pytest.raises(DataError, match=f"^{tmp_path}: a: 4 frames are too short; the encoder needs 7; leave its line"):
        other_model(tiny_run, tmp_path).score("a", ["ab"])


def test_a_language_model_takes_conditions_from_tables_or_for_all(lm, tmp_path, caplog):
    scorer, utterances = Scorer(lm), ["a", "b"]
    scorer.conditions = KnownConditions({"lang": ["de", "en"]})
    with pytest.raises(ConfigError, match="needs the language of each utterance; give --data_dir, or --language"):
        LanguageModel(scorer, utterances, None, {})
    with pytest.raises(DataError, match="--language xx: unknown language; this model knows: de en"):
        LanguageModel(scorer, utterances, None, {"lang": "xx"})
    given = {"lang": "en", "domain": "news"}
    assert LanguageModel(scorer, utterances, None, given).indices == {"a": {"lang": 1}, "b": {"lang": 1}}
    assert caplog.messages == ["--domain news has no effect: no part of this model depends on the domain"]
    (tmp_path / "utt2lang").write_text("a en\nb de\n")
    assert LanguageModel(scorer, utterances, tmp_path, {}).indices == {"a": {"lang": 1}, "b": {"lang": 0}}


def test_the_command(tiny_run, decoded, lm, tmp_path, capsys):
    arguments = ["rescore", "--decode_dir", str(decoded), "--output_dir", str(tmp_path / "new")]
    assert main([*arguments, str(lm), "--weight", "0"]) == 0
    assert capsys.readouterr().out.endswith("0 of 3 utterances have another best text\n")
    assert (tmp_path / "new" / "text").read_text() == (decoded / "text").read_text()
    assert main([*arguments, str(tiny_run.model_dir)]) == 1
    assert "a model of task asr needs the data that was decoded; give --data_dir" in capsys.readouterr().err
    assert main([*arguments, str(tiny_run.model_dir), "--data_dir", str(tiny_run.test_dir)]) == 0


def test_a_model_of_espnet_rescores_as_it_lies(tiny_run, decoded, tmp_path):
    folder = write_model(tmp_path / "model", "conformer")
    data = ["--data_dir", str(tiny_run.test_dir), "--output_dir", str(tmp_path / "new"), "--weight", "1"]
    assert main(["rescore", str(folder), "--decode_dir", str(decoded), *data]) == 0
    searched = load_predictor(folder, options=SearchOptions(ctc_weight=0.0, beam_size=20, maxlenratio=-3))
    scorer = OtherModel(searched, tiny_run.test_dir, {})
    for job in scorer.jobs.values():
        best = searched.batch([searched.read(job.source)[0]], [{}])[0][0]
        (scored,) = scorer.score(job.utterance, [best.text])
        assert scored == pytest.approx(best.score, abs=1e-3)


@pytest.mark.parametrize(
    ("kind", "decoder"), [("ctc", "none"), ("rnn", "RNNDecoder"), ("transducer", "TransducerDecoder")]
)
def test_a_model_without_a_transformer_decoder_is_refused(kind, decoder, tiny_run, decoded, tmp_path, capsys):
    folder = write_model(tmp_path / kind, kind)
    data = ["--data_dir", str(tiny_run.test_dir), "--output_dir", str(tmp_path / "new")]
    assert main(["rescore", str(folder), "--decode_dir", str(decoded), *data]) == 1
    said = f"rescoring needs a model with a transformer decoder, and this one has {decoder}; give another\n"
    assert capsys.readouterr().err.endswith(f"espnet-diverse rescore: error: {said}")


LINE = '{{"utterance": "{}", "hypotheses": [{{"text": "{}", "score": {}}}]}}\n'


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"{}\xe4", r"nbest.jsonl: not UTF-8 at byte 2; decode again"),
        (None, "nbest.jsonl: no such file; decode with --nbest 2 or more first"),
        ("", "nbest.jsonl: is empty; decode again"),
        ('{"utterance": "a", "hypotheses": []}\n{"utterance"', "nbest.jsonl:2: is not a line of n-best hypotheses"),
        ('{"utterance": "a", "hypotheses": [{"text": "a"}]}', "nbest.jsonl:1: is not a line of n-best hypotheses"),
        ("[1]", "nbest.jsonl:1: is not a line of n-best hypotheses"),
        ("[" * 100_000, "nbest.jsonl:1: is not a line of n-best hypotheses"),
        (LINE.format("a", "x", "1" + "0" * 400), "nbest.jsonl:1: is not a line of n-best hypotheses"),
        (LINE.format("a", "x", "NaN"), "nbest.jsonl:1: score nan is no log probability; decode again"),
        (LINE.format("a", "x", "1e400"), "nbest.jsonl:1: score inf is no log probability; decode again"),
        (LINE.format("a", r"x\ny", -1), r"nbest.jsonl:1: text 'x\\ny' is not a line of text; decode again"),
        (LINE.format("a", r"\ud800", -1), r"nbest.jsonl:1: text '\\ud800' is not a line of text; decode again"),
        (LINE.format("a b", "x", -1), "nbest.jsonl:1: id 'a b' contains ' '; allowed are letters"),
        (LINE.format("a", "x", -1) + LINE.format("a", "y", -1), "nbest.jsonl:2: utterance 'a' is there twice; decode"),
    ],
)
def test_a_file_that_is_no_list_is_named(tmp_path, content, text):
    if content is not None:
        (tmp_path / "nbest.jsonl").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=text):
        read_nbest(tmp_path / "nbest.jsonl")


def test_an_utterance_without_hypotheses_stays_empty(lm, tmp_path):
    nbest = {"a": [], "b": [("a", -1.0)]}
    with torch.random.fork_rng():
        assert rescore(LanguageModel(Scorer(lm), nbest, None, {}), nbest, 0.5, tmp_path / "new") == 0
    lines = (tmp_path / "new" / "nbest.jsonl").read_text().splitlines()
    assert json.loads(lines[0]) == {"utterance": "a", "hypotheses": []}


def test_an_empty_hypothesis_is_scored_wherever_it_stands(lm, tmp_path):
    scorer = LanguageModel(Scorer(lm), ["u"], None, {})
    alone = {text: scorer.score("u", [text])[0] for text in ("", "ab")}
    assert all(score < 0 for score in alone.values())
    for texts in (["", "ab"], ["ab", ""], ["", ""]):
        assert scorer.score("u", texts) == pytest.approx([alone[text] for text in texts], abs=1e-5)
    rescore(scorer, {"u": [("", -1.0), ("ab", -2.0)]}, 0.5, tmp_path / "new")
    assert len(read_nbest(tmp_path / "new" / "nbest.jsonl")["u"]) == 2


def test_a_text_with_a_separator_of_lines_is_read(tmp_path):
    path = tmp_path / "nbest.jsonl"
    lines = [{"utterance": name, "hypotheses": [{"text": "x\u2028y\x85z", "score": -1.0}]} for name in ("u1", "u2")]
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    assert read_nbest(path) == {name: [("x\u2028y\x85z", -1.0)] for name in ("u1", "u2")}
