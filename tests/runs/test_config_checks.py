import pytest

from espnet_diverse.errors import ConfigError
from espnet_diverse.runs import config_checks
from espnet_diverse.runs.config import merge
from espnet_diverse.runs.config_checks import check, doubts
from espnet_diverse.runs.tasks import ASRTask, LMTask


def checked(*overrides: str) -> None:
    check(ASRTask, merge(["model/tiny"], overrides))


def test_the_shared_fragments_are_accepted():
    for model in ("tiny", "small", "transformer_6x6"):
        for attention in ("softmax", "sma", "sdma"):
            check(ASRTask, merge([f"model/{model}", f"attention/{attention}", "update/adam_noam_25k"]))
    check(ASRTask, merge(["model/tiny", "attention/sma", "losses/disagreement", "repulsion/svgd"]))
    check(ASRTask, merge(["model/tiny", "losses/r_drop", "losses/cr_ctc"]))


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("max_epochs=3", r"--set max_epochs=3: unknown option 'max_epochs'; did you mean 'max_epoch'\?"),
        ("encoder_conf.num_block=3", r"unknown option 'encoder_conf.num_block'; did you mean 'num_blocks'\?"),
        ("decoder_conf.self_atention_dropout_rate=0", "did you mean 'self_attention_dropout_rate'"),
        ("frontend_conf.n_mel=3", "unknown option 'frontend_conf.n_mel'; did you mean 'n_mels'"),
        ("model_conf.ctc_wait=0.3", "did you mean 'ctc_weight'"),
        (
            "encoder_conf={attention: {core: softmax, clusters: 3}}",
            "unknown option 'encoder_conf.attention.clusters'; known: selection disagreement qk_norm head_patterns",
        ),
        ("encoder_conf={attention: {core: softmax, head_pattern: [global]}}", "did you mean 'head_patterns'"),
        ("encoder_conf={attention: {core: softmax, head_patterns: [[global], [globl]]}}", "did you mean 'global'"),
        ("optim_conf.learning_rate=1", "unknown option 'optim_conf.learning_rate'; known: .*lr"),
        ("ctc_conf.dropout=1", "unknown option 'ctc_conf.dropout'; did you mean 'dropout_rate'"),
        ("encoder=diverse", "--set encoder=diverse: unknown encoder 'diverse'; known: .*diverse_transformer"),
        ("optim=adamm", "unknown optim 'adamm'; known: .*adam "),
        ("optim=lbfgs", "unknown optim .lbfgs.; known: "),
        ("scheduler=warm", "unknown scheduler 'warm'; known: .*warmuplr"),
        (
            "encoder_conf.input_layer=conv3d",
            "unknown encoder_conf.input_layer 'conv3d' of .*; known: conv1d2 conv2d ",
        ),
        ("encoder_conf.pos_enc_layer_type=rel_pos", "pos_enc_layer_type 'rel_pos' of .*; known: abs_pos conv$"),
        ("encoder_conf.positionwise_layer_type=conv", "'conv' of .*; known: conv1d conv1d-linear linear"),
        ("iterator_type=sequenc", "--set iterator_type=sequenc: iterator_type must be one of sequence category chunk "),
        ("ddp_comm_hook=fp16", "ddp_comm_hook must be one of none fp16_compress_hook bf16_compress_hook, but "),
        ("train_dtype=bfloat16", "train_dtype must be one of float16 float32 float64, but is 'bfloat16'"),
        ("encoder_conf=3", "--set encoder_conf=3: encoder_conf is 3; give a mapping of options"),
    ],
)
def test_unknown_options_and_invalid_values_are_refused(override, said):
    with pytest.raises(ConfigError, match=said):
        checked(override)


