"""Language models and hotwords in the searches of a loaded model."""

import json
import shutil
from dataclasses import replace

import pytest
from references.language_models import RNN, TRANSFORMER, write_lm

from espnet_diverse.bin.main import main
from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.decoding.directory.decode_dir import decode
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.decoding.search.fusion import Fusion, language_model_of, load_language_model
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.inference import Recognizer, SegmentationOptions
from espnet_diverse.runs.config import save
from espnet_diverse.runs.model_files import INSIDE
from espnet_diverse.runs.tasks import read_config

GREEDY = SearchOptions(search="greedy")


@pytest.fixture
def tokens(tiny_run):
    return read_config(tiny_run.model_dir / "config.yaml")["token_list"]


def decoded(run, output_dir, *more):
    arguments = ["decode", str(run.model_dir), "--data_dir", str(run.test_dir), "--output_dir", str(output_dir)]
    lengths = ["--minlenratio", "-3", "--maxlenratio", "-6", "--beam_size", "3"]
    assert main([*arguments, *lengths, *map(str, more)]) == 0
    tables = ((output_dir / name).read_text().splitlines() for name in ("text", "score"))
    return [dict(line.split(" ", 1) for line in table) for table in tables]


@pytest.mark.parametrize("lm", ["transformer", "diverse_transformer"])
def test_scores_with_a_language_model_match_espnet(tiny_run, tokens, tmp_path, lm):
    folder = write_lm(tmp_path / "lm", tokens, lm)
    added = ["--lm", folder, "--lm_weight", "0.7"]
    ours, theirs = (
        decoded(tiny_run, tmp_path / search, "--search", search, *added) for search in ("batched", "espnet")
    )
    assert ours[0] == theirs[0]
    for name, score in ours[1].items():
        assert float(score) == pytest.approx(float(theirs[1][name]), abs=1e-4)
    assert decoded(tiny_run, tmp_path / "alone")[1] != ours[1]


def test_a_recurrent_language_model_takes_espnets_search(tiny_run, tokens, tmp_path, capfd):
    added = ["--lm", write_lm(tmp_path / "lm", tokens, "seq_rnn", RNN), "--lm_weight", "0.7"]
    named = decoded(tiny_run, tmp_path / "named", "--search", "espnet", *added)
    assert decoded(tiny_run, tmp_path / "own", *added) == named
    assert "SequentialRNNLM has no batched search: ESPnet's is used" in capfd.readouterr().err


def test_the_model_in_its_folder_is_used_unless_another_is_named(tiny_run, tokens, tmp_path, caplog):
    copy = shutil.copytree(tiny_run.model_dir, tmp_path / "exp")
    own, other = write_lm(copy / INSIDE, tokens), write_lm(tmp_path / "lm", tokens)
    assert language_model_of(copy, Fusion(), "batched") == language_model_of(copy, Fusion(), "espnet") == own
    assert language_model_of(copy, Fusion(str(other)), "batched") == other
    assert language_model_of(copy, Fusion(), "greedy") is None  # which does without the model's own
    assert (
        language_model_of(copy, Fusion(other), "batched") == language_model_of(copy, Fusion(other), "greedy") == other
    )
    assert language_model_of(tiny_run.model_dir, Fusion(), "batched") is None
    predictor = load_predictor(copy)
    assert predictor.language_model is not None and predictor.options.lm_weight == 0.3
    said = f"the language model {own}, which is part of the model, counts with lm_weight 0.3; set lm_weight 0 without"
    assert [message.startswith(said) for message in caplog.messages] == [True]
    decode(predictor, tiny_run.test_dir, tmp_path / "out")
    numbers = json.loads((tmp_path / "out" / "decode.json").read_text())
    assert (numbers["language_model"], numbers["lm_weight"]) == (str(own), 0.3)
    caplog.clear()
    assert load_predictor(copy, options=SearchOptions(lm_weight=0)).used == {"model_file": "valid.acc.ave.pth"}
    assert load_predictor(copy, fusion=Fusion(own)).used == predictor.used and not caplog.messages
    assert predictor.resolve(SearchOptions(lm_weight=0.0)).lm_weight == 0.0
    assert load_predictor(copy, options=SearchOptions(search="greedy")).language_model is None


