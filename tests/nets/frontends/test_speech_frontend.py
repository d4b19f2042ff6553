"""Speech features of pretrained encoders, ones with random weights that are made on the spot; nothing is downloaded."""

import json
import shutil
import socket
import zipfile

import numpy as np
import pytest
import soundfile
import torch
import transformers
import yaml
from conftest import train_run, write_data_dir
from espnet2.asr.frontend.huggingface import HuggingFaceFrontend as Theirs
from espnet2.bin.asr_inference import Speech2Text
from references.small_model import SMALL
from references.speech_encoders import OPTIONS, write_encoder

from espnet_diverse.bin.main import main
from espnet_diverse.data.tables import read_table
from espnet_diverse.errors import ConfigError, DataError
from espnet_diverse.nets.frontends.speech_frontend import HuggingFaceFrontend, least_samples
from espnet_diverse.runs import checkpoint
from espnet_diverse.text.vocabulary import Vocabulary

BEAM = ["--beam_size", "3"]
LENGTHS = torch.tensor([16000, 9000, 12001])
each_kind = pytest.mark.parametrize("kind", OPTIONS)


@pytest.fixture
def samples():
    return torch.randn(3, 16000, generator=torch.Generator().manual_seed(1))


def hidden_states(folder, kind, samples, length):
    """Outputs of all layers by the library, for one recording alone: a list of arrays (T, M)."""
    prepare = transformers.AutoFeatureExtractor.from_pretrained(folder)
    encoder = transformers.AutoModel.from_pretrained(folder).eval()
    given = prepare(samples[:length].numpy(), sampling_rate=16000, return_tensors="pt")
    with torch.no_grad():
        if kind == "whisper":
            states = encoder.encoder(given["input_features"], output_hidden_states=True)
        else:
            states = encoder(**given, output_hidden_states=True)
    return [state[0] for state in (*states.hidden_states[:-1], states.last_hidden_state)]


@each_kind
def test_features_are_hidden_states_of_the_library(kind, samples, tmp_path):
    folder = str(write_encoder(tmp_path / kind, kind))
    frontends = [HuggingFaceFrontend(folder).eval(), HuggingFaceFrontend(folder, layer=1).eval()]
    summed = HuggingFaceFrontend(folder, multilayer_feature=True).eval()
    weights = torch.tensor([0.2, 0.5, 0.3])
    summed.layer_weights.data = weights.log()
    for row, length in zip(samples, LENGTHS, strict=True):
        one, count = row[None, :length], length[None]
        states = hidden_states(folder, kind, row, length)
        with torch.no_grad():
            (last, lengths), (first, _), (mixed, _) = (each(one, count) for each in (*frontends, summed))
        assert last.shape == (1, lengths[0], 16) and abs(int(lengths[0]) - length / 320) < 2
        assert torch.equal(last[0], states[-1][: lengths[0]])
        assert torch.equal(first[0], states[1][: lengths[0]])
        by_hand = sum(w * state for w, state in zip(weights, states, strict=True))
        torch.testing.assert_close(mixed[0], by_hand[: lengths[0]])


@each_kind
def test_outputs_and_parameters_match_espnets_frontend(kind, samples, tmp_path):
    folder = str(write_encoder(tmp_path / kind, kind))
    if kind == "whisper":
        with pytest.raises(ValueError, match="Frontend not supported"):
            Theirs(folder)
        return
    theirs = Theirs(folder).eval()
    ours = HuggingFaceFrontend(architecture=HuggingFaceFrontend(folder).architecture).eval()
    ours.load_state_dict(theirs.state_dict())
    with torch.no_grad():
        (x, lengths), (expected, expected_lengths) = ours(samples, LENGTHS), theirs(samples, LENGTHS)
    assert torch.equal(x, expected) and torch.equal(lengths, expected_lengths)
    assert ours.output_size() == theirs.output_size()


@each_kind
def test_the_shortest_recording_gives_one_frame(kind, tmp_path):
    frontend = HuggingFaceFrontend(str(write_encoder(tmp_path / kind, kind))).eval()
    count = least_samples(frontend)
    with torch.no_grad():
        x, lengths = frontend(torch.randn(1, count), torch.tensor([count]))
    assert x.shape == (1, 1, 16) and lengths.tolist() == [1] and frontend.hop_length == 320


