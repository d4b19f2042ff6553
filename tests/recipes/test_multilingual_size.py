"""The models of the head-selection paper's speech experiments have the numbers of parameters that it prints."""

import re

import pytest
import torch
from references.markdown import ROOT

LANGUAGES = ["ar", "de", "el", "es", "fr", "it", "pt", "ru"]
SOURCES = ["el", "es", "fr", "it", "pt", "ru"]
TARGETS = ["en", "es", "fr", "it", "pt"]
TRAINED = (
    "es-en es-fr es-it es-pt fr-en fr-es fr-pt pt-en el-en ru-en"  # of the 13 directions of mTEDx, 3 are zero-shot
)
DOMAINS = ["tedx", "covost", "europarl"]
MTEDX, ALL_DOMAINS = 8000, 10_000  # pieces: what fairseq prepares for mTEDx; the paper gives none for all domains


def selection(strategy, condition, names, **options):
    return {
        "attention": {"selection": {"strategy": strategy, "by": condition, "conditions": {condition: names}, **options}}
    }


def adapter(by, conditions, **options):
    section = {"adapter": {"by": by, "conditions": conditions, **options}}
    return section, section


def build(task, pieces, encoder_conf, decoder_conf, fragments=()):
    from espnet_diverse.runs.config import merge
    from espnet_diverse.runs.tasks import TASKS

    config = merge(["model/transformer_12x6", *fragments])
    config.add({"encoder_conf": encoder_conf, "decoder_conf": decoder_conf}, {})
    parser = TASKS[task].get_parser()
    parser.set_defaults(**config)
    args = parser.parse_args([])
    args.token_list = args.src_token_list = [f"piece{i}" for i in range(pieces)]
    with torch.device("meta"):  # without values, which take longer than all else
        return TASKS[task].build_model(args)


def parameters(model, without=()):
    return sum(p.numel() for name, p in model.named_parameters() if not any(word in name for word in without))


@pytest.fixture(scope="module")
def base():
    """Number of parameters of the model without any option, by task and vocabulary."""
    return {key: parameters(build(*key, {}, {})) for key in (("asr", MTEDX), ("st", MTEDX), ("asr", ALL_DOMAINS))}


def test_the_base_has_31_million(base):
    gated_subsampling = 80 * 1024 * 5 + 1024 + 512 * 512 * 5 + 512
    attention, feed_forward, norm = 4 * (256 * 256 + 256), 2 * 256 * 2048 + 2048 + 256, 2 * 256
    encoder = 12 * (attention + feed_forward + 2 * norm) + norm
    decoder = 6 * (2 * attention + feed_forward + 3 * norm) + norm
    embedding_and_output = MTEDX * (2 * 256 + 1)
    expected = gated_subsampling + encoder + decoder + embedding_and_output
    assert base["asr", MTEDX] == base["st", MTEDX] == expected == 31_080_256
    assert f"{base['asr', ALL_DOMAINS] / 1e6:.0f}" == "32"


GROUP, SUBSET = (
    (selection(kind, "lang", LANGUAGES), selection(kind, "tgtlang", LANGUAGES)) for kind in ("group", "subset")
)
GROUP_ST = (selection("group", "lang", SOURCES), selection("group", "tgtlang", TARGETS))
STATIC_ST = (selection("static", "lang", SOURCES, families=[["ar"], SOURCES]), {})
GROUP_DOMAIN, STATIC_DOMAIN = ([selection(kind, "domain", DOMAINS)] * 2 for kind in ("group", "static"))
ADAPTER = adapter("lang", {"lang": LANGUAGES})
ADAPTER_ST = adapter(
    ["lang", "tgtlang"],
    {"lang": SOURCES, "tgtlang": TARGETS},
    combinations=[direction.split("-") for direction in TRAINED.split()],
)
ADAPTER_DOMAIN = adapter("domain", {"domain": DOMAINS})


@pytest.mark.parametrize(
    ("task", "pieces", "sections", "increment", "millions", "printed"),
    [
        pytest.param("asr", MTEDX, GROUP, 3_552_768, "3.553", "35", id="asr-group"),
        pytest.param("asr", MTEDX, SUBSET, 3_552_768, "3.553", "35", id="asr-subset"),
        pytest.param("st", MTEDX, GROUP_ST, 3_552_768, "3.553", "35", id="st-group"),
        pytest.param("st", MTEDX, STATIC_ST, 2_368_512, "2.369", "33", id="st-static"),
        pytest.param("asr", ALL_DOMAINS, GROUP_DOMAIN, 3_552_768, "3.553", "36", id="domain-group"),
        pytest.param("asr", ALL_DOMAINS, STATIC_DOMAIN, 7_105_536, "7.106", "39", id="domain-static"),
        pytest.param("asr", MTEDX, ADAPTER, 19_021_824, "19.022", "50", id="asr-adapter"),
        pytest.param("st", MTEDX, ADAPTER_ST, 23_777_280, "23.777", "55", id="st-adapter"),
        pytest.param("asr", ALL_DOMAINS, ADAPTER_DOMAIN, 7_133_184, "7.133", "39", id="domain-adapter"),
    ],
)
def test_parameters(base, task, pieces, sections, increment, millions, printed):
    """Increments without the logits of the selection, of which there are at most 1,152."""
    model = build(task, pieces, *sections)
    assert parameters(model, without=["logits"]) - base[task, pieces] == increment
    assert f"{increment / 1e6:.3f}" == millions
    assert f"{parameters(model) / 1e6:.0f}" == printed
    assert parameters(model) - parameters(model, without=["logits"]) <= 1152


def heads_of(sources, targets):
    return [
        {"attention": {"selection": {"conditions": {condition: names}}}}
        for condition, names in (("lang", sources), ("tgtlang", targets))
    ]


OF_ADAPTERS_ST = [{"adapter": {"conditions": {"lang": SOURCES, "tgtlang": TARGETS}}}] * 2


@pytest.mark.parametrize(
    ("task", "row", "fragments", "conditions", "printed"),
    [
        ("asr", "static", ["heads/static", "conf/families.yaml"], heads_of(LANGUAGES, LANGUAGES), "35"),
        ("st", "static", ["heads/static", "conf/families.yaml"], heads_of(SOURCES, TARGETS), "33"),
        ("st", "adapter", ["adapter/bottleneck", "conf/directions.yaml"], OF_ADAPTERS_ST, "55"),
    ],
)
def test_the_fragments_of_mtedx_make_the_models_of_the_paper(task, row, fragments, conditions, printed):
    """Where the fragments that all recipes share would make another model: a family or an adapter for each language."""
    folder = ROOT / "egs/mtedx" / f"{task}1"
    (line,) = re.findall(rf"^\| {row} .*$", (folder / "RESULTS.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert f"| {printed} M |" in line and f"`{','.join(fragments)}`" in line
    model = build(task, MTEDX, *conditions, [folder / name if name.startswith("conf/") else name for name in fragments])
    assert f"{parameters(model) / 1e6:.0f}" == printed