def test_recognisers_take_both(tiny_run, tokens, tmp_path):
    """Every utterance has three letters of a to d, which a large bonus for another phrase replaces."""
    (tmp_path / "words.txt").write_text("abab\n")
    lm = write_lm(tmp_path / "lm", tokens)
    audio = tiny_run.test_dir / "test-00.wav"
    options, whole = SearchOptions(hotword_weight=30.0, maxlenratio=-6), SegmentationOptions(vad="none")
    plain = Recognizer(tiny_run.model_dir, options=options, segmentation=whole).transcribe(audio).text
    added = Fusion(lm, hotwords=tmp_path / "words.txt")
    both = Recognizer(tiny_run.model_dir, options=options, segmentation=whole, fusion=added)
    assert "abab" in both.transcribe(audio).text and "abab" not in plain
    assert "abab" not in both.transcribe(audio, options=replace(options, hotword_weight=0.0)).text


def test_words_of_the_command_line(tiny_run, tmp_path, capsys):
    (tmp_path / "words.txt").write_text("cdcd\n")
    audio = str(tiny_run.test_dir / "test-00.wav")
    more = ["--hotwords", str(tmp_path / "words.txt"), "--hotword_weight", "30", "--set", "maxlenratio=-6"]
    more += ["--vad", "none"]
    assert main(["transcribe", str(tiny_run.model_dir), audio, *more]) == 0
    assert "cdcd" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "added", "text"),
    [
        (SearchOptions(lm_weight=0.5), Fusion(), "lm_weight 0.5 needs a language model; give --lm, or leave it out"),
        (GREEDY, "lm", "search=greedy uses no language model; set search=batched, or leave --lm out"),
        (GREEDY, "words", "search=greedy has no hotwords; set search=batched, or leave them out"),
    ],
)
def test_fusion_options_without_effect_are_refused(tiny_run, tokens, tmp_path, options, added, text):
    if added == "lm":
        added = Fusion(write_lm(tmp_path / "lm", tokens))
    elif added == "words":
        (tmp_path / "words.txt").write_text("ab\n")
        added = Fusion(hotwords=tmp_path / "words.txt")
    with pytest.raises(ConfigError, match=text):
        load_predictor(tiny_run.model_dir, options=options, fusion=added)


def test_hotwords_are_refused_in_espnets_search_and_files_without_a_model(tiny_run, tmp_path, capsys):
    (tmp_path / "words.txt").write_text("ab\n")
    arguments = ["decode", str(tiny_run.model_dir), "--data_dir", str(tiny_run.test_dir), "--output_dir", str(tmp_path)]
    assert main([*arguments, "--search", "espnet", "--hotwords", str(tmp_path / "words.txt")]) == 1
    assert "search=espnet has no hotwords; set search=batched" in capsys.readouterr().err
    assert main([*arguments, "--lm_file", "x.pth"]) == 1
    assert "--lm_file x.pth has no --lm; give the language model too" in capsys.readouterr().err


def test_models_that_do_not_fit_are_refused(tiny_run, tokens, tmp_path):
    known = KnownConditions()
    with pytest.raises(ModelError, match="is a model of task asr, not a language model; give a run of task lm"):
        load_language_model(tiny_run.model_dir, None, tokens, known)
    fewer = write_lm(tmp_path / "fewer", tokens[:-2] + tokens[-1:])
    with pytest.raises(ModelError, match=f"has {len(tokens) - 1} tokens and the model {len(tokens)}"):
        load_language_model(fewer, None, tokens, known)
    other = write_lm(tmp_path / "other", [*tokens[:3], "q", *tokens[4:]])
    with pytest.raises(ModelError, match=f"has 'q' as token 3 and the model '{tokens[3]}'; train it with the vocabul"):
        load_language_model(other, None, tokens, known)
    selection = {"strategy": "static", "by": ["lang"], "conditions": {"lang": ["de", "en"]}}
    conf = TRANSFORMER | {"attention": {"selection": selection}}
    selecting = write_lm(tmp_path / "selecting", tokens, "diverse_transformer", conf)
    config = read_config(selecting / "config.yaml") | {
        "model": "diverse",
        "model_conf": {"conditions": {"lang": ["de", "en"]}},
    }
    save(config, selecting / "config.yaml")
    with pytest.raises(ModelError, match="the language model knows the lang de en, and the model none"):
        load_language_model(selecting, None, tokens, known)