def test_frame_positions_are_centres_of_receptive_fields(tmp_path):
    frontend = HuggingFaceFrontend(str(write_encoder(tmp_path / "x"))).eval()
    given = torch.randn(1, 4000, requires_grad=True)
    for frame in (0, 5):
        x = frontend.encoder.feature_extractor(given)[0, :, frame]
        (gradient,) = torch.autograd.grad(x.square().sum(), given)
        seen = gradient[0].nonzero().flatten()
        assert float(seen[0] + seen[-1]) / 2 == frontend.first_sample + frame * frontend.hop_length


def test_a_frozen_encoder_is_not_trained_and_draws_nothing(samples, tmp_path):
    folder = str(write_encoder(tmp_path / "x"))
    frontend = HuggingFaceFrontend(folder, freeze_weights=True, multilayer_feature=True).train()
    assert torch.equal(frontend(samples, LENGTHS)[0], frontend(samples, LENGTHS)[0])
    (frontend(samples, LENGTHS)[0] ** 2).sum().backward()
    assert frontend.layer_weights.grad.abs().sum() > 0
    assert all(not p.requires_grad and p.grad is None for p in frontend.encoder.parameters())


@pytest.mark.parametrize("kind", ["wav2vec2", "whisper"])
def test_an_encoder_is_trained_and_drops_no_layer_of_a_sum(kind, samples, tmp_path):
    drop = {"encoder_layerdrop" if kind == "whisper" else "layerdrop": 1.0}
    folder = str(write_encoder(tmp_path / "x", kind, **drop))
    frontend = HuggingFaceFrontend(folder, multilayer_feature=True).train()
    (frontend(samples, LENGTHS)[0] ** 2).sum().backward()
    grads = {name: p.grad for name, p in frontend.named_parameters() if p.requires_grad}
    missing = {name for name, grad in grads.items() if grad is None}
    assert missing <= {"encoder.masked_spec_embed"} and any("layers.1" in name for name in grads)


def test_the_weights_are_loaded_again(tmp_path):
    frontend = HuggingFaceFrontend(str(write_encoder(tmp_path / "x")))
    before = {name: value.clone() for name, value in frontend.state_dict().items()}
    for parameter in frontend.parameters():
        parameter.data.add_(1)
    frontend.reload_pretrained_parameters()
    assert all(torch.equal(value, before[name]) for name, value in frontend.state_dict().items())
    random = HuggingFaceFrontend(str(tmp_path / "x"), load_pretrained=False)
    assert any(not torch.equal(value, before[name]) for name, value in random.state_dict().items())


def test_a_recording_longer_than_whisper_reads_is_refused(tmp_path):
    frontend = HuggingFaceFrontend(str(write_encoder(tmp_path / "x", "whisper"))).eval()
    with pytest.raises(DataError, match="a recording has 32001 samples and the pretrained encoder reads 32000; leave"):
        frontend(torch.zeros(1, 32001), torch.tensor([32001]))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model": None}, "frontend_conf.model is not given; name the encoder, --set frontend_conf.model=PATH"),
        ({"model": "/nowhere"}, "/nowhere: no such folder, .*or hf:owner/name"),
        ({"fs": 8000}, "frontend_conf.fs 8000 is not allowed; pretrained speech encoders read 16000 Hz; set fs: 16000"),
        ({"fs": "8k"}, "frontend_conf.fs '8k' is not allowed"),
        ({"fs": "x"}, "frontend_conf.fs 'x' is not allowed"),
        ({"layer": 3}, "frontend_conf.layer 3 is not allowed; allowed are 0 to 2"),
        ({"layer": 1, "multilayer_feature": True}, "frontend_conf.layer 1 .* none with multilayer_feature"),
        ({"architecture": {"encoder": {}}}, "frontend_conf.architecture: processor is missing; an architecture has"),
    ],
)
def test_wrong_options_are_refused(options, said, tmp_path):
    given = {"model": str(write_encoder(tmp_path / "x"))} | options
    with pytest.raises(ConfigError, match=f"^{said}"):
        HuggingFaceFrontend(**given)


