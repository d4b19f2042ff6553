"""Multitask models of CTC alone match ESPnet's program: prompts, searches, and windows of long recordings."""

import shutil
from argparse import Namespace
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from espnet2.bin.s2t_inference import Speech2Text
from references.language_models import RNN, write_lm
from references.owsm_ctc import CONFIG, LANGUAGES, RATE, SECONDS, SYMBOLS, WEIGHTS, write_ctc_model
from references.tones import tones

from espnet_diverse.decoding.espnet import multitask_ctc
from espnet_diverse.decoding.espnet.multitask_ctc import EncoderPrompt
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.inference import Fusion, Recognizer, SegmentationOptions
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.tasks import TASKS
from espnet_diverse.transcription import unsegmented

UNCUT = SegmentationOptions(vad="none")
TOKENS = ["<blank>", *SYMBOLS, "a", "<sos>", "<eos>", "<sop>"]
ASKED = [
    ({}, ("<nolang>", "<asr>")),
    ({"language": "eng"}, ("<eng>", "<asr>")),
    ({"language": "eng", "target_language": "deu"}, ("<eng>", "<st_deu>")),
    ({"target_language": "deu"}, ("<nolang>", "<st_deu>")),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_ctc_model(tmp_path_factory.mktemp("models") / "owsm_ctc")


def espnets(folder, **options):
    return Speech2Text(folder / "config.yaml", folder / WEIGHTS, **options)


def padded(samples):
    """Samples as ESPnet's program gives them to the model."""
    return np.pad(samples, (0, SECONDS * RATE - len(samples)))


def symbols(pair):
    return dict(zip(("lang_sym", "task_sym"), pair, strict=True))


def test_a_prompt_has_the_language_and_the_task():
    prompt = EncoderPrompt(Namespace(preprocessor_conf={}, token_list=TOKENS))
    names = [*LANGUAGES, "nolang"]
    assert prompt.conditions.names == {"lang": names, "tgtlang": names}
    assert prompt.conditions.defaults == {"lang": "nolang", "tgtlang": "nolang"}
    assert prompt.seconds == 30  # ESPnet's default
    assert [TOKENS[index] for index in prompt.language_and_task(3, 1)] == ["<nolang>", "<st_deu>"]
    assert [TOKENS[index] for index in prompt.language_and_task(2, 2)] == ["<jpn>", "<asr>"]
    with pytest.raises(DataError, match="--target_language jpn: the model translates into deu"):
        prompt.language_and_task(0, 2)


def test_a_vocabulary_without_a_symbol_for_no_language_is_refused():
    tokens = [token for token in TOKENS if token != "<nolang>"]
    with pytest.raises(ModelError, match="tokens of the vocabulary lack <nolang>, which a model of task s2t_ctc needs"):
        EncoderPrompt(Namespace(preprocessor_conf=None, token_list=tokens))


@pytest.mark.parametrize(("names", "pair"), ASKED)
def test_the_search_equals_espnets(folder, names, pair):
    samples = tones(1.5, 0)
    expected = espnets(folder, beam_size=3, nbest=2)(padded(samples), **symbols(pair))
    (segment,) = Recognizer(folder, options=SearchOptions(beam_size=3, nbest=2), segmentation=UNCUT)(
        samples, RATE, **names
    ).segments
    assert [each.text for each in segment.alternatives] == [best[3] for best in expected]
    scores = [float(best[4].score) for best in expected]
    assert [each.score for each in segment.alternatives] == pytest.approx(scores, abs=2e-4)


def test_greedy_search_equals_espnets_best_path(folder):
    greedy, program = Recognizer(folder, options=SearchOptions(search="greedy"), segmentation=UNCUT), espnets(folder)
    found, expected = zip(
        *(
            (greedy(samples, RATE, language="deu").text, program.best_path(padded(samples), lang_sym="<deu>")[0][3])
            for samples in (tones(seconds, 1) for seconds in (1, 3.5, 5.75))
        ),
        strict=True,
    )
    assert found == expected and len(set(found)) > 1


@pytest.mark.parametrize(("names", "pair"), ASKED)
def test_a_long_recording_in_windows_equals_espnets(folder, names, pair):
    samples = tones(17.3, 2)
    ((_, end, expected),) = espnets(folder).decode_long(samples, **symbols(pair))
    found = Recognizer(folder)(samples, RATE, **names)
    assert found.text == expected and len(expected) > 20
    assert [(one.start, one.end) for one in found.segments] == [(0.0, end)]
    assert found.language == names.get("language")


def test_windows_do_not_depend_on_the_batch_or_on_how_they_are_asked_for(folder):
    samples = tones(9, 3)
    texts = {
        Recognizer(folder, segmentation=SegmentationOptions(whole=whole), options=SearchOptions(batch_size=size))(
            samples, RATE
        ).text
        for size in (1, 2, 8)
        for whole in (False, True)
    }
    assert len(texts) == 1 and texts != {""}


@pytest.mark.parametrize("seconds", [0.4, 2, 6, 6.01, 8, 10])
def test_windows_are_as_many_as_espnets(seconds):
    samples, context, chunk = np.ones(round(seconds * 100), np.float32), 200, 200
    windows = list(multitask_ctc._windows(samples, context, chunk))
    assert all(len(window) == 600 for window in windows)
    middles = np.concatenate([window[context:-context] for window in windows])
    np.testing.assert_array_equal(middles[: len(samples)], samples)
    assert not middles[len(samples) :].any()


def test_a_batch_equals_single_utterances(folder):
    search = load_predictor(folder, options=SearchOptions(beam_size=2))
    sources = [search.features(tones(seconds, 4)) for seconds in (0.5, 2, 6)]
    conditions = [{"lang": 0, "tgtlang": 0}, {"lang": 3, "tgtlang": 1}, {"lang": 2, "tgtlang": 2}]
    together = search.batch(sources, conditions)
    for source, condition, found in zip(sources, conditions, together, strict=True):
        (alone,) = search.batch([source], [condition])
        assert [each.text for each in alone] == [each.text for each in found]
        assert alone[0].score == pytest.approx(found[0].score, abs=1e-3)


@pytest.mark.parametrize(("lm", "conf"), [("transformer", None), ("seq_rnn", RNN)])
def test_a_language_model_joins_the_search(folder, tmp_path, caplog, lm, conf):
    tokens = yaml.safe_load((folder / "config.yaml").read_text())["token_list"]
    language_model = write_lm(tmp_path / "lm", tokens, lm, **({} if conf is None else {"conf": conf}))
    of_lm = {"lm_train_config": language_model / "config.yaml", "lm_file": language_model / "valid.loss.ave.pth"}
    samples, options = tones(1, 5), SearchOptions(beam_size=2, lm_weight=0.3)
    (expected,) = espnets(folder, beam_size=2, lm_weight=0.3, lang_sym="<nolang>", **of_lm)(padded(samples))
    found = Recognizer(folder, options=options, segmentation=UNCUT, fusion=Fusion(language_model))(samples, RATE)
    assert found.text == expected[3]
    assert found.segments[0].score == pytest.approx(float(expected[4].score), abs=1e-3)
    assert ("ESPnet's is used" in caplog.text) == (lm == "seq_rnn")


def test_hotwords_and_int8_weights_are_as_for_other_models(folder, tmp_path):
    (tmp_path / "words.txt").write_text("efgh\n")
    options = SearchOptions(beam_size=2, hotword_weight=50.0)
    found = Recognizer(folder, options=options, segmentation=UNCUT, fusion=Fusion(hotwords=tmp_path / "words.txt"))
    assert "efgh" in found(tones(1, 0), RATE).text
    assert "efgh" not in Recognizer(folder, options=options, segmentation=UNCUT)(tones(1, 0), RATE).text
    rough, exact = (Recognizer(folder, precision=kind)(tones(9, 3), RATE).segments[0] for kind in ("int8", "float32"))
    assert rough.text and rough.score != exact.score and rough.score == pytest.approx(exact.score, rel=0.1)


def test_words_have_times_in_segments(folder):
    recognizer = Recognizer(folder, options=SearchOptions(beam_size=2), segmentation=SegmentationOptions(vad="none"))
    found = recognizer(tones(9, 6), RATE, word_timestamps=True)
    assert len(found.segments) == 2
    for segment in found.segments:
        words = segment.words
        assert " ".join(word.text for word in words) == segment.text
        assert all(segment.start <= word.start <= word.end <= segment.end for word in words)


def test_segments_and_words_turn_the_windows_off(folder, caplog):
    samples = tones(9, 6)
    unsegmented._warn.cache_clear()
    recognizer = Recognizer(folder, options=SearchOptions(beam_size=2))
    assert len(recognizer(samples, RATE).segments) == len(recognizer(samples, RATE).segments) == 1
    said = "recordings longer than 6 s are read in windows and decoded by greedy CTC alone; --vad energy"
    assert caplog.text.count(said) == 1
    assert all(one.end - one.start <= SECONDS for one in recognizer(samples, RATE, word_timestamps=True).segments)
    split = Recognizer(folder, options=SearchOptions(beam_size=2), segmentation=SegmentationOptions(vad="none"))
    assert len(split(samples, RATE).segments) > 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"preprocessor_conf": {"speech_length": 4}}, r"^4 s \(speech_length of preprocessor_conf\) are no window of"),
        (
            {"preprocessor_conf": {"speech_length": 6.03}},
            r"^6.03 s .* of 0.08 s with 2 s of context at both ends; split",
        ),
    ],
)
def test_windows_without_room_are_refused(tmp_path, changes, said):
    recognizer = Recognizer(write_ctc_model(tmp_path / "model", **changes))
    with pytest.raises(ModelError, match=said):
        recognizer(tones(9, 0), RATE)


