"""One model file for several languages: decoding with a language an utterance, and with one for all."""

import json
import os
import shutil
import socket
import sys

import pytest
import yaml

from espnet_diverse.bin.main import main
from espnet_diverse.data.files.locks import folder_lock
from espnet_diverse.decoding.predictor import Predictor
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.tasks import ASRTask

UTTERANCES = ["test-00", "test-01", "test-02"]


def decoded(arguments, output_dir, *options):
    search = ["--set", "beam_size=2", "--set", "minlenratio=0.2"]
    assert main(["decode", *arguments, *search, "--output_dir", str(output_dir), *options]) == 0
    lines = (output_dir / "score").read_text().splitlines()
    assert [line.split()[0] for line in lines] == UTTERANCES
    return [float(line.split()[1]) for line in lines]


def test_a_language_an_utterance_is_as_each_language_alone(of_translation, tmp_path):
    mixed = decoded(of_translation, tmp_path / "mixed")
    spanish = decoded(
        of_translation, tmp_path / "es", "--language", "es", "--target_language", "en", "--domain", "news"
    )
    arabic = decoded(of_translation, tmp_path / "ar", "--language", "ar", "--target_language", "de", "--domain", "news")
    assert mixed[0] == spanish[0] and mixed[2] == arabic[2]
    assert mixed[0] != arabic[0] and mixed[2] != spanish[2]


def test_an_unseen_pair_of_languages_is_translated(of_translation, tmp_path):
    pair = decoded(of_translation, tmp_path / "pair", "--language", "es", "--target_language", "de")
    assert pair[0] != decoded(of_translation, tmp_path / "seen")[0]


def test_workers_decode_for_the_same_tasks(of_translation, tmp_path):
    assert decoded(of_translation, tmp_path / "two", "--nj", "2") == decoded(of_translation, tmp_path / "one")
    numbers = json.loads((tmp_path / "two" / "decode.json").read_text())
    assert numbers["tokens"] > 0 and numbers["utterances"] == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--language", "xx"], "error: --language xx: unknown language; this model knows: ar es"),
        (["--nj", "0"], "error: --nj must be at least 1, but is 0"),
        (["--set", "ctc_weight=0.3"], "error: ctc_weight 0.3 is not possible: the model was trained without CTC"),
    ],
)
def test_invalid_options_are_refused(of_translation, tmp_path, capfd, options, said):
    assert main(["decode", *of_translation, "--output_dir", str(tmp_path), *options]) == 1
    assert said in capfd.readouterr().err and not (tmp_path / "text").exists()


def test_an_utterance_without_its_domain_is_refused(translation, of_translation, tmp_path, capfd):
    shutil.copytree(translation / "test", tmp_path / "data")
    (tmp_path / "data" / "utt2domain").write_text("test-00 news\ntest-02 talk\n")
    of_translation[-1] = str(tmp_path / "data")
    assert main(["decode", *of_translation, "--output_dir", str(tmp_path)]) == 1
    said = "utterance 'test-01' has no domain; add it to utt2domain of the data directory, or give --domain; this model"
    assert said in capfd.readouterr().err
    assert len(decoded(of_translation, tmp_path, "--domain", "talk")) == 3


def test_a_language_without_effect_is_warned_of_once(tiny_run, tmp_path, capfd):
    arguments = [str(tiny_run.model_dir), "--data_dir", str(tiny_run.test_dir)]
    decoded(arguments, tmp_path, "--language", "es")
    said = "WARNING: --language es has no effect: no part of this model depends on the language"
    assert capfd.readouterr().err.count(said) == 1