def test_whisper_positions_must_match_its_features(tmp_path):
    folder = write_encoder(tmp_path / "x", "whisper")
    architecture = HuggingFaceFrontend(str(folder)).architecture
    architecture["processor"]["chunk_length"] = 3
    with pytest.raises(ConfigError, match="chunk_length gives 300 frames, and the encoder has twice 100 positions"):
        HuggingFaceFrontend(architecture=architecture)


def trained(root, kind, *changes):
    """A run of two epochs, averaged, on features of an encoder, whose folder is gone; and the encoder's weights."""
    folder = write_encoder(root / kind, kind)
    (folder / "README.md").write_text("---\nlanguage: en\nlicense: apache-2.0\n---\n")
    theirs = HuggingFaceFrontend(str(folder)).encoder.state_dict()
    Vocabulary.train(["abcd"], "char").save(root / "tokens")
    for name, count, seed in (("train", 12, 1), ("valid", 4, 2), ("test", 3, 3)):
        write_data_dir(root / name, count, seed, 16000)
    (root / "small.yaml").write_text(f"{SMALL}batch_type: unsorted\nbatch_size: 6\n")
    fragments = f"model/huggingface,attention/sdma,{root / 'small.yaml'}"
    settings = [f"frontend_conf.model={folder}", *changes]
    run = train_run(root, ["--config", fragments, *(f"--set={each}" for each in settings)])
    shutil.rmtree(folder)  # a trained model stands alone
    return run, theirs


@pytest.fixture(scope="module", params=["wav2vec2", "whisper"])
def frozen(request, tmp_path_factory):
    return trained(tmp_path_factory.mktemp("frozen"), request.param)


def changed(run, theirs):
    """Names of the parameters of the pretrained encoder that training has changed."""
    state = checkpoint.load_weights(run.model_dir / "2epoch.pth")
    return [name for name, value in theirs.items() if not torch.equal(state[f"frontend.encoder.{name}"], value)]


def test_a_frozen_encoder_keeps_its_weights(frozen):
    run, theirs = frozen
    assert not changed(run, theirs)
    weights = checkpoint.load_weights(run.model_dir / "2epoch.pth")["frontend.layer_weights"]
    assert weights.abs().max() > 0


