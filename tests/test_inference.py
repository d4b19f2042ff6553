"""Recognizer and Translator: texts match the decode command, and no recording changes another's result."""

import io
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, replace

import numpy as np
import pytest
import soundfile
import soxr
import torch
from references.streaming import tones as spoken
from references.streaming import write_run
from references.tones import tones

import espnet_diverse
from espnet_diverse.audio.resampling import resample
from espnet_diverse.decoding.directory.decode_dir import decode
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.inference import Fusion, Recognizer, Request, SegmentationOptions, StreamRecognizer, Translator
from espnet_diverse.transcription.formats import FORMATS
from espnet_diverse.transcription.recordings import Transcription

RATE = 16_000
RATES = (8000, RATE, 44_100)
ENERGY = SegmentationOptions("energy")
WHOLE = SegmentationOptions(vad="none", max_seconds=1.3)
OPTIONS = SearchOptions(beam_size=2, ctc_weight=0.4, batch_size=2, maxlenratio=0.3)


@pytest.fixture(scope="module")
def recognizer(tiny_run):
    return Recognizer(tiny_run.model_dir, options=OPTIONS, segmentation=WHOLE)


def test_texts_and_scores_match_decode(tiny_run, recognizer, tmp_path):
    files = [tiny_run.test_dir / f"test-{index:02d}.wav" for index in range(3)]
    results = decode(load_predictor(tiny_run.model_dir, options=OPTIONS), tiny_run.test_dir, tmp_path)
    for result, transcript in zip(results, recognizer.transcribe_all(map(Request, files)), strict=True):
        assert transcript.text == result.text
        assert transcript.segments[0].score == pytest.approx(result.score, rel=0, abs=1e-5)
        assert len(transcript.segments) == 1 and transcript.duration == result.seconds == 0.75
        assert transcript.segments[0].end == 0.75 and len(transcript.segments[0].tokens) == result.tokens
        assert transcript.conditions == {} and transcript.language_probabilities is None


def test_a_file_its_samples_and_a_file_object_give_the_same(tiny_run, recognizer):
    path = tiny_run.test_dir / "test-00.wav"
    samples, rate = soundfile.read(path, dtype="int16")
    with path.open("rb") as file:
        assert recognizer(path) == recognizer(str(path)) == recognizer.transcribe(samples, rate) == recognizer(file)


def test_the_best_texts_come_in_order(tiny_run):
    several = Recognizer(
        tiny_run.model_dir, options=replace(OPTIONS, beam_size=4, nbest=3, maxlenratio=0), segmentation=WHOLE
    )
    (segment,) = several(tones(1, seed=0), RATE).segments
    scores = [each.score for each in segment.alternatives]
    assert len(scores) == 3 and scores == sorted(scores, reverse=True)
    assert (segment.alternatives[0].text, scores[0]) == (segment.text, segment.score)


def test_silence_has_no_segment(tiny_run):
    transcript = Recognizer(tiny_run.model_dir, options=OPTIONS)(np.zeros(3 * RATE, np.float32), RATE)
    assert transcript.segments == () and transcript.text == "" and transcript.duration == 3.0


def test_a_too_short_recording_has_no_segment(recognizer):
    for count in (1, 200, 700):
        assert recognizer(tones(1, seed=0)[:count], RATE).segments == ()


def test_a_recording_too_short_for_contextual_blocks_has_no_segment(streaming_run):
    recognizer = Recognizer(streaming_run, options=OPTIONS, segmentation=WHOLE)
    for count in (257, 900, 959):
        assert recognizer(tones(1, seed=0)[:count], RATE).segments == ()
    assert recognizer(tones(1, seed=0), RATE).segments


def test_threads_share_a_recognizer(recognizer):
    lengths = (1, 0.5, 2, 0.75, 3, 0.25, 1, 1.25)
    spoken = [tones(seconds, seed=index) for index, seconds in enumerate(lengths)]
    alone = [repr(recognizer(samples, RATE)) for samples in spoken]
    with ThreadPoolExecutor(4) as pool:
        together = [repr(found) for found in pool.map(lambda samples: recognizer(samples, RATE), [*spoken, *spoken])]
    assert together == [*alone, *alone]


def test_threads_with_other_options_share_a_recognizer(recognizer):
    samples = tones(1, seed=0)
    several = [replace(OPTIONS, beam_size=size, nbest=size, maxlenratio=0) for size in (1, 6)]
    alone = [recognizer(samples, RATE, options=options) for options in several]
    assert [len(found.segments[0].alternatives) for found in alone] == [1, 6]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda options: recognizer(samples, RATE, options=options), several * 6))
    assert together == alone * 6 and recognizer.search.options == replace(OPTIONS, lm_weight=0.0)


