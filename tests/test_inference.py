"""Recognizer and Translator: texts are those of the decode command, and no recording changes another's result."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import soundfile

from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.decoding.decode_dir import decode
from espnet_diverse.decoding.options import Options
from espnet_diverse.decoding.predictor import load_predictor
from espnet_diverse.errors import ConfigError, DataError, ModelError
from espnet_diverse.inference import Recognizer, Request, SegmentationOptions, Translator
from espnet_diverse.scope import current
from espnet_diverse.transcription import recordings

RATE = 16_000
WHOLE = SegmentationOptions(vad="none", max_seconds=1.3)
OPTIONS = Options(beam_size=2, ctc_weight=0.4, batch_size=2, maxlenratio=0.3)


@pytest.fixture(scope="module")
def recognizer(tiny_run):
    return Recognizer(tiny_run.model_dir, options=OPTIONS, segmentation=WHOLE)


def tones(seconds, seed):
    """Samples (T,) of random tones of the training data, four a second."""
    random = np.random.default_rng(seed)
    time = np.arange(RATE // 4) / RATE
    drawn = random.choice([300, 600, 1200, 2400], round(4 * seconds))
    signal = np.concatenate([0.3 * np.sin(2 * np.pi * frequency * time) for frequency in drawn])
    return (signal + 0.01 * random.standard_normal(signal.size)).astype(np.float32)


def test_texts_and_scores_are_those_of_decode(tiny_run, recognizer, tmp_path):
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


def test_what_is_too_short_to_be_said_has_no_segment(recognizer):
    for count in (1, 200, 700):
        assert recognizer(tones(1, seed=0)[:count], RATE).segments == ()


@pytest.fixture(scope="module")
def twelve(tmp_path_factory):
    """Recordings of several lengths; three are longer than a window of eight segments."""
    folder = tmp_path_factory.mktemp("twelve")
    lengths = (1, 0.5, 2, 11, 0.75, 3, 0.25, 20, 1, 1.25, 9, 2)
    for index, seconds in enumerate(lengths):
        soundfile.write(folder / f"{index}.wav", tones(seconds, seed=index), RATE)
    return [folder / f"{index}.wav" for index in range(len(lengths))]


@pytest.fixture(scope="module")
def clean(recognizer, twelve):
    return [repr(found) for found in recognizer.transcribe_all(map(Request, twelve))]


@pytest.mark.parametrize("bad", [0, 3, 5])
def test_a_bad_recording_changes_no_digit_of_another(recognizer, twelve, clean, bad, tmp_path):
    (tmp_path / "bad.wav").write_text("not audio")
    files = [tmp_path / "bad.wav" if index == bad else path for index, path in enumerate(twelve)]
    without = recognizer.transcribe_all(Request(path) for index, path in enumerate(twelve) if index != bad)
    expected = [repr(found) for found in without]
    found = list(recognizer.transcribe_all(map(Request, files)))
    assert "not readable as audio" in str(found.pop(bad)) and [repr(each) for each in found] == expected


def test_a_recording_that_breaks_while_it_is_read_changes_no_digit_of_another(recognizer, twelve, clean, monkeypatch):
    split, opened = recordings.split_speech, []

    def breaking(blocks, options):
        opened.append(blocks)
        for count, chunk in enumerate(split(blocks, options)):
            if len(opened) in (3, 9) and count == 9 * (len(opened) == 9):  # a short one, and a long one after a window
                raise MemoryError("no room")
            yield chunk

    monkeypatch.setattr(recordings, "split_speech", breaking)
    requests = [*map(Request, twelve[:2]), Request(twelve[2]), *map(Request, twelve[2:7]), Request(twelve[3])]
    found = list(recognizer.transcribe_all([*requests, *map(Request, twelve[7:])]))
    assert str(found.pop(8)) == str(found.pop(2)) == "no room"
    assert [repr(each) for each in found] == clean


def test_times_are_monotone_and_inside_the_recording(recognizer, twelve):
    for path in twelve[::3]:
        transcript = recognizer(path)
        assert transcript.duration == soundfile.info(path).duration
        edges = [edge for segment in transcript.segments for edge in (segment.start, segment.end)]
        assert edges == sorted(edges) and edges[0] >= 0 and edges[-1] <= transcript.duration


def test_what_breaks_the_search_fails_alone(recognizer, monkeypatch):
    find = recognizer.search.find

    def picky(sources, conditions, options, posteriors):
        if any(len(source) > 120 for source in sources):
            raise MemoryError("no room")
        return find(sources, conditions, options, posteriors)

    monkeypatch.setattr(recognizer.search, "find", picky)
    found = list(recognizer.transcribe_all([Request(tones(seconds, seed=1), RATE) for seconds in (0.75, 1.25, 1)]))
    assert isinstance(found[1], MemoryError) and found[0].segments and found[2].segments


def test_threads_share_a_recognizer(recognizer, twelve):
    files = [*twelve[:3], *twelve[4:7], *twelve[8:10]]
    alone = [repr(recognizer(path)) for path in files]
    with ThreadPoolExecutor(4) as pool:
        together = [repr(found) for found in pool.map(recognizer, [*files, *files])]
    assert together == [*alone, *alone]


def test_threads_with_other_options_share_a_recognizer(recognizer):
    samples = tones(1, seed=0)
    several = [replace(OPTIONS, beam_size=size, nbest=size, maxlenratio=0) for size in (1, 6)]
    alone = [recognizer(samples, RATE, options=options) for options in several]
    assert [len(found.segments[0].alternatives) for found in alone] == [1, 6]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda options: recognizer(samples, RATE, options=options), several * 6))
    assert together == alone * 6 and recognizer.search.options == OPTIONS


def test_options_of_one_translation(tiny_translation):
    translator = Translator(tiny_translation.model_dir, options=Options(beam_size=1))
    three = Options(beam_size=3, nbest=3)
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


def test_without_ctc_there_are_no_word_times(recognizer, monkeypatch):
    monkeypatch.setattr(recognizer.search, "ctc", None)
    with pytest.raises(ConfigError, match="word_timestamps is not possible"):
        recognizer(tones(1, seed=0), RATE, word_timestamps=True)


@pytest.fixture
def asked(recognizer, monkeypatch):
    """What a model that knows conditions is asked for."""
    heard = []

    def listen(source, lengths, options):
        heard.append({condition: ids.tolist() for condition, ids in current().conditions.items()})
        return [[] for _ in lengths]

    names = {"lang": ["ar", "de"], "tgtlang": ["ar", "de"], "domain": ["news"]}
    monkeypatch.setattr(recognizer.search, "conditions", KnownConditions(names))
    monkeypatch.setattr(recognizer.search, "search", listen)
    return heard


def test_each_recording_has_its_own_tasks(recognizer, asked):
    named = [{"lang": "de"}, {"lang": "ar", "tgtlang": "de"}]
    found = list(recognizer.transcribe_all(Request(tones(1, seed=0), RATE, conditions) for conditions in named))
    assert asked == [{"lang": [1, 0], "tgtlang": [1, 1], "domain": [0, 0]}]
    assert found[0].conditions == {"lang": "de", "tgtlang": "de", "domain": "news"}
    assert found[0].text == "" and len(found[0].segments) == 1
    assert [each.language for each in found] == ["de", "ar"]


def test_a_language_that_is_not_given_is_found(recognizer, asked, monkeypatch):
    seen = []

    def identify_language(search, features, conditions, options):
        seen.append((len(features), conditions))
        return {"de": 0.9, "ar": 0.1}

    monkeypatch.setattr(recordings, "identify_language", identify_language)
    monkeypatch.setattr(recordings, "_LANGUAGE_SECONDS", 5.0)
    transcript = recognizer(tones(10, seed=0), RATE)
    (listened,) = seen
    assert listened[1] == {"domain": 0} and 0 < listened[0] < len(transcript.segments)
    assert sum(segment.end - segment.start for segment in transcript.segments[: listened[0] - 1]) < 5
    assert transcript.conditions["lang"] == "de" and transcript.language_probabilities == {"de": 0.9, "ar": 0.1}
    assert asked[0] == {"lang": [1, 1], "tgtlang": [1, 1], "domain": [0, 0]}
    assert transcript.language == "de"
    silent = Recognizer.transcribe(recognizer, tones(1, seed=0)[:200], RATE)
    assert silent.conditions == {"domain": "news"} and silent.language_probabilities is None and len(seen) == 1
    assert silent.language is None


@pytest.mark.parametrize(
    ("task", "names", "given", "language"),
    [
        ("asr", {}, {}, None),
        ("asr", {}, {"lang": "de"}, "de"),
        ("asr", {"tgtlang": ["ar", "de"]}, {"lang": "de"}, "de"),
        ("asr", {"tgtlang": ["ar", "de"]}, {"tgtlang": "de"}, "de"),
        ("asr", {"tgtlang": ["de"]}, {}, "de"),
        ("st", {"tgtlang": ["en"]}, {}, None),
        ("st", {"tgtlang": ["en"]}, {"lang": "es"}, "es"),
        ("st", {"lang": ["es"], "tgtlang": ["en"]}, {}, "es"),
    ],
)
def test_the_language_that_is_spoken(recognizer, asked, monkeypatch, task, names, given, language):
    monkeypatch.setattr(recognizer.search, "conditions", KnownConditions(names))
    monkeypatch.setattr(recognizer.search, "task", task)
    (transcript,) = recognizer.transcribe_all([Request(tones(1, seed=0), RATE, given)])
    assert transcript.language == language


def test_a_name_without_effect_is_said_once(recognizer, caplog):
    requests = [Request(tones(1, seed=0), RATE, {"lang": "de"})] * 2
    assert all(found.segments for found in recognizer.transcribe_all(requests))
    assert caplog.text.count("--language de has no effect") == 1


def test_an_unknown_name_is_refused(recognizer, asked):
    with pytest.raises(DataError, match="--language xx: unknown language; this model knows: ar de"):
        recognizer(tones(1, seed=0), RATE, language="xx")


def test_a_missing_target_language_is_said_before_a_language_is_found(recognizer, asked, monkeypatch):
    monkeypatch.setattr(recognizer.search, "task", "st")
    said = "the target language is missing; give --target_language; this model knows: ar de"
    with pytest.raises(DataError, match=said):
        recognizer(tones(1, seed=0), RATE)


def test_translations_are_those_of_decode(tiny_translation, tmp_path):
    run = tiny_translation
    options = Options(beam_size=3, nbest=2)
    results = decode(load_predictor(run.model_dir, options=options), run.test_dir, tmp_path)
    translator = Translator(run.model_dir, options=options)
    sources = [line.split()[1] for line in (run.test_dir / "src_text").read_text().splitlines()]
    found = translator.translate([*sources, " "])
    assert [each.text for each in found[:-1]] == [one.text for one in results]
    assert [each.score for each in found[:-1]] == pytest.approx([one.score for one in results], rel=0, abs=1e-5)
    assert all(each.alternatives[0] == each[:2] or len(each.alternatives) == 2 for each in found[:-1])
    assert found[-1] == ("", 0.0, (), ())
    assert ["".join(each.tokens) for each in found] == [each.text for each in found] and any(found[0].tokens)
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
            lambda speech, text: Recognizer(speech, options=Options(search="espnet")),
            ConfigError,
            "search=espnet is not possible here; possible: batched greedy sampling; use espnet-diverse decode for it",
        ),
        (
            lambda speech, text: Translator(text, options=Options(search="greedy")),
            ConfigError,
            "search=greedy is not possible here; possible: batched sampling$",
        ),
    ],
)
def test_what_is_not_possible_is_refused(tiny_run, tiny_translation, build, error, said):
    with pytest.raises(error, match=said):
        build(tiny_run.model_dir, tiny_translation.model_dir)