def test_failed_utterances_are_reported_and_the_rest_is_decoded(tiny_run, tmp_path, capfd, parse):
    wav_scp = (tiny_run.test_dir / "wav.scp").read_text()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "wav.scp").write_text(wav_scp + "bad /no/such.wav\n")
    arguments = [str(tiny_run.model_dir), "--data_dir", str(tmp_path / "data")]
    arguments += ["--output_dir", str(tmp_path / "out"), "--config", "decode/joint", "--set", "beam_size=2"]
    assert main(["decode", *arguments]) == 2
    shown = capfd.readouterr()
    assert "decoded 3 of 4 utterances (1 failed, 0 empty)" in shown.out
    assert "WARNING: bad was not decoded: /no/such.wav: no such audio file" in shown.err
    assert list(json.loads((tmp_path / "out" / "failures.json").read_text())) == ["bad"]
    assert main(["decode", *arguments, "--set", "search=espnet"]) == 2
    assert "BatchBeamSearch" in (tmp_path / "out" / "decode.log").read_text()
    module, args = parse("decode", arguments)
    assert all(path.exists() for path in module.inputs(args) + module.outputs(args))


def test_a_folder_that_another_process_writes_to_is_refused_before_the_model_is_read(tiny_run, tmp_path, capfd):
    arguments = ["decode", str(tiny_run.model_dir), "--data_dir", str(tiny_run.test_dir), "--beam_size", "2"]
    with folder_lock(tmp_path):
        assert main([*arguments, "--output_dir", str(tmp_path)]) == 1
        assert not (tmp_path / "decode.log").exists()
    (line,) = capfd.readouterr().err.splitlines()
    assert f"{tmp_path}: process {os.getpid()} on {socket.gethostname()} writes here now" in line
    assert main([*arguments, "--output_dir", str(tmp_path)]) == 0


@pytest.fixture
def stopped(tiny_run, tmp_path, monkeypatch):
    """Decode one of three utterances, be interrupted, decode with other arguments: the number of utterances then."""
    decoded, batch = [], Predictor.batch

    def counted(search, sources, *rest):
        if len(decoded) == 1:
            raise KeyboardInterrupt
        decoded.extend(sources)
        return batch(search, sources, *rest)

    def run(*changed, model_dir=tiny_run.model_dir, change=lambda: None):
        arguments = ["--data_dir", str(tiny_run.test_dir), "--output_dir", str(tmp_path / "out"), "--beam_size", "2"]
        monkeypatch.setattr(Predictor, "batch", counted)
        assert main(["decode", str(model_dir), *arguments, "--batch_size", "1"]) == 130
        change()
        decoded.append("the second call")
        assert main(["decode", str(model_dir), *arguments, *changed]) == 0
        return len(decoded) - 2

    return run


@pytest.mark.parametrize("changed", [["--batch_size", "1"], ["--batch_size", "2"], ["--batch_size", "3", "--debug"]])
def test_a_call_that_was_stopped_continues_after_the_last_batch(stopped, changed, capfd):
    assert stopped(*changed) == 2
    shown = capfd.readouterr()
    assert "interrupted; run the same command again to continue" in shown.err
    assert "1 of 3 utterances were decoded by a call that was stopped; 2 are left" in shown.out


@pytest.mark.parametrize(
    "changed",
    [
        *(["--beam_size", "3"], ["--nbest", "2"], ["--precision", "bfloat16"], ["--model_file", "1epoch.pth"]),
        *(["--penalty", "0.1"], ["--language", "es"], ["--hotwords", "HOTWORDS"]),
    ],
    ids=lambda changed: changed[0],
)
def test_results_of_another_model_or_of_other_options_are_decoded_again(stopped, tmp_path, changed):
    (tmp_path / "HOTWORDS").write_text("ab\n")
    changed = [str(tmp_path / each) if each == "HOTWORDS" else each for each in changed]
    assert stopped("--batch_size", "1", *changed) == 3


def test_a_model_that_was_trained_again_under_the_same_name_is_another(stopped, tiny_run, tmp_path):
    shutil.copytree(tiny_run.model_dir, tmp_path / "exp", ignore=shutil.ignore_patterns("stats"))
    weights = tmp_path / "exp" / "valid.acc.ave.pth"
    assert (
        stopped(model_dir=tmp_path / "exp", change=lambda: shutil.copy(tmp_path / "exp" / "1epoch.pth", weights)) == 3
    )


