"""Features of a frozen part are kept, training on them gives the same losses, and the model reads audio afterwards."""

import json
import shutil

import numpy as np
import pytest
import soundfile
import torch
from references.small_model import SMALL
from references.speech_encoders import write_encoder
from references.whisper import write_whisper

from espnet_diverse.bin.main import main
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.whisper.frontend import EncodedMelFrontend
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.tasks import load_model
from espnet_diverse.text.vocabulary import Vocabulary
from espnet_diverse.training.freezing import freeze
from espnet_diverse.training.frozen_features import frozen_part
from espnet_diverse.training.kept_features import KeptFeatures

CTC = ("model_conf.ctc_weight=0.3", "freeze_param=[encoder,decoder]")
NO_NOISE = [f"{part}.noise_std=0" for part in ("encoder_conf.attention", "decoder_conf.attention")]
SHORT = ("frontend_conf.pad=0.5", "max_epoch=2", "batch_type=unsorted", "batch_size=3", "num_workers=0")


def write_data(folder, lengths, rate=16_000):
    """A data directory of recordings of the lengths in seconds."""
    folder.mkdir(parents=True)
    tables = {"wav.scp": "", "text": "", "utt2spk": "", "spk2utt": "", "utt2lang": ""}
    for index, seconds in enumerate(lengths):
        time = np.arange(round(seconds * rate)) / rate
        noise = np.random.default_rng(index).standard_normal(len(time))
        soundfile.write(path := folder / f"u{index}.wav", 0.3 * np.sin(600 * (index + 1) * time) + 0.01 * noise, rate)
        row = (path, ("hello gut tag", "ab")[index % 2], f"u{index}", f"u{index}", ("de", "en")[index % 2])
        for table, value in zip(tables, row, strict=True):
            tables[table] += f"u{index} {value}\n"
    for table, content in tables.items():
        (folder / table).write_text(content)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("kept")
    write_whisper(root / "whisper")
    write_data(root / "data" / "train", (0.9, 0.5, 1.2, 0.7, 0.3))
    write_data(root / "data" / "dev", (0.6, 1.0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ESPNET_DIVERSE_CACHE", str(root / "cache"))
        yield root


def fine_tune(folder, output, *changes, options=(), model="whisper"):
    settings = [f"--set={change}" for change in (*SHORT, *changes)]
    paths = [str(folder / model), str(folder / "data"), "--output_dir", str(output)]
    return main(["fine-tune", *paths, "--number", "1", *settings, *options])


def losses(run):
    stats = checkpoint.load_run(run)[0]["reporter"]["stats"]
    return [phases[phase]["loss"] for phases in stats.values() for phase in ("train", "valid")]


def text(model, folder, output):
    words = ["--data_dir", str(folder / "data" / "dev"), "--output_dir", str(output), "--maxlenratio", "-4"]
    assert main(["decode", str(model), *words]) == 0
    return (output / "text").read_text()


def test_the_layer_of_ctc_over_a_frozen_whisper_trains_alike(folder, tmp_path, capfd):
    assert fine_tune(folder, tmp_path / "audio", *CTC) == 0
    assert fine_tune(folder, tmp_path / "half", *CTC, options=["--keep_features"]) == 0
    assert fine_tune(folder, tmp_path / "single", *CTC, "keep_features=float32") == 0
    expected = losses(tmp_path / "audio")
    np.testing.assert_allclose(losses(tmp_path / "single"), expected, rtol=1e-5)
    np.testing.assert_allclose(losses(tmp_path / "half"), expected, rtol=1e-3)
    assert losses(tmp_path / "half") != expected
    kept = KeptFeatures(tmp_path / "half" / "stats" / "train" / "kept_features")
    assert sorted(kept) == [f"u{index}" for index in range(5)] and kept["u0"].dtype == np.float16
    assert kept["u0"].shape == (70, 16)  # (0.9 + 0.5) s in frames of 20 ms
    capfd.readouterr()
    assert fine_tune(folder, tmp_path / "half", *CTC, options=["--keep_features"]) == 0
    assert capfd.readouterr().out.count("up to date") == 3
    models = [load_model(tmp_path / name)[0].state_dict() for name in ("audio", "half")]
    base = load_model(tmp_path / "half", "1epoch.pth")[0].state_dict()
    assert torch.equal(base["encoder.after_norm.weight"], models[0]["encoder.after_norm.weight"])
    for name, value in models[0].items():
        torch.testing.assert_close(models[1][name], value, rtol=1e-2, atol=1e-3, msg=name)
    assert text(tmp_path / "half", folder, tmp_path / "d1") == text(tmp_path / "audio", folder, tmp_path / "d2")


def test_a_run_that_is_continued_computes_no_features(folder, tmp_path, monkeypatch):
    """Although its statistics are collected again, as settings have changed."""
    assert fine_tune(folder, tmp_path / "run", *CTC, options=["--keep_features"]) == 0
    train = json.loads((tmp_path / "run" / "stats" / "kept_features.json").read_text())
    assert train["part"] == "encoder" and "train/wav.scp, audio content" in train["data"]

    def encode(*_):
        raise AssertionError("audio was encoded")

    monkeypatch.setattr("espnet_diverse.nets.whisper.encoder.WhisperSubsampling.forward", encode)
    more = ["--keep_features", "--allow_changed", "max_epoch"]
    assert fine_tune(folder, tmp_path / "run", *CTC, "max_epoch=3", options=more) == 0
    assert len(losses(tmp_path / "run")) == 6


def test_a_frozen_pretrained_frontend_trains_alike(tmp_path):
    write_encoder(tmp_path / "encoder")
    write_data(tmp_path / "data" / "train", (0.9, 0.5, 1.2))
    write_data(tmp_path / "data" / "dev", (0.6, 1.0))
    Vocabulary.train(["hello gut tag ab"], "char").save(tmp_path / "tokens")
    (tmp_path / "small.yaml").write_text(SMALL)
    rates = [f"{net}_conf.{part}dropout_rate=0" for net in ("encoder", "decoder") for part in ("", "positional_")]
    changes = [
        "frontend_conf.multilayer_feature=false",
        f"frontend_conf.model={tmp_path / 'encoder'}",
        *SHORT[1:],
        *rates,
        *NO_NOISE,
    ]
    fragments = f"--config=model/huggingface,attention/sdma,{tmp_path / 'small.yaml'}"
    config = [fragments, *(f"--set={change}" for change in changes)]
    sets = ["--train_dir", str(tmp_path / "data/train"), "--valid_dir", str(tmp_path / "data/dev")]
    shared = [*config, *sets, "--tokens_dir", str(tmp_path / "tokens")]
    for name, more in (("audio", []), ("kept", ["--keep_features"])):
        stats = ["--stats_dir", str(tmp_path / name / "stats")]
        assert main(["stats", *shared, *more, "--output_dir", stats[1]]) == 0
        assert main(["train", *shared, *more, *stats, "--output_dir", str(tmp_path / name)]) == 0
    np.testing.assert_allclose(losses(tmp_path / "kept"), losses(tmp_path / "audio"), rtol=2e-3)
    record = json.loads((tmp_path / "kept" / "stats" / "kept_features.json").read_text())
    assert (record["part"], record["size"]) == ("frontend", 16)
    model, _ = load_model(tmp_path / "kept", "2epoch.pth")
    assert model.kept_part is None and any(name.startswith("frontend.encoder") for name in model.state_dict())


def test_the_encoder_of_whisper_as_a_frontend_computes_once(folder, tmp_path, monkeypatch, capfd):
    """Neither for the statistics nor in an epoch, and once for a recording with two texts."""
    shutil.copytree(folder / "data", data := tmp_path / "data")
    for table in data.glob("train/*"):
        if table.name in ("wav.scp", "text", "utt2spk", "utt2lang"):
            table.write_text(table.read_text() + table.read_text().splitlines()[0].replace("u0", "u9", 1) + "\n")
    (data / "train" / "spk2utt").write_text((data / "train" / "spk2utt").read_text().replace("u0 u0", "u0 u0 u9"))
    assert main(["adopt", str(folder / "whisper"), "--output_dir", str(tmp_path / "whisper")]) == 0
    Vocabulary.train(["hello gut tag ab"], "char").save(tmp_path / "tokens")
    (tmp_path / "small.yaml").write_text(SMALL)
    sizes = "{output_size: 16, attention_heads: 2, linear_units: 32, num_blocks: 2, pad: 0.5}"
    settings = (f"frontend_conf={sizes}", *SHORT[1:], "batch_size=6", *NO_NOISE)
    config = [f"--config=model/whisper_features,attention/sdma,{tmp_path / 'small.yaml'}"]
    config += [f"--set={change}" for change in settings]
    sets = ["--train_dir", str(data / "train"), "--valid_dir", str(data / "dev")]
    weights = ["--init_param", f"{tmp_path / 'whisper'}:encoder:frontend.encoder"]
    shared = [*config, *sets, "--tokens_dir", str(tmp_path / "tokens"), *weights]
    computed, forward = [], EncodedMelFrontend.forward
    monkeypatch.setattr(EncodedMelFrontend, "forward", lambda *a: (computed.append(len(a[1])), forward(*a))[1])
    stats = str(tmp_path / "stats")
    assert main(["stats", *shared[:-2], "--output_dir", stats]) == 1
    assert "has random weights; give those of an adopted Whisper model: --init_param RUN:" in capfd.readouterr().err
    assert main(["stats", *shared, "--output_dir", stats]) == 0
    assert main(["train", *shared, "--stats_dir", stats, "--output_dir", str(tmp_path / "run")]) == 0
    assert sum(computed) == 5 + 2
    static = [shared[0].replace(",attention", ",heads/static,attention"), *shared[1:]]  # reads utt2lang as well
    assert main(["stats", *static, "--output_dir", stats]) == 0
    assert sum(computed) == 5 + 2
    kept = KeptFeatures(tmp_path / "stats" / "train" / "kept_features")
    np.testing.assert_array_equal(kept["u9"], kept["u0"])
    assert kept["u0"].shape == (45, 16)  # 0.9 s in frames of 20 ms, without silence
    model, _ = load_model(tmp_path / "run", "2epoch.pth")
    whisper, _ = load_model(tmp_path / "whisper")
    for name, value in whisper.encoder.state_dict().items():
        assert torch.equal(model.frontend.encoder.state_dict()[name], value), name


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (["freeze_param=[decoder]"], "keep_features: encoder.embed.conv.0.weight is trained; freeze the encoder or a"),
        (
            [
                *CTC,
                "specaug=specaug",
                "specaug_conf={apply_time_mask: true, time_mask_width_range: 9, num_time_mask: 1}",
            ],
            "keep_features: specaug acts within the encoder or before it, and differs in each epoch; set specaug=null",
        ),
        ([*CTC, "noise_scp=NOISE"], "keep_features: noise_scp acts within the encoder or before it, and differs"),
        ([*CTC, "keep_features=int8"], "keep_features must be one of float16 float32, but is 'int8'"),
        (
            ["use_adapter=true", "freeze_param=['*']", "adapter_conf={target_modules: [linear_q]}"],
            "self_attn.linear_q.lora_A is trained; freeze the encoder or a pretrained frontend, or leave keep_features",
        ),
    ],
)
def test_what_cannot_be_kept_is_named(changes, said, folder, tmp_path, capfd):
    (tmp_path / "noise").write_text(f"n {folder / 'data' / 'dev' / 'u0.wav'}\n")
    changes = [change.replace("NOISE", str(tmp_path / "noise")) for change in changes]
    assert fine_tune(folder, tmp_path / "run", *changes, options=["--keep_features"][: "int8" not in changes[-1]]) == 1
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "error: " in line]
    assert said in line