@pytest.mark.parametrize(
    ("encoder", "ignoring"),
    [
        ("diverse_transformer", ["encoder", "decoder"]),
        ("conformer", ["encoder", "decoder"]),
        ("diverse_e_branchformer", ["decoder"]),
    ],
)
def test_layers_that_are_not_dropped_are_told(encoder, ignoring):
    rates = ["encoder_conf.layer_drop_rate=0.1", "decoder_conf.layer_drop_rate=0.2"]
    told = doubts(ASRTask, merge(["model/tiny"], ["optim=adam", f"encoder={encoder}", *rates]))
    assert sorted(each.partition("=")[0] for each in told) == sorted(
        f"--set {n}_conf.layer_drop_rate" for n in ignoring
    )
    assert all(each.endswith("has no effect, as this net of ESPnet drops no layers") for each in told)
    none = [f"{name}_conf.layer_drop_rate=0" for name in ignoring]
    assert doubts(ASRTask, merge(["model/tiny"], ["optim=adam", *none])) == []


def test_wandb_needs_its_package(monkeypatch):
    monkeypatch.setattr(config_checks, "find_spec", lambda name: None)
    said = r"^--set use_wandb=true: use_wandb needs the package wandb: pip install 'espnet_diverse\[wandb\]'$"
    with pytest.raises(ConfigError, match=said):
        checked("use_wandb=true")