@pytest.mark.parametrize("kind", ["hubert", "wavlm"])
def test_an_encoder_is_trained_or_frozen_as_espnet_freezes(kind, tmp_path):
    run, theirs = trained(tmp_path / "trained", kind, "frontend_conf.freeze_weights=false")
    assert len(changed(run, theirs)) > len(theirs) / 2
    still = ("frontend_conf.freeze_weights=false", "freeze_param=[frontend.encoder]")
    run, theirs = trained(tmp_path / "kept", kind, *still)
    assert not changed(run, theirs)


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """A command in this process, where any use of the network is an error."""

    def refuse(*arguments):
        raise AssertionError(f"the network was asked: {arguments}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    return lambda *arguments: main([*map(str, arguments)]) == 0


def test_a_model_decodes_and_packs_without_the_folder_and_the_network(frozen, offline, tmp_path):
    run, _ = frozen
    data = ["--data_dir", run.test_dir, *BEAM]
    assert offline("decode", run.model_dir, *data, "--output_dir", tmp_path / "run")
    assert offline("pack", run.model_dir, "--output", tmp_path / "m.zip", "--license", "mit")
    assert offline("decode", tmp_path / "m.zip", *data, "--output_dir", tmp_path / "packed")
    expected = read_table(tmp_path / "run" / "text")
    assert len(expected) == 3 and read_table(tmp_path / "packed" / "text") == expected
    audio = [run.test_dir / f"{name}.wav" for name in expected]
    one = ["--output_dir", tmp_path / "said", "--output_format", "json", "--vad", "none", *BEAM]
    assert offline("transcribe", tmp_path / "m.zip", *audio, *one)
    said = {path.stem: json.loads((tmp_path / "said" / f"{path.stem}.json").read_text()) for path in audio}
    assert {name: one["segments"][0]["text"] for name, one in said.items()} == dict(expected)
    with zipfile.ZipFile(tmp_path / "m.zip") as archive:
        card, config = archive.read("README.md").decode(), archive.read("config.yaml").decode()
    kind = yaml.safe_load(config)["frontend_conf"]["architecture"]["encoder"]["model_type"]
    assert f"| pretrained encoder | {kind}, {kind}, as it was published, licence apache-2.0 |" in card
    assert str(run.model_dir.parent) not in config


def test_espnets_own_recogniser_reads_a_packed_model(frozen, tmp_path):
    run, _ = frozen
    assert main(["pack", str(run.model_dir), "--output", str(tmp_path / "m.zip")]) == 0
    with zipfile.ZipFile(tmp_path / "m.zip") as archive:
        archive.extractall(tmp_path / "there")
    files = tmp_path / "there" / "config.yaml", tmp_path / "there" / "valid.acc.ave.pth"
    search = Speech2Text(*files, lm_weight=0.0, beam_size=3, ctc_weight=0.5)
    said, _ = soundfile.read(run.test_dir / "test-00.wav", dtype="float32")
    data = ["--data_dir", str(run.test_dir), "--output_dir", str(tmp_path / "out"), *BEAM, "--ctc_weight", "0.5"]
    assert main(["decode", str(tmp_path / "m.zip"), *data]) == 0
    assert search(said)[0][0] == read_table(tmp_path / "out" / "text")["test-00"]


def test_word_times_match_the_recording(frozen, tmp_path):
    run, _ = frozen
    audio = run.test_dir / "test-00.wav"
    options = ["--output_dir", str(tmp_path), "--output_format", "json", "--vad", "none", "--word_timestamps", *BEAM]
    assert main(["transcribe", str(run.model_dir), str(audio), *options]) == 0
    (segment,) = json.loads((tmp_path / "test-00.json").read_text())["segments"]
    assert segment["words"] and all(0 <= word["start"] < word["end"] <= 0.76 for word in segment["words"])


@pytest.mark.parametrize("search", ["batched", "espnet"])
def test_other_searches_and_adopt_read_the_model(frozen, search, tmp_path):
    run, _ = frozen
    assert main(["adopt", str(run.model_dir), "--output_dir", str(tmp_path / "adopted")]) == 0
    texts = []
    for folder in (run.model_dir, tmp_path / "adopted"):
        out = tmp_path / "out" / folder.name
        data = ["--data_dir", str(run.test_dir), "--output_dir", str(out), *BEAM, "--set", f"search={search}"]
        assert main(["decode", str(folder), *data]) == 0
        texts.append(read_table(out / "text"))
    assert texts[0] == texts[1] and len(texts[0]) == 3


def test_a_recording_that_is_too_short_costs_no_other(frozen, tmp_path):
    run, _ = frozen
    data = shutil.copytree(run.test_dir, tmp_path / "data")
    soundfile.write(tmp_path / "short.wav", np.ones(120), 16000)
    table = (data / "wav.scp").read_text().splitlines()
    (data / "wav.scp").write_text("\n".join([f"{table[0].split()[0]} {tmp_path / 'short.wav'}", *table[1:]]) + "\n")
    assert main(["decode", str(run.model_dir), "--data_dir", str(data), "--output_dir", str(tmp_path / "out")]) == 2
    failures = json.loads((tmp_path / "out" / "failures.json").read_text())
    assert len(failures) == 1 and "120 samples are too short; the frontend needs" in next(iter(failures.values()))
    decoded = (tmp_path / "out" / "text").read_text().splitlines()
    assert [line.split()[0] for line in decoded] == [line.split()[0] for line in table[1:]]


def test_it_is_not_exported(frozen, tmp_path, capfd):
    run, _ = frozen
    assert main(["export", "onnx", str(run.model_dir), "--output", str(tmp_path / "m.onnx")]) == 1
    assert "a model with HuggingFaceFrontend cannot be exported" in capfd.readouterr().err
