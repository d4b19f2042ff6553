import pytest
import torch
import yaml
from torch import nn

from espnet_diverse.attention import build_selection
from espnet_diverse.attention.selection.selection_options import SelectionOptions
from espnet_diverse.errors import ModelError
from espnet_diverse.nets.adapters import low_rank
from espnet_diverse.nets.adapters.bottleneck import Adapters
from espnet_diverse.nets.condition_rows import ConditionRows
from espnet_diverse.runs import checkpoint
from espnet_diverse.runs.tasks import TASKS
from espnet_diverse.scope import Step, scope
from espnet_diverse.training.initialisation import initialise

WB = ("weight", "bias")


class Model(nn.Module):
    """An encoder with a layer, and head selection and adapters by language."""

    def __init__(self, *languages: str, size: int = 3, strategy: str = "group"):
        super().__init__()
        self.encoder = nn.Module()
        self.encoder.layer = nn.Linear(size, size)
        self.decoder = nn.Linear(2, 2)
        if languages:
            conditions = {"lang": list(languages)}
            pool = {} if strategy == "static" else {"pool": 4}
            self.encoder.selection = build_selection(SelectionOptions(strategy, conditions=conditions, **pool), 2)
            self.encoder.adapter = Adapters(size, ConditionRows("adapter", "lang", conditions), 2)
            for drawn in (self.encoder.adapter.up_weight, self.encoder.adapter.norm_bias):  # which begin with zeros
                nn.init.normal_(drawn)


def saved(model: Model, tmp_path, *languages: str) -> str:
    checkpoint.save(model.state_dict(), tmp_path / "model.pth")
    if languages:
        config = {"model_conf": {"conditions": {"lang": list(languages)}}}
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    return str(tmp_path / "model.pth")


def test_a_part_is_copied_and_the_rest_stays(tmp_path):
    trained, model = Model(), Model("de")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    initialise(f"{saved(trained, tmp_path)}:encoder:encoder", model)
    assert torch.equal(model.encoder.layer.weight, trained.encoder.layer.weight)
    after = model.state_dict()
    same = [name for name in before if torch.equal(before[name], after[name])]
    assert set(before) - set(same) == {"encoder.layer.weight", "encoder.layer.bias"}


def test_whole_checkpoints_and_exclusions(tmp_path):
    trained, model = Model(), Model()
    checkpoint.save({"model": trained.state_dict(), "optimizers": []}, tmp_path / "checkpoint.pth")
    initialise(f"{tmp_path}/checkpoint.pth:::encoder.layer.b", model)
    assert torch.equal(model.decoder.weight, trained.decoder.weight)
    assert not torch.equal(model.encoder.layer.bias, trained.encoder.layer.bias)


def test_integers_in_place_of_weights_are_refused(tmp_path):
    weights = Model().state_dict()
    weights["decoder.weight"] = torch.ones_like(weights["decoder.weight"], dtype=torch.uint8)
    checkpoint.save(weights, tmp_path / "model.pth")
    with pytest.raises(ModelError, match=r"decoder\.weight torch\.uint8 for torch\.float32"):
        initialise(str(tmp_path / "model.pth"), Model())


def test_languages_go_by_name(tmp_path):
    trained, model = Model("ar", "de", "es"), Model("es", "ar")
    initialise(f"{saved(trained, tmp_path, 'ar', 'de', 'es')}:encoder:encoder", model)
    for part, name in (("selection", "logits_lang"), ("adapter", "up_weight"), ("adapter", "norm_bias")):
        ours = getattr(getattr(model.encoder, part), name)
        assert torch.equal(ours, getattr(getattr(trained.encoder, part), name)[[2, 0]])


def test_logit_movement_starts_at_the_trained_model(tmp_path):
    model = Model("es", "ar")
    initialise(f"{saved(Model('es', 'ar'), tmp_path, 'es', 'ar')}:encoder:encoder", model)
    with scope({"lang": torch.tensor([0])}) as shared:
        model.encoder.selection(1)
    assert float(shared.stats()["logit_movement"]) == 0


@pytest.mark.parametrize(("languages", "count"), [("ar de", 72), ("es de", 2)])
def test_schedules_continue_where_their_part_is_copied(tmp_path, languages, count):
    """Logits that are drawn again need the noise with which training begins."""
    trained, model = Model("ar", "de"), Model(*languages.split())
    trained.encoder.selection.updates.count.fill_(70)
    path = saved(trained, tmp_path, "ar", "de")
    initialise(f"{path}:encoder:encoder:encoder.adapter", model, ignore_init_mismatch=True)
    with scope({"lang": torch.tensor([0])}, step=Step(2, 0)):
        model.encoder.selection(1)
    assert float(model.encoder.selection.updates.count) == count


