"""Many recordings in batches: none changes the result of another."""

from dataclasses import replace
from itertools import pairwise

import pytest
import soundfile
import torch
from references.tones import tones
from references.whisper import write_whisper

from espnet_diverse.decoding.condition_ids import KnownConditions
from espnet_diverse.decoding.ctc_alignment import ctc_support
from espnet_diverse.decoding.options import SearchOptions
from espnet_diverse.errors import DataError
from espnet_diverse.inference import Recognizer, Request, SegmentationOptions
from espnet_diverse.runs.packed.whisper import write_run
from espnet_diverse.scope import current
from espnet_diverse.transcription import alignment, recordings

RATE = 16_000


WHOLE = SegmentationOptions(vad="none", max_seconds=1.3)


OPTIONS = SearchOptions(beam_size=2, ctc_weight=0.4, batch_size=2, maxlenratio=0.3)


@pytest.fixture(scope="module")
def recognizer(tiny_run):
    return Recognizer(tiny_run.model_dir, options=OPTIONS, segmentation=WHOLE)


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


def test_segments_in_the_window_are_counted_without_decoding_any(recognizer, twelve, monkeypatch):
    segments = [len(transcript.segments) for transcript in recognizer.transcribe_all(map(Request, twelve))]
    monkeypatch.delattr(type(recognizer.search), "find")
    monkeypatch.setattr(recordings, "identify_language", None)
    transcription = recordings.Transcription(recognizer.search, recognizer.segmentation)
    counts = [transcription.count(Request(path)) for path in (*twelve, "gone.wav")]
    assert transcription.window == 8
    assert counts == [*(count if count < 8 else 0 for count in segments), 0] and counts.count(0) > 2


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

    def breaking(blocks, options, rate):
        opened.append(blocks)
        for count, chunk in enumerate(split(blocks, options, rate)):
            if len(opened) in (3, 9) and count == 9 * (len(opened) == 9):  # a short one, and a long one after a window
                raise MemoryError("no room")
            yield chunk

    monkeypatch.setattr(recordings, "split_speech", breaking)
    requests = [*map(Request, twelve[:2]), Request(twelve[2]), *map(Request, twelve[2:7]), Request(twelve[3])]
    found = list(recognizer.transcribe_all([*requests, *map(Request, twelve[7:])]))
    assert str(found.pop(8)) == str(found.pop(2)) == "no room"
    assert [repr(each) for each in found] == clean


def test_a_recording_that_breaks_the_search_fails_alone(recognizer, monkeypatch):
    find = recognizer.search.find

    def picky(sources, *others):
        if any(len(source) > 120 for source in sources):
            raise MemoryError("no room")
        return find(sources, *others)

    monkeypatch.setattr(recognizer.search, "find", picky)
    found = list(recognizer.transcribe_all([Request(tones(seconds, seed=1), RATE) for seconds in (0.75, 1.25, 1)]))
    assert isinstance(found[1], MemoryError) and found[0].segments and found[2].segments