def test_options_of_one_translation(tiny_translation):
    translator = Translator(tiny_translation.model_dir, options=SearchOptions(beam_size=1))
    three = SearchOptions(beam_size=3, nbest=3)
    expected = Translator(tiny_translation.model_dir, options=three).translate("abc")
    assert translator.translate("abc", options=three) == expected and len(expected.alternatives) == 3
    assert len(translator.translate("abc").alternatives) <= 1


def test_words_stand_inside_their_segment(recognizer):
    transcript = recognizer(tones(2, seed=3), RATE, word_timestamps=True)
    assert len(transcript.segments) > 1 and any(segment.words for segment in transcript.segments)
    for segment in transcript.segments:
        assert "".join(word.text for word in segment.words) == segment.text
        assert len(segment.confidences) == len(segment.tokens)
        assert all(segment.start <= word.start <= word.end <= segment.end for word in segment.words)
        assert all(0 <= word.confidence <= 1 for word in segment.words)


@pytest.fixture(scope="module")
def telephone(telephone_run):
    """A recognizer whose model reads 8 kHz."""
    return Recognizer(telephone_run.model_dir, options=OPTIONS, segmentation=WHOLE)


@pytest.mark.parametrize("rate", RATES)
def test_any_recording_is_brought_to_the_rate_of_the_model(telephone, tmp_path, monkeypatch, rate):
    samples, features = tones(1.25, seed=1, rate=rate), telephone.search.features
    soundfile.write(tmp_path / "x.wav", samples, rate, subtype="FLOAT")
    heard, frames = [], []

    def listen(chunk):
        heard.append(chunk)
        frames.append(features(chunk))
        return frames[-1]

    monkeypatch.setattr(telephone.search, "features", listen)
    with (tmp_path / "x.wav").open("rb") as file:
        transcripts = [telephone(tmp_path / "x.wav"), telephone(file), telephone(samples, rate)]
    assert transcripts[0] == transcripts[1] == transcripts[2] and transcripts[0].duration == 1.25
    assert [segment.end for segment in transcripts[0].segments] == [1.25]
    for chunk in heard:
        np.testing.assert_array_equal(chunk, samples if rate == 8000 else soxr.resample(samples, rate, 8000))
    assert [len(each) for each in frames] == [1 + 1.25 * 8000 // 160] * 3  # half as many as at 16 kHz


def test_the_model_hears_the_same_at_any_rate(telephone):
    features = [telephone.search.features(resample(tones(2, 3, rate), rate, target_rate=8000)) for rate in RATES]
    pitches = [each.argmax(axis=1) for each in features]
    assert np.mean(pitches[0] == pitches[1]) > 0.9 and np.mean(pitches[0] == pitches[2]) > 0.9


@pytest.mark.parametrize("rate", RATES)
def test_segments_and_words_of_a_model_of_eight_kilohertz_have_their_times(telephone_run, rate):
    options = replace(OPTIONS, minlenratio=-2, maxlenratio=-4)
    segmentation = SegmentationOptions(vad="energy", max_seconds=3)
    recognizer = Recognizer(telephone_run.model_dir, options=options, segmentation=segmentation)
    rest = np.zeros(2 * rate, np.float32)
    samples = np.concatenate([rest, tones(1, 0, rate), rest, tones(2, 1, rate), rest])
    transcript = recognizer(samples, rate, word_timestamps=True)
    assert transcript.duration == 9.0
    times = [(segment.start, segment.end) for segment in transcript.segments]
    assert times == [pytest.approx((2, 3), abs=0.25), pytest.approx((5, 7), abs=0.25)]
    for segment in transcript.segments:
        assert segment.words and all(segment.start <= word.start < word.end <= segment.end for word in segment.words)


def test_frames_of_the_encoder_cover_the_audio_of_eight_kilohertz(telephone):
    frames = Transcription(telephone.search, WHOLE, word_timestamps=True).frames
    (found,) = telephone.search.find([telephone.search.features(tones(2, 0, 8000))], [{}], posteriors=True)
    assert frames.step == 4 * 160 / 8000
    assert frames.boundary(0) == pytest.approx(0, abs=0.1)
    assert frames.boundary(len(found.log_probs)) == pytest.approx(2, abs=0.15)


def test_without_ctc_there_are_no_word_times(recognizer, monkeypatch):
    monkeypatch.setattr(recognizer.search, "ctc", None)
    with pytest.raises(ConfigError, match="times of words need CTC that was trained on the output text"):
        recognizer(tones(1, seed=0), RATE, word_timestamps=True)


def test_translations_match_decode(tiny_translation, tmp_path):
    run = tiny_translation
    options = SearchOptions(beam_size=3, nbest=2)
    results = decode(load_predictor(run.model_dir, options=options), run.test_dir, tmp_path)
    translator = Translator(run.model_dir, options=options)
    sources = [line.split()[1] for line in (run.test_dir / "src_text").read_text().splitlines()]
    found = translator.translate([*sources, " "])
    assert [each.text for each in found[:-1]] == [one.text for one in results]
    assert [each.score for each in found[:-1]] == pytest.approx([one.score for one in results], rel=0, abs=1e-5)
    assert all(astuple(each.alternatives[0]) == each[:2] and len(each.alternatives) == 2 for each in found[:-1])
    assert found[-1] == ("", 0.0, (), ())
    assert ["".join(each.tokens) for each in found] == [each.text for each in found] and any(found[0].tokens)
    assert translator.translate(f"\ufeff{sources[0]}\u200b\t")[:1] == found[0][:1] and translator("\u200b") == found[-1]
    single = translator(sources[0])
    assert single.text == found[0].text and single.score == pytest.approx(found[0].score, abs=1e-4)


@pytest.mark.parametrize(
    ("build", "error", "said"),
    [
        (lambda speech, text: Recognizer(text), ModelError, "translates text, not speech; use Translator"),
        (lambda speech, text: Translator(speech), ModelError, "reads speech, not text; use Recognizer"),
        (lambda speech, text: Recognizer(speech, device="tpu"), ConfigError, "device 'tpu' is not possible .* cpu"),
        (lambda speech, text: Recognizer(speech, precision="int4"), ConfigError, "known: float32 int8 bfloat16"),
        (
            lambda speech, text: Recognizer(speech, options=SearchOptions(search="espnet")),
            ConfigError,
            "search=espnet is not possible here; possible: batched greedy sampling; use espnet-diverse decode for it",
        ),
        (
            lambda speech, text: Translator(text, options=SearchOptions(search="greedy")),
            ConfigError,
            "search=greedy is not possible here; possible: batched sampling$",
        ),
    ],
)
def test_wrong_models_and_unsupported_options_are_refused(tiny_run, tiny_translation, build, error, said):
    with pytest.raises(error, match=said):
        build(tiny_run.model_dir, tiny_translation.model_dir)


def test_a_stream_depends_on_its_language(tmp_path):
    run = write_run(tmp_path / "run", "diverse_contextual_block_transformer", languages=["en", "de"])
    segmentation, samples = SegmentationOptions("energy"), spoken(1.3, 0)
    options, texts = SearchOptions(beam_size=2, ctc_weight=0.1), {}
    offline = Recognizer(run, segmentation=segmentation, options=options)
    for name in ("en", "de"):
        online = StreamRecognizer(run, segmentation=segmentation, options=options, conditions={"lang": name})
        results = list(online.stream(np.array_split(samples, 9)))
        texts[name] = results[-1].text
        assert texts[name] == offline.transcribe(samples, RATE, language=name).text and len(results) > 2
    assert texts["en"] != texts["de"]
    with pytest.raises(DataError, match="the language is missing; give --language; this model knows: en de"):
        StreamRecognizer(run)
    with pytest.raises(ConfigError, match="whole is not possible while streaming; leave it out"):
        StreamRecognizer(run, segmentation={"whole": True})


def test_a_stream_is_heard_at_the_rate_of_the_model(tmp_path):
    run = write_run(tmp_path / "run", rate="8k")
    segmentation, options = SegmentationOptions("energy"), SearchOptions(beam_size=2)
    soundfile.write(tmp_path / "a.wav", spoken(1.3, 0), RATE)
    online = StreamRecognizer(run, segmentation=segmentation, options=options)
    *_, final = online.listen(str(tmp_path / "a.wav"))
    expected = Recognizer(run, segmentation=segmentation, options=options).transcribe(tmp_path / "a.wav")
    assert final.is_final and final.text == expected.text != ""


def test_blocks_of_any_kind_give_one_text_while_streaming(tmp_path):
    online = StreamRecognizer(write_run(tmp_path / "run"), segmentation=ENERGY, options={"beam_size": 2})
    samples = np.round(spoken(1.3, 0) * 2**15).astype(np.int16)
    expected = list(online.stream(np.array_split(samples.astype(np.float32) / 2**15, 5)))[-1].text
    for given in (samples, samples.astype(np.int32) * 2**16, np.stack([samples, samples], 1), samples / 2.0**15):
        assert list(online.stream(np.array_split(given, 5)))[-1].text == expected != ""
    slow = resample(samples / np.float32(2**15), RATE, target_rate=8000)
    resampled = resample(slow, 8000, target_rate=RATE)
    assert list(online.stream([slow], rate=8000))[-1].text == list(online.stream([resampled]))[-1].text


@pytest.mark.parametrize(
    ("block", "rate", "said"),
    [
        (np.full(9, 12_000.0), None, "stream: samples reach 12000; they must be finite and lie between -1 and 1"),
        (np.zeros(9, np.uint8), None, "stream: its type is uint8; give int16, int32, or floats"),
        (np.zeros(9, np.float32), 3, "stream: its rate is 3; give a number from 1000"),
    ],
)
def test_blocks_that_are_no_samples_are_refused(streaming_run, block, rate, said):
    with pytest.raises(DataError, match=said):
        list(StreamRecognizer(streaming_run, segmentation=ENERGY).stream([block], rate))


def test_several_recordings_are_a_list_of_paths(tiny_run, recognizer):
    files = [tiny_run.test_dir / f"test-{index:02d}.wav" for index in range(2)]
    several = [str(files[0]), files[1]], map(Request, files), np.array(files)
    assert len({repr(list(recognizer.transcribe_all(each))) for each in several}) == 1
    with pytest.raises(DataError, match="a.wav: transcribe_all takes several recordings; give a list"):
        recognizer.transcribe_all("a.wav")
    for single in (None, 3, b"RIFF", {"array": [0]}, np.zeros(9), torch.zeros(9), Request("a.wav"), io.BytesIO()):
        with pytest.raises(DataError, match=f"a {type(single).__name__}: transcribe_all takes several recordings"):
            recognizer.transcribe_all(single)
    with pytest.raises(DataError, match="audio is a list; .* for several recordings call transcribe_all"):
        recognizer.transcribe(files)


def test_hotwords_are_given_as_phrases_or_a_file_and_per_call(tiny_run, recognizer, tmp_path, caplog):
    samples, strong = tones(1, seed=0), {"hotword_weight": 30.0}
    plain = recognizer(samples, RATE, options=strong)
    words = ["ca", " b "]
    (tmp_path / "words").write_text("ca\nb\n")
    found = recognizer(samples, RATE, options=strong, hotwords=words)
    assert found.text != plain.text and ("ca" in found.text or "b" in found.text)
    assert found == recognizer(samples, RATE, **strong, hotwords=tmp_path / "words")
    assert recognizer(samples, RATE, options=strong) == plain
    of_constructor = Recognizer(
        tiny_run.model_dir, options=replace(OPTIONS, **strong), segmentation=WHOLE, fusion=Fusion(hotwords=words)
    )
    assert of_constructor(samples, RATE) == found
    assert recognizer(samples, RATE, options=strong, hotwords=["Ж", *words]) == found
    assert "hotwords:1: 'Ж' is left out" in caplog.text


def test_a_device_of_pytorch_and_a_mapping_of_segmentation_are_taken(tiny_run, recognizer, streaming_run):
    cpu, whole = torch.device("cpu"), {"vad": "none", "max_seconds": 1.3}
    given = Recognizer(tiny_run.model_dir, device=cpu, options=OPTIONS, segmentation=whole)
    assert given(tones(2, seed=0), RATE) == recognizer(tones(2, seed=0), RATE) and given.search.device == "cpu"
    online = StreamRecognizer(streaming_run, device=cpu, segmentation={"vad": "energy"})
    assert online.search.device == "cpu" and online.segmentation == ENERGY
    with pytest.raises(ConfigError, match="unknown option 'vda' of the segmentation; did you mean 'vad'"):
        Recognizer(tiny_run.model_dir, segmentation={"vda": "none"})


def test_arguments_of_another_type_are_refused(recognizer, tiny_translation):
    samples = torch.from_numpy(tones(1, seed=0))
    for tensor in (samples.clone().requires_grad_(), samples.bfloat16()):
        with pytest.raises(DataError, match="audio array: cannot be read as an array .*; give an array of NumPy"):
            recognizer(tensor, RATE)
    with pytest.raises(DataError, match="a source is empty; give a file, a folder or -"):
        recognizer("")
    translator = Translator(tiny_translation.model_dir, options=SearchOptions(beam_size=1))
    for text, kind in ((None, "NoneType"), ([None], "NoneType"), (b"abc", "bytes"), (5, "int")):
        with pytest.raises(DataError, match=f"a text is a {kind}; give a text as str, or a list of them"):
            translator.translate(text)


def test_no_translation_within_the_lengths_is_not_certain(tiny_translation):
    translator = Translator(tiny_translation.model_dir, options=SearchOptions(minlenratio=-50, maxlenratio=0.1))
    assert translator.translate(["abc", " "]) == [("", float("-inf"), (), ()), ("", 0.0, (), ())]


def test_options_are_a_mapping(tiny_run, recognizer):
    samples = tones(1, seed=0)
    expected = recognizer(samples, RATE, options=replace(OPTIONS, beam_size=3, nbest=3))
    assert recognizer(samples, RATE, options={"beam_size": 3, "nbest": 3}) == expected
    assert Recognizer(tiny_run.model_dir, options={"beam_size": 3}).search.options.beam_size == 3
    with pytest.raises(ConfigError, match="unknown option 'beam' of the search; did you mean 'beam_size'"):
        recognizer(samples, RATE, options={"beam": 3})


def test_segments_come_as_they_are_decoded(recognizer):
    samples, seen = tones(9, seed=3), []
    segments = recognizer.segments(samples, RATE, word_timestamps=True, on_progress=lambda *now: seen.append(now))
    assert not seen
    first = next(segments)
    assert 0 < seen[-1][0] < 9 == seen[-1][1]
    whole = recognizer(samples, RATE, word_timestamps=True, on_progress=lambda *now: seen.append(now))
    assert [each.text for each in (first, *segments)] == [each.text for each in whole.segments]
    assert seen[-1] == (9, 9) and len(whole.segments) > 4
    with pytest.raises(DataError, match="no such audio file"):
        list(recognizer.segments("missing.wav"))


def test_transcripts_are_written_as_files_are(recognizer):
    transcript = recognizer(tones(2, seed=3), RATE)
    assert transcript.to_json("a") == FORMATS["json"](transcript, "a")
    assert transcript.to_srt() == FORMATS["srt"](transcript, "") != ""
    assert transcript.to_vtt() == FORMATS["vtt"](transcript, "") != ""


def test_repr_shows_model_task_rate_and_device(tmp_path, recognizer, tiny_translation):
    run = write_run(tmp_path / "run", "diverse_contextual_block_transformer", languages=["en", "de"])
    online = StreamRecognizer(run, conditions={"lang": "en"}, segmentation=ENERGY)
    assert repr(online) == f"<StreamRecognizer {run}: asr, 16000 Hz, cpu, language: en de>"
    assert repr(recognizer) == f"<Recognizer {recognizer.model}: asr, 16000 Hz, cpu>"
    assert repr(Translator(tiny_translation.model_dir)) == f"<Translator {tiny_translation.model_dir}: mt, cpu>"


def test_the_package_has_the_classes_and_is_imported_at_once():
    code = "import sys, espnet_diverse; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert espnet_diverse.Recognizer is Recognizer and espnet_diverse.StreamRecognizer is StreamRecognizer
    with pytest.raises(AttributeError, match="module 'espnet_diverse' has no attribute 'Recogniser'"):
        espnet_diverse.Recogniser  # noqa: B018


WATCHED = """
import sys
asked = []
network = ("socket.", "urllib.Request", "http.client.", "ftplib.", "subprocess.Popen", "os.exec", "os.system")
def watch(event, arguments):
    if event == "subprocess.Popen" and str(arguments[0]).endswith("/ldconfig"):
        return  # PyTorch's CUDA build looks for libraries of this machine
    if event.startswith(network) and event not in ("socket.__new__", "socket.gethostname"):
        asked.append(event)
        raise OSError(f"{event} is blocked")
sys.addaudithook(watch)
import espnet_diverse.inference
slow = {"numba", "transformers", "nltk.corpus", "g2p_en.g2p"} & sys.modules.keys()
sys.exit(f"{asked} {slow}" if asked or slow else 0)
"""


def test_the_import_asks_no_network_and_says_nothing(tmp_path):
    environment = {**os.environ, "HOME": str(tmp_path), "NLTK_DATA": str(tmp_path)}  # without data of nltk
    done = subprocess.run([sys.executable, "-c", WATCHED], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