@pytest.mark.parametrize(
    ("trained", "known", "init", "said"),
    [
        (Model(), (), "encodr:encoder", "model.pth has nothing under the name 'encodr'; it has: encoder decoder"),
        (Model(), (), "encoder:encodr", "the model has nothing under the name 'encodr'; it has: encoder decoder"),
        (Model(size=4), (), "encoder:encoder", r"2 of 2 .* do not fit the model: layer.weight \(4, 4\) for \(3, 3\), "),
        (
            Model(),
            (),
            "encoder:decoder",
            r"layer.weight \(not in the model\), .*; take the same configuration and vocabulary",
        ),
        (Model("ar", "de"), ("ar", "de"), "encoder:encoder", r"selection.logits_lang \(knows no es, but ar, de\)"),
    ],
)
def test_unknown_names_and_mismatched_parameters_are_refused(tmp_path, trained, known, init, said):
    model = Model("es", "de")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(ModelError, match=said):
        initialise(f"{saved(trained, tmp_path, *known)}:{init}", model)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_heads_of_other_families_are_refused(tmp_path):
    trained, model = (Model(*names, strategy="static") for names in (("ar", "de"), ("de", "es")))
    with pytest.raises(ModelError, match=r"selection \(families of lang ar de\)"):
        initialise(f"{saved(trained, tmp_path, 'ar', 'de')}:encoder:encoder:encoder.adapter", model)


def test_a_mismatch_may_be_ignored_but_something_must_fit(tmp_path, caplog):
    path, model = saved(Model("ar", "de"), tmp_path, "ar", "de"), Model("es", "de")
    initialise(f"{path}:encoder:encoder", model, ignore_init_mismatch=True)
    assert "knows no es" in caplog.text
    assert torch.equal(model.encoder.layer.bias, checkpoint.load(path)["encoder.layer.bias"])
    with pytest.raises(ModelError, match=r"no parameter of .*model\.pth fits the model"):
        initialise(f"{path}:decoder:encoder", model, ignore_init_mismatch=True)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ModelError, match=r"none\.pth: cannot be read \(No such file"):
        initialise(f"{tmp_path}/none.pth:encoder:encoder", Model())


class Writer(nn.Module):
    """Rows for each of V tokens, of the text and of the source, and a layer and an encoder with as many."""

    def __init__(self, v: int = 3):
        super().__init__()
        self.frontend, self.ctc, self.decoder = nn.Module(), nn.Module(), nn.Module()
        self.frontend.embed, self.ctc.ctc_lo = nn.Embedding(v, 2), nn.Linear(2, v)
        self.decoder.embed, self.decoder.norm = nn.Embedding(v, 2), nn.LayerNorm(2)
        self.decoder.decoders = nn.ModuleList([nn.Linear(2, v)])
        self.encoder = nn.Module()
        self.encoder.embed = nn.Conv1d(1, v, 1)


@pytest.mark.parametrize(
    ("key", "named"),
    [
        ("token_list", "1 of 10 parameters do not fit the model: decoder.embed.weight (of other tokens); take "),
        ("src_token_list", "3 of 10 parameters do not fit the model: frontend.embed.weight (of other tokens), ctc.ctc"),
    ],
)
def test_token_rows_are_not_copied_to_other_tokens(tmp_path, caplog, key, named):
    trained, model = Writer(), Writer()
    path = saved(trained, tmp_path)
    config = {"token_list": ["a", "b", "c"], "src_token_list": ["a", "b", "c"]}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    other = config | {key: ["b", "a", "c"]}
    with pytest.raises(ModelError) as error:
        initialise(path, model, config=other)
    assert named in str(error.value) and "vocabulary (--tokens_dir)" in str(error.value)
    for part in ("decoder.decoders", "encoder"):
        initialise(f"{path}:{part}:{part}", model, config=other)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    initialise(path, model, ignore_init_mismatch=True, config=other)
    kept = {name for name, value in model.state_dict().items() if torch.equal(value, before[name])}
    assert kept >= ({"decoder.embed.weight"} if key == "token_list" else {"frontend.embed.weight", "ctc.ctc_lo.bias"})
    initialise(path, model, config=config)
    assert torch.equal(model.decoder.embed.weight, trained.decoder.embed.weight)


def test_rows_of_known_tokens_are_taken_where_that_is_asked_for(tmp_path):
    trained, model = Writer(3), Writer(4)
    path = saved(trained, tmp_path)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"token_list": ["a", "b", "c"]}))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    config = {"token_list": ["d", "c", "e", "a"]}
    with pytest.raises(ModelError, match="set init_known_tokens to take the rows of known tokens, exclude them, or"):
        initialise(f"{path}:decoder.embed:decoder.embed", model, config=config)
    config["init_known_tokens"] = True
    for part in ("decoder.embed", "ctc"):
        initialise(f"{path}:{part}:{part}", model, config=config)
    after = model.state_dict()
    for name in ("decoder.embed.weight", "ctc.ctc_lo.weight", "ctc.ctc_lo.bias"):
        assert torch.equal(after[name][[1, 3]], trained.state_dict()[name][[2, 0]])
        assert torch.equal(after[name][[0, 2]], before[name][[0, 2]])
    with pytest.raises(ModelError, match=r"encoder.embed.weight|embed.weight \(3, 1, 1\) for \(4, 1, 1\)"):
        initialise(f"{path}:encoder:encoder", model, config=config)  # as many channels as tokens


