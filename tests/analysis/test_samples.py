from functools import partial

import numpy as np
import pytest
import soundfile

from espnet_diverse.analysis.samples import batches, input_of, read_samples, read_speech, source_text
from espnet_diverse.audio.segments import Segment
from espnet_diverse.data.kaldi import DataDir, read_data_dir
from espnet_diverse.errors import DataError
from espnet_diverse.text.vocabulary import Vocabulary


def test_speech_and_text_are_read_as_the_search_reads_them(recognition, translated, tiny_run, tiny_translation):
    predictor, samples = recognition
    data = read_data_dir(tiny_run.test_dir)
    assert [sample.utterance for sample in samples] == sorted(data.text)
    np.testing.assert_array_equal(samples[0].source, predictor.read(data.wav_scp["test-00"])[0])
    assert Vocabulary.load(tiny_run.model_dir).decode(samples[0].tokens) == samples[0].text == data.text["test-00"]
    predictor, samples = translated
    data = read_data_dir(tiny_translation.test_dir)
    source = Vocabulary.load(tiny_translation.model_dir / "src_tokens")
    assert source.decode(samples[1].source) == data.src_text["test-01"]
    assert [sample.language for sample in samples[:3]] == ["yy", "zz", "yy"]  # of the translation


def test_a_segment_is_read_alone(tiny_run):
    data = read_data_dir(tiny_run.test_dir)
    data.segments, data.text = {"part": Segment("test-00", 0.25, 0.5)}, {"part": "b"}
    whole = soundfile.read(tiny_run.test_dir / "test-00.wav", dtype="float32")[0]
    np.testing.assert_array_equal(read_speech(data, "part", 16_000), whole[4000:8000])


def test_batches_hold_every_sample_once(recognition):
    predictor, samples = recognition
    predictor.batch_size = 2
    found = list(batches(predictor, samples))
    assert [len(batch) for batch in found] == [2, 1]
    assert {one.utterance for batch in found for one in batch} == {one.utterance for one in samples}


def test_missing_or_short_audio_is_left_out(recognition, tiny_run, tmp_path, caplog):
    read, data = partial(input_of, recognition[0]), read_data_dir(tiny_run.test_dir)
    soundfile.write(tmp_path / "short.wav", [0.1] * 800, 16_000)
    data.wav_scp |= {"test-00": "/no/such.wav", "test-01": str(tmp_path / "short.wav")}
    vocabulary = Vocabulary.load(tiny_run.model_dir)
    samples, skipped = read_samples(read, vocabulary, data, dict.fromkeys(data.text, {}))
    assert [sample.utterance for sample in samples] == ["test-02"] and list(skipped) == ["test-00", "test-01"]
    assert "no such audio file" in skipped["test-00"] and "too short" in skipped["test-01"]
    assert "test-00 was left out" in caplog.text
    with pytest.raises(DataError, match="none of 1 utterances could be read; first test-00: /no/such.wav"):
        read_samples(read, vocabulary, data, {"test-00": {}})


def test_an_utterance_that_is_in_one_table_alone_is_refused():
    data = DataDir(text={"a": "x"}, src_text={"b": "y"}, wav_scp={"b": "b.wav"})
    with pytest.raises(DataError, match="utterance 'a' is not in wav.scp; text has 'a'"):
        read_speech(data, "a", 16_000)
    for utterance, table in (("a", "src_text"), ("b", "text")):
        with pytest.raises(DataError, match=f"utterance '{utterance}' is not in {table}; text has 'a'"):
            source_text(data, utterance)
