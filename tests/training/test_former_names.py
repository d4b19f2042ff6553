"""A run whose config.yaml has the names that options had in earlier versions loads and computes as before."""

import logging

import pytest
import torch
import yaml
from espnet2.tasks.asr import ASRTask as ESPnetASRTask
from references.former_names import NAMES, build, with_former_names

from espnet_diverse import option_checks
from espnet_diverse.decoding.condition_ids import known_conditions
from espnet_diverse.packing.pruning import prune
from espnet_diverse.scope import scope
from espnet_diverse.training import checkpoint
from espnet_diverse.training.condition_names import names_of_conditions
from espnet_diverse.training.config import save
from espnet_diverse.training.initialisation import initialise
from espnet_diverse.training.tasks import load_model

TEXT = torch.tensor([[2, 3, 4]])


@pytest.fixture
def run(tmp_path):
    """The model, and the directory of its run with former names in config.yaml."""
    model, args = build()
    checkpoint.save(model.state_dict(), tmp_path / "valid.acc.ave.pth")
    save(with_former_names(vars(args) | {"task": "asr"}), tmp_path / "config.yaml")
    assert "conditions" not in (tmp_path / "config.yaml").read_text()
    option_checks._warn.cache_clear()
    return model, tmp_path


@torch.no_grad()
def scores(model):
    """What the decoder says of random speech in Arabic."""
    model.eval()
    speech = torch.randn(1, 8000, generator=torch.Generator().manual_seed(1))
    with scope({"lang": torch.tensor([0])}, collect=False):
        encoded, lengths = model.encode(speech, torch.tensor([8000]))
        return model.decoder(encoded, lengths, TEXT, torch.tensor([3]))[0]


def test_it_loads_with_one_warning_and_computes_the_same(run, caplog):
    model, model_dir = run
    with caplog.at_level(logging.WARNING):
        loaded, args = load_model(model_dir)
        names = names_of_conditions(vars(args))
    assert [message.split(":")[0] for message in caplog.messages] == [str(model_dir / "config.yaml")]
    assert loaded.state_dict().keys() == model.state_dict().keys()
    assert torch.equal(scores(loaded), scores(model))
    known = known_conditions(loaded)
    assert (known.names, known.defaults, names) == (NAMES, {"lang": "el"}, NAMES)


def test_espnets_own_loader_reads_it_too(run, caplog):
    model, model_dir = run
    with caplog.at_level(logging.WARNING):
        loaded, _ = ESPnetASRTask.build_model_from_file(model_dir / "config.yaml", model_dir / "valid.acc.ave.pth")
    assert torch.equal(scores(loaded), scores(model))
    former = [message for message in caplog.messages if "former name" in message]
    assert len(former) == len(set(former))


def test_a_model_is_initialised_from_it_by_name(run):
    model, model_dir = run
    fewer, _ = build({"lang": ["el"]})
    initialise(f"{model_dir / 'valid.acc.ave.pth'}:decoder.embed:decoder.embed", fewer)
    assert torch.equal(fewer.decoder.embed[0].start.weight, model.decoder.embed[0].start.weight[2:])


def test_it_is_pruned(run, tmp_path):
    _, model_dir = run
    prune(model_dir, tmp_path / "el", {"lang": "el"})
    config = yaml.safe_load((tmp_path / "el" / "config.yaml").read_text())
    assert config["model_conf"]["conditions"] == NAMES  # adapters still depend on it
    assert config["encoder"] == "transformer" and "start_tag" not in config["decoder_conf"]
    load_model(tmp_path / "el")
