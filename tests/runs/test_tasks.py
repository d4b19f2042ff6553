import logging
import re
import shutil
from argparse import Namespace

import numpy as np
import pytest
import torch
import yaml

from espnet_diverse.analysis.comparison import read_size
from espnet_diverse.errors import ConfigError, ModelError
from espnet_diverse.nets import building
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.config import load, save
from espnet_diverse.runs.tasks import ASRTask, load_model, read_config
from espnet_diverse.text.vocabulary import Vocabulary
from espnet_diverse.untrusted.foreign_config import TRUST


@pytest.fixture
def copied(tiny_run, tmp_path):
    """The run's directory, copied, with the paths in its config.yaml gone."""
    model_dir = tmp_path / "moved"
    shutil.copytree(tiny_run.model_dir, model_dir)
    config = model_dir / "config.yaml"
    config.write_text(config.read_text().replace(str(tiny_run.model_dir), "/gone"))
    return model_dir


def test_a_moved_run_loads_from_another_working_directory(tiny_run, copied, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model, args = load_model("moved")
    expected = checkpoint.load(tiny_run.model_dir / "valid.acc.ave.pth")
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, expected[name]), name
    assert args.token_list == ["<blank>", "<unk>", "a", "b", "c", "d", "<sos/eos>"]


def test_loading_leaves_the_handlers_of_the_calling_program(tiny_run, monkeypatch):
    """`logging.info` of other packages would add one, after which `logging.basicConfig` has no effect."""
    monkeypatch.setattr(logging.root, "handlers", [])
    load_model(tiny_run.model_dir)
    assert logging.root.handlers == []


def test_loading_needs_the_memory_of_the_weights_once(tiny_run, monkeypatch):
    monkeypatch.setattr(building, "_LARGE", 0)
    read = {}
    load_weights = checkpoint.load_weights
    monkeypatch.setattr(checkpoint, "load_weights", lambda path: read.update(load_weights(path)) or read)
    model, _ = load_model(tiny_run.model_dir)
    assert {value.data_ptr() for value in model.parameters()} <= {value.data_ptr() for value in read.values()}


def test_paths_relative_to_where_espnet_was_started_are_found(copied, tmp_path):
    (copied / "feats_stats.npz").rename(tmp_path / "other.npz")
    config = yaml.safe_load((copied / "config.yaml").read_text())
    config["normalize_conf"]["stats_file"] = "other.npz"
    (copied / "config.yaml").write_text(yaml.safe_dump(config))
    assert read_config(copied / "config.yaml")["normalize_conf"]["stats_file"] == str(tmp_path / "other.npz")


def test_statistics_that_are_too_large_are_not_read(copied):
    np.savez_compressed(copied / "feats_stats.npz", sum=np.zeros(1 << 24, np.float32), count=1)
    said = r"feats_stats\.npz: unpacks to more than 67108864 bytes; copy the statistics of the model again$"
    with pytest.raises(ModelError, match=said):
        read_config(copied / "config.yaml")


def test_damaged_statistics_are_named(copied):
    content = (copied / "feats_stats.npz").read_bytes()
    (copied / "feats_stats.npz").write_bytes(content[:30] + content[-22:])  # without the list of its files
    with pytest.raises(ModelError, match=r"feats_stats\.npz: damaged; copy the statistics of the model again$"):
        read_config(copied / "config.yaml")


@pytest.mark.parametrize(
    "changes",
    [{"sum": np.ones(3)}, {"sum": np.array(["a"] * 20)}, {"sum": np.array([{}], object)}, {"count": None}],
)
def test_statistics_that_cannot_normalise_are_named(changes, copied):
    arrays = dict(np.load(copied / "feats_stats.npz")) | changes
    np.savez(copied / "feats_stats.npz", **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(ModelError, match=r"feats_stats\.npz: damaged; copy the statistics of the model again$"):
        load_model(copied)


HEADER = b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d,), }"
HUGE = b"\x93NUMPY\x01\x00\x60\x00" + (HEADER % 10**15).ljust(95) + b"\n"