def test_the_source_of_translation_has_the_tokens_of_recognition(tmp_path):
    """CTC of a speech translation writes the source text, and the second decoder reads it."""
    trained, model = Writer(), Writer()
    path = saved(trained, tmp_path)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"task": "asr", "token_list": ["a", "b", "c"]}))
    config = {"token_list": ["x", "y", "z"], "src_token_list": ["a", "b", "c"]}
    initialise(f"{path}:ctc:ctc", model, config=config)
    assert torch.equal(model.ctc.ctc_lo.weight, trained.ctc.ctc_lo.weight)
    with pytest.raises(ModelError, match=r"parameters do not fit the model: weight \(of other tokens\)"):
        initialise(f"{path}:decoder.embed:decoder.embed", model, config=config)


def test_adapters_of_embeddings_and_output_layers_follow_the_tokens(tmp_path):
    """They have as many rows as columns."""
    trained, model = Writer(), Writer()
    for each in (trained, model):
        low_rank.add_low_rank(each, low_rank.LowRankOptions(rank=3, target_modules=["ctc_lo", "decoder.embed"]))
        for _, module in low_rank.adapted(each):
            nn.init.normal_(module.lora_A)
            nn.init.normal_(module.lora_B)
    path = saved(trained, tmp_path)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"token_list": ["a", "b", "c"]}))
    initialise(path, model, config={"token_list": ["b", "c", "a"], "init_known_tokens": True})
    given, after = trained.state_dict(), model.state_dict()
    assert torch.equal(after["decoder.embed.lora_A"], given["decoder.embed.lora_A"][:, [1, 2, 0]])
    assert torch.equal(after["ctc.ctc_lo.lora_B"], given["ctc.ctc_lo.lora_B"][[1, 2, 0]])
    for name in ("decoder.embed.lora_B", "ctc.ctc_lo.lora_A"):
        assert torch.equal(after[name], given[name])


LAYER = {"attention_heads": 2, "num_blocks": 1, "linear_units": 8}
AS_WIDE = {
    "asr": {
        "input_size": 8,
        "encoder": "diverse_transformer",
        "encoder_conf": LAYER | {"output_size": 16},
        "decoder": "diverse_transformer",
        "decoder_conf": LAYER,
    },
    "lm": {"lm": "transformer", "lm_conf": {"att_unit": 16, "embed_unit": 16, "head": 2, "layer": 1, "unit": 8}},
}
"""Models with a width of 16."""


def as_wide_as_tokens(task: str, tokens: list[str]) -> nn.Module:
    args = TASKS[task].get_parser().parse_args([])
    vars(args).update({"frontend": None, "specaug": None, "normalize": None, "token_list": tokens}, **AS_WIDE[task])
    model = TASKS[task].build_whole_model(args)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return model


@pytest.mark.parametrize(
    ("task", "rows"),
    [
        ("asr", {"decoder.embed.0.weight", *(f"{n}.{p}" for n in ("decoder.output_layer", "ctc.ctc_lo") for p in WB)}),
        ("lm", {"lm.embed.weight", *(f"lm.decoder.{p}" for p in WB)}),
    ],
)
def test_parameters_of_units_are_none_of_tokens_where_there_are_as_many(task, rows, tmp_path):
    old = ["<blank>", "<unk>", *"abcdefghijklm", "<sos/eos>"]
    new = ["<blank>", "<unk>", *"mlkjihgfedcba", "<sos/eos>"]
    trained, model = as_wide_as_tokens(task, old), as_wide_as_tokens(task, new)
    path = saved(trained, tmp_path)
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"task": task, "token_list": old}))
    initialise(path, model, config={"token_list": new, "init_known_tokens": True})
    given, after = trained.state_dict(), model.state_dict()
    order = [old.index(token) for token in new]
    assert {name for name in given if not torch.equal(after[name], given[name])} == rows
    assert all(torch.equal(after[name], given[name][order]) for name in rows)


@pytest.mark.parametrize("by", [{}, {"by": "lang", "conditions": {"lang": ["de", "en"]}}])
@pytest.mark.parametrize("had_adapter", [False, True])
def test_magnitudes_are_those_of_the_trained_weights(tmp_path, by, had_adapter):
    torch.manual_seed(0)
    options = {"rank": 2, "alpha": 4, "target_modules": ["0", "2"], **by}
    trained, model = (nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 4)) for _ in range(2))
    if had_adapter:
        low_rank.add_low_rank(trained, low_rank.LowRankOptions(**options))
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.mul_(3).add_(0.3 * torch.randn_like(parameter))
    checkpoint.save(trained.train().eval().state_dict(), tmp_path / "model.pth")
    low_rank.add_low_rank(model, low_rank.LowRankOptions(**options, use_dora=True))
    initialise(str(tmp_path / "model.pth"), model)
    x = torch.randn(5, 6)
    with scope({"lang": torch.tensor([0, 1, 0, 1, 1])}):
        torch.testing.assert_close(model(x), trained(x))
        torch.testing.assert_close(model.train()(x), trained(x))