def test_an_encoder_that_reads_the_layer_of_ctc_is_refused(tiny_run):
    model, args = load_model(tiny_run.model_dir)
    model.specaug = None
    freeze(model, ["encoder"])
    assert frozen_part(model, args) == "encoder"
    for option in ("interctc_use_conditioning", "ctc_trim"):
        setattr(model.encoder, option, True)
        with pytest.raises(ConfigError, match=f"with encoder_conf.{option} the encoder reads the CTC layer"):
            frozen_part(model, args)
        setattr(model.encoder, option, False)


def test_stale_missing_and_damaged_features_are_refused(folder, tmp_path, capfd):
    run, data = tmp_path / "run", tmp_path / "data"
    assert fine_tune(folder, run, *CTC, "max_epoch=1", options=["--keep_features"]) == 0
    shutil.copytree(folder / "data", data)
    start = ["--config", f"{run}/start.yaml,update/fine_tune", *(f"--set={each}" for each in (*SHORT, *CTC))]
    tokens = ["--tokens_dir", str(next((folder / "cache").rglob("tokens.yaml")).parent)]
    weights = ["--init_param", str(run / "1epoch.pth")]
    shutil.copytree(run / "stats", stats := tmp_path / "stats")

    def refused(said, *changes, data=folder / "data", weights=weights):
        sets = ["--train_dir", str(data / "train"), "--valid_dir", str(data / "dev"), "--stats_dir", str(stats)]
        words = [*start, *tokens, *sets, *weights, "--keep_features", "--output_dir", str(tmp_path / "new")]
        capfd.readouterr()
        assert main(["train", *words, *(f"--set={each}" for each in changes)]) == 1
        assert said in capfd.readouterr().err

    again = "run espnet-diverse stats again, with keep_features and this configuration"
    other = checkpoint.load_weights(run / "1epoch.pth")
    other["encoder.after_norm.weight"] += 1
    torch.save(other, tmp_path / "other.pth")
    changed = f"{stats}: has kept features of other weights or options of the encoder; {again}"
    refused(changed, weights=["--init_param", str(tmp_path / "other.pth")])
    refused(changed, "frontend_conf.pad=0.6")
    refused(f"{stats}: has kept features in float16, and keep_features is float32; {again}", "keep_features=float32")
    samples, rate = soundfile.read(folder / "data" / "train" / "u1.wav")
    soundfile.write(copy := data / "train" / "u1.wav", samples[::-1], rate)
    table = (data / "train" / "wav.scp").read_text().replace(str(folder / "data" / "train" / "u1.wav"), str(copy))
    (data / "train" / "wav.scp").write_text(table)
    refused(f"{stats}: has kept features of other data than train/wav.scp, audio content; {again}", data=data)
    arrays = stats / "valid" / "kept_features.bin"
    arrays.write_bytes(arrays.read_bytes()[:-2])
    refused(f"{stats / 'kept_features.json'}: it or the features are damaged; {again}")
    (stats / "kept_features.json").unlink()
    refused(f"{stats}: has no kept features; {again}")