@pytest.mark.parametrize("content", [b"", b"text", HUGE[:8], HUGE], ids=["empty", "text", "truncated", "huge"])
def test_statistics_that_are_no_arrays_are_named(content, copied):
    (copied / "feats_stats.npz").write_bytes(content)
    with pytest.raises(ModelError, match=r"feats_stats\.npz: damaged; copy the statistics of the model again$"):
        load_model(copied)


def test_a_file_that_the_configuration_names_is_missing(copied):
    (copied / "feats_stats.npz").unlink()
    with pytest.raises(ModelError, match=r"stats_file /gone/feats_stats\.npz is not found, nor a copy"):
        load_model(copied)
    (copied / "config.yaml").unlink()
    with pytest.raises(ModelError, match=r"config\.yaml cannot be read \(No such file"):
        load_model(copied)


def change(config_file, **values):
    config = yaml.safe_load(config_file.read_text()) | values
    config_file.write_text(yaml.safe_dump(config))


def test_a_configuration_of_espnet3_names_the_file_of_its_tokens(copied, tmp_path):
    tokens = read_config(copied / "config.yaml")["token_list"]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "tokens.txt").write_text("\n".join(tokens))
    (copied / "tokens.txt").unlink()
    change(copied / "config.yaml", task="espnet3.systems.esp2_asr.task.ASRTask", token_list="./data/tokens.txt")
    config = read_config(copied / "config.yaml")
    assert (config["task"], config["token_list"]) == ("asr", tokens)
    (tmp_path / "data" / "tokens.txt").unlink()
    with pytest.raises(ModelError, match=r"token_list \./data/tokens\.txt is not found, nor a copy"):
        read_config(copied / "config.yaml")


@pytest.mark.parametrize("task", ["espnet3.systems.esp2_asr.src.transducer_task.ASRTransducerTask", "os.system"])
def test_other_tasks_of_espnet3_are_refused(copied, task):
    change(copied / "config.yaml", task=task)
    with pytest.raises(ModelError, match=f"task of config.yaml is {task}; it must be one of asr"):
        read_config(copied / "config.yaml")


@pytest.mark.parametrize("key", ["model", "state_dict"])
def test_weights_beside_the_state_of_a_training_are_found(copied, key):
    expected = checkpoint.load(copied / "valid.acc.ave.pth")
    checkpoint.save({key: expected, "epoch": 1, "optimizer_states": [{"state": {}}]}, copied / "last.ckpt")
    model, _ = load_model(copied, "last.ckpt")
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, expected[name]), name