def test_a_key_in_a_file_is_refused_with_file_and_line(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("max_epoch: 3\nencoder_conf:\n  attenton: {core: sma}\n")
    with pytest.raises(
        ConfigError, match=r"mine\.yaml:3: unknown option 'encoder_conf.attenton'; did you mean 'attention'"
    ):
        check(ASRTask, merge(["model/tiny", path]))


@pytest.mark.parametrize(
    ("section", "text", "line", "said"),
    [
        ("encoder_conf", "  attention:\n    core: sdma\n    n_cluster_z: 3\n", 4, "n_clusters_z"),
        ("decoder_conf", "  cross_attention:\n    core: sma\n    n_cluster_z: 3\n", 4, "n_clusters_z"),
        ("encoder_conf", "  attention:\n    selection:\n      strategy: none\n      pol: 8\n", 5, "pool"),
        ("encoder_conf", "  attention:\n    disagreement:\n      of: output\n      weigth: 8\n", 5, "weight"),
        ("encoder_conf", "  adapter:\n    by: lang\n    botleneck: 8\n", 4, "bottleneck"),
        ("decoder_conf", "  start_tag:\n    by: lang\n    condition: 8\n", 4, "conditions"),
        ("model_conf", "  consistency:\n    r_dorp: 1.0\n", 3, "r_drop"),
    ],
)
def test_a_nested_key_is_refused_with_file_and_line(tmp_path, section, text, line, said):
    path = tmp_path / "mine.yaml"
    path.write_text(f"{section}:\n{text}")
    with pytest.raises(ConfigError) as error:
        check(ASRTask, merge(["model/tiny", path]))
    shown, key = str(error.value).split(": unknown option ")
    assert shown.endswith(f"mine.yaml:{line}") and key.startswith(f"'{section}.")
    assert key.endswith(f"; did you mean {said!r}?")


def test_an_option_of_another_attention_is_refused_with_the_origins_of_both():
    said = r"sdma.yaml:\d+: unknown option 'encoder_conf.attention.n_clusters_z'; .*core comes .*window.yaml:\d+\)$"
    with pytest.raises(ConfigError, match=said):
        check(ASRTask, merge(["model/tiny", "attention/sdma", "attention/window"]))


@pytest.mark.parametrize("part", ["adapter", "start_tag"])
def test_head_selection_is_an_option_of_attention_alone(part):
    with pytest.raises(ConfigError, match=f"unknown option 'decoder_conf.{part}.selection'; known: by"):
        checked(f"decoder_conf.{part}={{by: lang, selection: {{strategy: group}}}}")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (
            "encoder_conf.attention.core=sdmaa",
            "encoder_conf.attention: unknown attention 'sdmaa'; did you mean 'sdma'?",
        ),
        ("encoder_conf.attention=sdma", "encoder_conf.attention: 'sdma' is not a mapping of options"),
        ("encoder_conf.attention.preset=best", "encoder_conf.attention: attention 'sdma' has no preset 'best'; known"),
        ("encoder_conf.attention.lambda_k=-1", "encoder_conf.attention: lambda_k must be at least 0, but is -1"),
        ("encoder_conf.attention.selection.strategy=no", "encoder_conf.attention.selection: strategy must be"),
        (
            "encoder_conf.attention.selection=group",
            "encoder_conf.attention.selection: head selection must be a",
        ),
        (
            "encoder_conf.attention.disagreement.of=values",
            "encoder_conf.attention.disagreement: of must be one of output subspace position ",
        ),
        ("decoder_conf.adapter.bottleneck=8", "decoder_conf.adapter: adapter.by is missing; choose from: lang"),
    ],
)
def test_a_nested_value_is_refused_with_its_origin(override, said):
    with pytest.raises(ConfigError) as error:
        check(ASRTask, merge(["model/tiny", "attention/sdma"], [override]))
    assert said in str(error.value)
    assert str(error.value).startswith(f"--set {override}: ")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("lambda_k: -1", "lambda_k must be at least 0, but is -1"),
        ("nu: 1.5", "nu must be at least 0 and at most 1, but is 1.5"),
        ("preset: best", "attention 'sma' has no preset 'best'"),
    ],
)
def test_the_line_of_a_wrong_value_is_named(tmp_path, line, said):
    path = tmp_path / "mine.yaml"
    path.write_text(f"encoder_conf:\n  attention:\n    core: sma\n    kl_direction: paper\n    {line}\n")
    with pytest.raises(ConfigError, match=rf"mine\.yaml:5: encoder_conf.attention: {said}"):
        check(ASRTask, merge(["model/tiny", path]))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("tau: 0", "tau must be above 0, but is 0"),
        ("by: speaker", "by must be one or a list of"),
        ("default_condition: {lang: fr}", "default_condition must be one of de en, but is 'fr'"),
        ("families: [[de]]", "'en' is in 0 families"),
    ],
)
def test_the_line_of_a_wrong_value_of_head_selection_is_named(tmp_path, line, said):
    path = tmp_path / "mine.yaml"
    given = f"strategy: static\n      conditions: {{lang: [de, en]}}\n      {line}"
    path.write_text(f"encoder_conf:\n  attention:\n    selection:\n      {given}\n")
    with pytest.raises(ConfigError, match=rf"mine\.yaml:6: encoder_conf.attention.selection: {said}"):
        check(ASRTask, merge(["model/tiny", path]))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("segment: 0", "encoder_conf.memory: segment must be at least 1, but is 0"),
        ("slots: many", "encoder_conf.memory: slots must be a whole number, but is 'many'"),
        ("slot: 3", "unknown option 'encoder_conf.memory.slot'; did you mean 'slots'?"),
    ],
)
def test_the_line_of_a_wrong_value_of_a_memory_is_named(tmp_path, line, said):
    path = tmp_path / "mine.yaml"
    path.write_text(f"encoder_conf:\n  memory:\n    kind: xl\n    {line}\n")
    with pytest.raises(ConfigError) as error:
        check(ASRTask, merge(["model/tiny", path]))
    assert f"mine.yaml:4: {said}" in str(error.value)


@pytest.mark.parametrize("kind", ["xls", "[xl]", "null"])
def test_a_memory_of_an_unknown_kind_is_refused(kind):
    with pytest.raises(ConfigError, match=r"encoder_conf.memory: unknown kind of memory .*; (did you mean|known: cdt)"):
        checked(f"encoder_conf.memory.kind={kind}")


@pytest.mark.parametrize("kind", ["cdt", "xl", "compressive"])
def test_memories_of_encoders_and_language_models_are_accepted(kind):
    check(ASRTask, merge(["model/tiny", f"memory/{kind}"]))
    fragments = merge(["model/lm_tiny", f"memory/lm_{kind}"])
    check(LMTask, fragments)
    fragments["lm_conf"]["memory"]["segment"] = 0
    with pytest.raises(ConfigError, match="lm_conf.memory: segment must be at least 1, but is 0"):
        check(LMTask, fragments)