def test_decode_refuses_unknown_options_and_models(tiny_run, tmp_path, capfd):
    arguments = [str(tiny_run.model_dir), "--data_dir", str(tiny_run.test_dir)]
    arguments += ["--output_dir", str(tmp_path / "out")]
    assert main(["decode", *arguments, "--set", "beam=2"]) == 1
    assert "--set beam=2: unknown option 'beam'; did you mean 'beam_size'?" in capfd.readouterr().err
    assert main(["decode", *arguments, "--model_file", "best.pth"]) == 1
    assert "best.pth: no such model file; model files there: 1epoch.pth" in capfd.readouterr().err


def test_our_search_does_not_import_espnets(tiny_run, tmp_path, monkeypatch):
    """Which takes a second."""
    for name in ("espnet_diverse.decoding.espnet.espnet_search", "espnet2.bin.asr_inference"):
        monkeypatch.setitem(sys.modules, name, None)  # an import of it fails
    decoded([str(tiny_run.model_dir), "--data_dir", str(tiny_run.test_dir)], tmp_path)


def untrained(tiny_run, folder, **changes):
    """The folder of a model of the run's configuration with changes and random weights."""
    shutil.copytree(tiny_run.model_dir, folder)
    config = yaml.safe_load((folder / "config.yaml").read_text())
    (folder / "config.yaml").write_text(yaml.safe_dump(config | changes))
    model, _ = ASRTask.build_model_from_file(folder / "config.yaml")
    checkpoint.save(model.state_dict(), folder / "valid.acc.ave.pth")
    return folder


def test_a_model_with_a_postencoder_is_searched_by_espnet_unless_an_option_is_not_its_own(tiny_run, tmp_path, capfd):
    folder = untrained(tiny_run, tmp_path / "exp", postencoder="length_adaptor", postencoder_conf={})
    arguments = ["decode", str(folder), "--data_dir", str(tiny_run.test_dir), "--beam_size", "2", "--maxlenratio", "-3"]
    assert main([*arguments, "--output_dir", str(tmp_path / "out")]) == 0
    reason = "a model with a postencoder has no batched search"
    assert f"{reason}: ESPnet's is used, one utterance at a time" in capfd.readouterr().err
    for own in (["--search", "greedy"], ["--search", "sampling"], ["--length_penalty", "1"], ["--precision", "int8"]):
        assert main([*arguments, *own, "--output_dir", str(tmp_path / own[-1])]) == 1, own
        assert f"error: {reason}; use decode --search espnet" in capfd.readouterr().err


def test_a_model_of_ctc_alone_gets_no_other_weight(tiny_run, tmp_path, capfd):
    folder = untrained(tiny_run, tmp_path / "exp", decoder=None, model_conf={"ctc_weight": 1.0})
    arguments = ["decode", str(folder), "--data_dir", str(tiny_run.test_dir), "--output_dir", str(tmp_path / "out")]
    for search in ("batched", "espnet"):
        assert main([*arguments, "--search", search, "--ctc_weight", "0.5"]) == 1
        said = "espnet-diverse decode: error: ctc_weight 0.5 is not possible: the model has CTC alone; set ctc_weight=1"
        assert capfd.readouterr().err.splitlines()[-1] == said
    assert not (tmp_path / "out" / "text").exists() and main(arguments) == 0


def test_a_recurrent_decoder_is_searched_by_espnet_without_an_option(tiny_run, tmp_path, capfd):
    folder = untrained(tiny_run, tmp_path / "exp", decoder="rnn", decoder_conf={"hidden_size": 8})
    arguments = ["decode", str(folder), "--data_dir", str(tiny_run.test_dir), "--beam_size", "3", "--maxlenratio", "-4"]
    assert main([*arguments, "--output_dir", str(tmp_path / "own")]) == 0
    assert "RNNDecoder has no batched search: ESPnet's is used, one utterance at a time" in capfd.readouterr().err
    assert main([*arguments, "--search", "espnet", "--output_dir", str(tmp_path / "named")]) == 0
    for name in ("text", "score"):
        assert (tmp_path / "own" / name).read_text() == (tmp_path / "named" / name).read_text()
    assert main([*arguments, "--length_penalty", "1", "--output_dir", str(tmp_path / "no")]) == 1
    assert "length_penalty 1.0 is not possible with RNNDecoder" in capfd.readouterr().err