def test_missing_and_extra_parameters_are_named(copied):
    state = checkpoint.load(copied / "valid.acc.ave.pth")
    removed = state.pop("decoder.output_layer.weight")
    state["decoder.stray"] = removed
    checkpoint.save(state, copied / "bad.pth")
    with pytest.raises(ModelError, match="1 missing: decoder.output_layer.weight; 1 extra: decoder.stray"):
        load_model(copied, "bad.pth")
    with pytest.raises(ModelError, match="1 missing: decoder.output_layer.weight; 1 extra: decoder.stray"):
        ASRTask.build_model_from_file(model_file=copied / "bad.pth")


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"attention": {"core": "sdmaa"}}, "unknown attention 'sdmaa'; did you mean 'sdma'"),
        ({"attention": {"core": "sma", "clusters": 3}}, "unknown option 'clusters' of attention 'sma'"),
        ({"output_size": "wide"}, "cannot be built: .*output_size"),
        ({"output_size": 15}, "cannot be built: "),
    ],
)
def test_values_that_a_part_of_the_model_refuses(copied, section, said):
    config = yaml.safe_load((copied / "config.yaml").read_text())
    config["encoder_conf"].update(section)
    (copied / "config.yaml").write_text(yaml.safe_dump(config))
    said = f"^{re.escape(str(copied / 'config.yaml'))}: .*{said}"
    with pytest.raises(ConfigError, match=said):
        load_model(copied)
    with pytest.raises(ConfigError, match=said):
        read_size(copied)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("num_blocks", 900, "far larger model than"),
        ("linear_units", 900_000, "of another shape"),  # within the bound, which no small model exceeds
        ("output_size", 900_000, "cannot be built: .*allocate"),  # 29 TB
    ],
)
def test_a_model_far_larger_than_its_weights_is_not_built(copied, name, value, said):
    config = yaml.safe_load((copied / "config.yaml").read_text())
    config["encoder_conf"][name] = value
    (copied / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises((ModelError, ConfigError), match=said):
        load_model(copied)


def test_a_class_of_espnets_that_needs_transformers_says_how_to_get_it(copied, monkeypatch):
    from espnet2.asr.postencoder import hugging_face_transformers_postencoder as wrapper

    monkeypatch.setattr(wrapper, "is_transformers_available", False)  # as where no other test imported it before
    config = yaml.safe_load((copied / "config.yaml").read_text())
    config |= {"postencoder": "hugging_face_transformers", "postencoder_conf": {"model_name_or_path": "bert"}}
    (copied / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(ModelError, match="postencoder 'hugging_face_transformers' is not allowed in a run"):
        load_model(copied)
    monkeypatch.setenv(TRUST, "1")
    with pytest.raises(ConfigError, match="cannot be built: this process works without .* set the environment"):
        load_model(copied)


@pytest.mark.parametrize(("key", "value"), [("g2p", None), ("cleaner", 3)])
def test_a_preprocessor_that_cannot_be_built_is_a_fault_of_the_configuration(copied, key, value):
    args = Namespace(**read_config(copied / "config.yaml"))
    if value is None:
        delattr(args, key)
    else:
        setattr(args, key, value)
    with pytest.raises(ConfigError, match=f"^the preprocessor of this configuration cannot be built: .*{key}"):
        ASRTask.build_preprocess_fn(args, train=False)


def test_a_tokenizer_of_espnets_that_needs_transformers_says_how_to_get_it(copied, monkeypatch):
    from espnet2.text import hugging_face_tokenizer

    monkeypatch.setattr(hugging_face_tokenizer, "is_transformers_available", False)
    args = Namespace(**read_config(copied / "config.yaml"))
    args.token_type, args.bpemodel = "hugging_face", "bert"
    with pytest.raises(ConfigError, match="preprocessor .* cannot be built: this process works without .* set the env"):
        ASRTask.build_preprocess_fn(args, train=False)


def test_a_tokenizer_of_a_run_must_be_a_file(copied):
    """A name would be downloaded by ESPnet's tokenizer."""
    config = load(copied / "config.yaml") | {"token_type": "hugging_face", "bpemodel": "bert-base"}
    save(config, copied / "config.yaml")
    with pytest.raises(ModelError, match="bpemodel bert-base is not found"):
        read_config(copied / "config.yaml")


def test_a_file_whose_name_is_too_long_is_not_found(tmp_path):
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"token_type": "bpe", "bpemodel": "x" * 256}))
    with pytest.raises(ModelError, match=f"^{tmp_path / 'config.yaml'}: bpemodel x* is not found, nor a copy of it in"):
        read_config(tmp_path / "config.yaml")


@pytest.mark.parametrize("prefix", ["", "src_"])
def test_a_tokenizer_that_may_crash_the_library_is_refused(prefix, tmp_path):
    Vocabulary.train(["ab ba"] * 9, "bpe", 7).save(tmp_path)
    config = {f"{prefix}token_type": "bpe", f"{prefix}bpemodel": "bpe.model"}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    assert read_config(tmp_path / "config.yaml")[f"{prefix}bpemodel"] == str(tmp_path / "bpe.model")
    with (tmp_path / "bpe.model").open("ab") as model:
        model.write(b"\x1a\x04\x12\x02xy")  # normalizer_spec.precompiled_charsmap = "xy"
    with pytest.raises(ModelError, match=rf"^{tmp_path / 'bpe.model'}: the precompiled_charsmap of 2 bytes"):
        read_config(tmp_path / "config.yaml")