@pytest.mark.parametrize("kind", ["cdt", "xl", "compressive"])
def test_memories_of_decoders_are_accepted(kind):
    fragments = merge(["model/tiny", f"memory/{kind}", f"memory/decoder_{kind}", f"memory/cross_{kind}"])
    check(ASRTask, fragments)
    fragments["decoder_conf"]["cross_memory"]["scope"] = "shared"
    with pytest.raises(ConfigError, match="decoder_conf.cross_memory: cross_memory has no scope: "):
        check(ASRTask, fragments)
    del fragments["decoder_conf"]["cross_memory"]
    fragments["decoder_conf"]["memory"]["segment"] = 0
    with pytest.raises(ConfigError, match="decoder_conf.memory: segment must be at least 1, but is 0"):
        check(ASRTask, fragments)


def test_a_model_of_espnet_has_no_memory_with_losses_in_its_decoder():
    with pytest.raises(ConfigError, match="model 'espnet' leaves out the losses of decoder_conf.cross_memory"):
        checked("model=espnet", "decoder_conf.cross_memory={kind: cdt}")


def test_sections_of_espnets_own_nets_are_left_to_espnet():
    with pytest.raises(ConfigError, match="key encoder_conf.attention is for a net of this package"):
        checked("encoder=transformer", "encoder_conf={attention: {core: sma}}")


def test_names_are_taken_in_any_case_and_null_means_none():
    checked("encoder=Diverse_Transformer", "specaug=null", "scheduler=null", "init=none", "encoder_conf=null")


def test_a_missing_model_fragment_is_named():
    said = (
        r"sdma.yaml:\d+: key encoder_conf.attention is for a net of this package, and no encoder is given; put a frag"
    )
    with pytest.raises(ConfigError, match=said):
        check(ASRTask, merge(["attention/sdma"]))
    with pytest.raises(ConfigError, match="is for a net of this package, and encoder is 'vgg_rnn'; put a fragment"):
        checked("encoder=vgg_rnn", "encoder_conf.attention.core=sdma")


@pytest.mark.parametrize(
    ("part", "name"), [("encoder", "conformer"), ("encoder", "Transformer"), ("decoder", "transformer")]
)
def test_for_a_net_of_espnet_its_counterpart_is_named(part, name):
    said = f"is for a net of this package, and {part} is '{name}'; give {part}: diverse_{name.lower()}$"
    with pytest.raises(ConfigError, match=said):
        checked(f"{part}={name}", f"{part}_conf.attention.core=sdma")


@pytest.mark.parametrize(
    "part", ["attention={core: sma}", "attention={core: softmax, disagreement: {of: output}}", "memory={kind: cdt}"]
)
def test_a_model_of_espnet_that_would_leave_losses_out_is_refused(part):
    has = (
        f"--set model=ESPnet: model 'ESPnet' leaves out the losses of encoder_conf.{part.partition('=')[0]}; set model"
    )
    with pytest.raises(ConfigError, match=has):
        checked("encoder=diverse_transformer", f"encoder_conf.{part}", "model=ESPnet")
    checked("encoder=diverse_transformer", f"encoder_conf.{part}", "model=diverse")


@pytest.mark.parametrize("part", ["attention={core: window}", "memory={kind: xl}", "attention=null"])
def test_a_model_of_espnet_takes_our_nets_without_losses(part):
    checked("encoder=diverse_transformer", f"encoder_conf.{part}", "model=espnet")


def test_the_configuration_of_another_task_is_named():
    said = "tiny.yaml:2: key 'frontend' is not one of the task given, but of asr st mt; give another --task, or the"
    with pytest.raises(ConfigError, match=said):
        check(LMTask, merge(["model/tiny"]))
    said = (
        "mt_base.yaml:5: unknown frontend 'embed'; known: default .* whisper whisper_.*; for this one give --task mt$"
    )
    with pytest.raises(ConfigError, match=said):
        check(ASRTask, merge(["model/mt_base"]))