def test_unsupported_options_and_long_audio_are_refused(folder):
    with pytest.raises(ConfigError, match="search=sampling needs a transformer decoder"):
        Recognizer(folder, options=SearchOptions(search="sampling"))
    with pytest.raises(ConfigError, match="ctc_weight 0.3 is not possible: the model has CTC alone"):
        Recognizer(folder, options=SearchOptions(ctc_weight=0.3))
    with pytest.raises(DataError, match=r"7.0 s are more than the 6 s that the model reads; use transcribe"):
        load_predictor(folder).features(tones(7, 0))


def test_an_encoder_that_reads_no_prompt_is_refused(folder, tmp_path):
    encoder = {"output_size": 16, "attention_heads": 2, "linear_units": 24, "num_blocks": 1}
    config = yaml.safe_load((folder / "config.yaml").read_text()) | {"encoder": "transformer", "encoder_conf": encoder}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    checkpoint.save(TASKS["s2t_ctc"].build_model(Namespace(**config)).state_dict(), tmp_path / WEIGHTS)
    with pytest.raises(ModelError, match="encoder TransformerEncoder of a model of task s2t_ctc reads no prompt; use"):
        load_predictor(tmp_path)


def test_the_task_of_a_moved_espnet_folder_is_inferred(folder, tmp_path):
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert "task" not in config and config["encoder_conf"] == CONFIG["encoder_conf"]
    moved = shutil.copytree(folder, tmp_path / "moved")
    assert load_predictor(moved).task == "s2t_ctc"


def test_parts_by_condition_do_not_go_with_prompts(monkeypatch):
    monkeypatch.setattr(multitask_ctc, "known_conditions", lambda model: SimpleNamespace(names={"lang": ["de"]}))
    said = "^a model of task s2t_ctc is not possible here: parts of the model depend on lang, with other values than"
    with pytest.raises(ModelError, match=said):
        multitask_ctc.encoding_of(None, SimpleNamespace(task="s2t_ctc"), "cpu")