def test_a_search_error_ends_the_segments_of_a_recording(recognizer, monkeypatch):
    def fail(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(recognizer.search, "find", fail)
    with pytest.raises(MemoryError, match="no room"):
        list(recordings.Transcription(recognizer.search, WHOLE).segments(Request(tones(1, seed=1), RATE)))


def test_words_of_a_text_that_cannot_be_aligned_have_no_times(recognizer, monkeypatch, caplog):
    monkeypatch.setattr(alignment, "align", lambda *_: None)  # as with more tokens than frames
    (segment,) = recognizer(tones(1, seed=0), RATE, word_timestamps=True).segments
    assert segment.text and segment.words == () == segment.confidences and segment.ctc_support == 0
    assert f"{len(segment.tokens)} tokens cannot be aligned to " in caplog.text
    assert "frames from 0.00 s on; their words get no times" in caplog.text


@pytest.fixture
def asked(recognizer, monkeypatch):
    """The conditions of each search by a model that knows conditions."""
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


def test_a_condition_that_does_not_exist_is_refused_each_time(recognizer, asked):
    requests = [Request(tones(1, seed=0), RATE, {"language": "de"})] * 2
    found = [str(each) for each in recognizer.transcribe_all(requests)]
    assert found == ["condition 'language' is unknown; known: lang tgtlang domain"] * 2


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


@pytest.mark.parametrize(("seconds", "used"), [(6.0, [2.144, 2.816, 1.04]), (3.0, [2.144]), (1.5, [1.5])])
def test_a_language_is_found_from_so_many_seconds_of_speech(recognizer, asked, monkeypatch, seconds, used):
    """The last segment is cut to what is left, and left out where that is less than a second."""
    seen = []
    monkeypatch.setattr(recordings, "identify_language", lambda _, some, *others: seen.extend(some) or {"de": 1})
    monkeypatch.setattr(recordings, "_LANGUAGE_SECONDS", seconds)
    transcription = recordings.Transcription(recognizer.search, SegmentationOptions(vad="none", max_seconds=3))
    (transcript,) = transcription([Request(tones(12, seed=0), RATE)])
    lengths = [segment.end - segment.start for segment in transcript.segments]
    assert lengths[:3] == pytest.approx([2.144, 2.816, 2.816])
    hop = recognizer.search.encoding.model.frontend.hop_length / RATE
    assert [len(features) * hop for features in seen] == pytest.approx(used, abs=2 * hop)


@pytest.mark.parametrize("on_segments", [None, lambda segments: None])
def test_so_many_seconds_are_heard_where_a_window_has_less(recognizer, asked, monkeypatch, on_segments):
    seen = []
    monkeypatch.setattr(recordings, "identify_language", lambda _, some, *others: seen.append(len(some)) or {"de": 1})
    monkeypatch.setattr(recordings, "_LANGUAGE_SECONDS", 8.0)
    transcription = recordings.Transcription(recognizer.search, WHOLE, options=replace(OPTIONS, batch_size=1))
    for seconds, windows in ((7, False), (20, True)):
        request = Request(tones(seconds, seed=0), RATE, on_segments=on_segments)
        (transcript,) = transcription([request])
        ends = [segment.end for segment in transcript.segments]
        assert ends[-1] == pytest.approx(seconds) and len(set(ends)) == len(ends) > transcription.window
        assert list(transcription.segments(request)) == list(transcript.segments)
        assert seen == [seen[0]] * 2 and seen[0] == sum(end < 8 for end in ends) + windows
        assert transcription.count(request) == 0
        seen.clear()


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
    recognizer.search.warned.clear()
    requests = [Request(tones(1, seed=0), RATE, {"lang": "de"})] * 2
    assert all(found.segments for found in recognizer.transcribe_all(requests))
    assert caplog.text.count("--language de has no effect") == 1


def test_times_are_monotone_and_inside_the_recording(recognizer, twelve):
    for path in twelve[::3]:
        transcript = recognizer(path)
        assert transcript.duration == soundfile.info(path).duration
        edges = [edge for segment in transcript.segments for edge in (segment.start, segment.end)]
        assert edges == sorted(edges) and edges[0] >= 0 and edges[-1] <= transcript.duration


@pytest.mark.parametrize("index", [2, 3], ids=["within a window", "longer than one"])
def test_progress_goes_from_the_beginning_to_the_end(recognizer, twelve, index):
    reports: list[tuple[float, float]] = []
    requests = [Request(twelve[index], on_progress=lambda *seconds: reports.append(seconds)), Request(twelve[0])]
    transcript, _ = recognizer.transcribe_all(requests)
    done, lengths = zip(*reports, strict=True)
    assert set(lengths) == {transcript.duration} and done[0] == 0 and done[-1] == transcript.duration
    steps = [other - one for one, other in pairwise(done) if other - one > 1e-9]  # one as each segment is decoded
    expected = [segment.end - segment.start for segment in transcript.segments]
    assert sorted(steps) == pytest.approx(sorted(expected)) and len(steps) > 1


def test_segments_come_as_they_are_decoded(recognizer, twelve):
    told = {path: [] for path in twelve}
    requests = [Request(path, on_segments=told[path].append) for path in twelve]
    found = list(recognizer.transcribe_all(requests))
    for path, transcript in zip(twelve, found, strict=True):
        assert [one for segments in told[path] for one in segments] == list(transcript.segments)
    assert max(map(len, told.values())) > 1  # of a recording that is longer than a batch


def test_segments_come_in_the_order_of_time_while_later_ones_are_decoded(recognizer, twelve, monkeypatch):
    """The longest segments of a batch are searched first; no segment is told before those ahead of it."""
    told, searched = [], []
    transcription = recordings.Transcription(recognizer.search, recognizer.segmentation)
    monkeypatch.setattr(transcription.search, "batch_frames", 1)  # a search for each segment
    find = transcription.search.find
    monkeypatch.setattr(transcription.search, "find", lambda *args: searched.append(len(told)) or find(*args))
    (transcript,) = transcription([Request(twelve[5], on_segments=told.extend)])
    assert told == list(transcript.segments)
    assert any(0 < count < len(told) for count in searched)


def test_segments_of_one_recording_are_told_as_they_are_given(recognizer, twelve):
    told = []
    transcription = recordings.Transcription(recognizer.search, recognizer.segmentation)
    given = list(transcription.segments(Request(twelve[5], on_segments=told.append)))
    assert [one for segments in told for one in segments] == given
    assert len(told) > 1 and all(told)


@pytest.mark.parametrize("given_up", [2, 7])
def test_a_recording_that_is_given_up_costs_no_more_searches_and_changes_no_other(
    recognizer, twelve, clean, given_up, monkeypatch
):
    class GivenUpError(Exception):
        pass

    def give_up(done, length):
        if done:
            raise GivenUpError

    searched = []
    find = recognizer.search.find
    monkeypatch.setattr(recognizer.search, "find", lambda *a, **k: (searched.append(len(a[0])), find(*a, **k))[1])
    list(recognizer.transcribe_all(map(Request, twelve)))
    before = sum(searched)
    searched.clear()
    requests = [Request(path, on_progress=give_up if index == given_up else None) for index, path in enumerate(twelve)]
    found = list(recognizer.transcribe_all(requests))
    assert isinstance(found.pop(given_up), GivenUpError)
    assert [repr(one) for one in found] == [one for index, one in enumerate(clean) if index != given_up]
    assert sum(searched) < before if given_up == 7 else sum(searched) <= before


def test_nothing_more_is_read_of_a_recording_that_is_given_up(recognizer, twelve, monkeypatch):
    read, split = [], recordings.split_speech

    def listening(*args):
        for chunk in split(*args):
            read.append(chunk.start)
            yield chunk

    monkeypatch.setattr(recordings, "split_speech", listening)
    window = recordings.Transcription(recognizer.search, WHOLE).window
    (found,) = recognizer.transcribe_all([Request(twelve[7], on_progress=lambda done, length: done and 1 / 0)])
    assert isinstance(found, ZeroDivisionError) and len(read) == window


def test_an_unknown_name_is_refused(recognizer, asked):
    with pytest.raises(DataError, match="--language xx: unknown language; this model knows: ar de"):
        recognizer(tones(1, seed=0), RATE, language="xx")


def test_a_missing_target_language_is_said_before_a_language_is_found(recognizer, asked, monkeypatch):
    monkeypatch.setattr(recognizer.search, "task", "st")
    said = "the target language is missing; give --target_language; this model knows: ar de"
    with pytest.raises(DataError, match=said):
        recognizer(tones(1, seed=0), RATE)


def test_segments_have_the_support_of_ctc_unless_it_wrote_the_text(recognizer, tiny_run):
    samples, search = tones(1, seed=0), recognizer.search
    (segment,) = recognizer(samples, RATE).segments
    spans = search.spans(search.features(samples), {}, search.tokens.indices(segment.tokens))
    assert segment.ctc_support == ctc_support(spans) and segment.tokens and not segment.confidences
    for options in (replace(OPTIONS, ctc_weight=1.0), replace(OPTIONS, search="greedy")):
        by_ctc = Recognizer(tiny_run.model_dir, options=options, segmentation=WHOLE)
        for times in (False, True):
            assert by_ctc(samples, RATE, word_timestamps=times).segments[0].ctc_support is None


def test_a_text_that_ctc_does_not_hear_may_be_invented(tiny_run):
    options = replace(OPTIONS, ctc_weight=0.0)
    recognizer = Recognizer(tiny_run.model_dir, options=options, segmentation=WHOLE)
    with torch.no_grad():
        recognizer.search.ctc.ctc_lo.bias[0] += 20  # blank, as for noise
    (segment,) = recognizer(tones(1, seed=0), RATE).segments
    assert segment.ctc_support == 0.0 and segment.tokens and segment.may_be_invented
    assert not replace(segment, ctc_support=None).may_be_invented


def test_a_click_does_not_hold_back_the_recordings_after_it(tmp_path):
    """With times by Whisper, whose windows follow each other, a recording without a window is done at once."""
    write_run(write_whisper(tmp_path / "whisper"), tmp_path / "run")
    options = {"beam_size": 1, "batch_size": 1, "maxlenratio": -4}
    recognizer, read = Recognizer(tmp_path / "run", options=options, segmentation={"vad": "whisper"}), []

    def requests():
        for seconds in (0.05, *[0.5] * 8):
            read.append(seconds)
            yield Request(tones(0.5, seed=1)[: int(16_000 * seconds)], 16_000, {"lang": "de"})

    assert next(recognizer.transcribe_all(requests())).segments == () and len(read) == 1
