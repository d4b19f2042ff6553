"""A run whose config.yaml has the names that options had in version 0.1.0 loads, and computes as before."""

import pytest
import torch
import yaml

from espnet_diverse.decoding.condition_ids import known_conditions
from espnet_diverse.packing.facts import Facts
from espnet_diverse.packing.pack import pack
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.config import merge, save
from espnet_diverse.runs.packed.archive import unpacked
from espnet_diverse.runs.tasks import ASRTask, load_model
from espnet_diverse.scope import scope
from espnet_diverse.training.initialisation import initialise

FORMER = {"conditions": "tasks", "default_condition": "default_task"}
NAMES = {"lang": ["ar", "de", "el"]}


def with_former_names(value):
    """A configuration as 0.1.0 wrote it."""
    if not isinstance(value, dict):
        return value
    return {FORMER.get(key, key): with_former_names(each) for key, each in value.items()}


def build(names=NAMES):
    """A model with a part of each kind that depends on the language, and its arguments."""
    config, part = merge(["model/tiny"]), {"by": "lang", "conditions": names}
    selection = part | {"strategy": "group", "pool": 4, "default_condition": {"lang": "el"}}
    config["encoder_conf"] |= {"attention": {"core": "softmax", "selection": selection}}
    config["decoder_conf"] |= {"adapter": part | {"bottleneck": 4}, "start_tag": part}
    config["model_conf"] |= {"conditions": names}
    parser = ASRTask.get_parser()
    parser.set_defaults(**config)
    args = parser.parse_args([])
    args.token_list, args.init, args.token_type = ["<blank>", "<unk>", "a", "b", "c", "<sos/eos>"], None, "char"
    args.frontend_conf = {"fs": "16k", "n_fft": 512, "win_length": 400, "hop_length": 160, "n_mels": 20}
    torch.manual_seed(0)
    return ASRTask.build_model(args), args


@pytest.fixture
def run(tmp_path):
    """The model, and the directory of its run with former names in config.yaml."""
    model, args = build()
    checkpoint.save(model.state_dict(), tmp_path / "valid.acc.ave.pth")
    save(with_former_names(vars(args) | {"task": "asr"}), tmp_path / "config.yaml")
    assert "condition" not in (tmp_path / "config.yaml").read_text()
    return model, tmp_path


@torch.no_grad()
def scores(model):
    """Scores of the decoder, of random speech in Arabic."""
    model.eval()
    speech = torch.randn(1, 8000, generator=torch.Generator().manual_seed(1))
    with scope({"lang": torch.tensor([0])}, collect=False):
        encoded, lengths = model.encode(speech, torch.tensor([8000]))
        return model.decoder(encoded, lengths, torch.tensor([[2, 3, 4]]), torch.tensor([3]))[0]


def test_it_loads_and_is_packed_with_the_present_names(run, tmp_path):
    model, model_dir = run
    folder = unpacked(pack(model_dir, tmp_path / "packed.zip", Facts()))
    for each in (model_dir, folder):
        loaded, _ = load_model(each)
        assert torch.equal(scores(loaded), scores(model))
        known = known_conditions(loaded)
        assert (known.names, known.defaults) == (NAMES, {"lang": "el"})
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert config["decoder_conf"]["start_tag"]["conditions"] == config["model_conf"]["conditions"] == NAMES
    assert "'tasks'" not in str(config)


def test_a_model_is_initialised_from_it_by_name(run):
    model, model_dir = run
    fewer, _ = build({"lang": ["el"]})
    initialise(f"{model_dir / 'valid.acc.ave.pth'}:decoder.embed:decoder.embed", fewer)
    assert torch.equal(fewer.decoder.embed[0].start.weight, model.decoder.embed[0].start.weight[2:])
