import threading
import time
from concurrent.futures import ThreadPoolExecutor

from espnet_diverse.demo.base_service import ModelService
from espnet_diverse.serve.limits import Limits


def test_what_the_page_is_told(speech, translation, tiny_run):
    about = speech.about()
    assert about["name"] == tiny_run.model_dir.name and about["task"] == "asr" and about["conditions"] == []
    assert about["rate"] == 16_000 and translation.about()["rate"] is None
    assert about["description"] == "Speech recognition." and (about["beam_size"], about["nbest"]) == (10, 5)
    assert about["limits"] == {"seconds": 2.0, "megabytes": 0.5, "characters": 60}
    assert translation.about()["task"] == "mt" and translation.about()["description"] == "Text translation."


def test_the_page_is_told_what_the_model_card_says(speech, translation):
    facts, count = dict(speech.about()["facts"]), speech.search.parameters
    assert count > sum(parameter.numel() for parameter in speech.search.encoding.model.encoder.parameters()) > 0
    assert facts["parameters"] == f"{count / 1e6:.2f} M" and facts["sampling rate"] == "16000 Hz"
    assert facts["encoder attention"] == facts["decoder cross-attention"] == "sdma"
    assert "sampling rate" not in dict(translation.about()["facts"])
    assert not [name for name in facts if name.startswith("scores")]


def test_the_page_is_told_the_scores_of_the_run(speech, scored_run, monkeypatch):
    monkeypatch.setattr(speech.results, "model_dir", scored_run)
    assert ["scores of decode/test", "WER 26.0, CER 9.0"] in [list(fact) for fact in speech.about()["facts"]]


def test_the_options_of_a_request_are_not_kept(speech, tiny_run):
    audio, sizes = (tiny_run.test_dir / "test-00.wav").read_bytes(), ("1", "4") * 4
    with ThreadPoolExecutor(2) as pool:
        chosen = [{"beam_size": size, "nbest": size} for size in sizes]
        found = list(pool.map(lambda choices: speech.run(audio, choices), chosen))
    assert [len(one["segments"][0]["alternatives"]) for one in found] == [int(size) for size in sizes]
    assert speech.search.options.beam_size == 10


def test_one_request_at_a_time_goes_through_the_model(translation):
    class Slow(ModelService):
        running, most = 0, 0

        def _run(self, body, choices, options):
            self.running += 1
            self.most = max(self.most, self.running)
            time.sleep(0.02)
            self.running -= 1
            return {}

    slow = Slow("slow", translation.search, None, Limits())
    threads = [threading.Thread(target=slow.run, args=(b"", {})) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert slow.most == 1
