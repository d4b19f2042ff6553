"""Packed models and runs made to execute, escape or exhaust: each is refused in one line, or is harmless.

Each case runs in a process of its own, with 2 GB of memory and 20 seconds. `make trust` runs all, `make test` some.
"""

import io
import os
import pickle
import shutil
import zipfile

import pytest
import torch
import yaml
from references.limited import limited

from espnet_diverse.errors import UserError
from espnet_diverse.packing.facts import Facts
from espnet_diverse.packing.pack import pack
from espnet_diverse.runs.packed.archive import unpacked
from espnet_diverse.runs.tasks import load_model

VALUES = (
    0,
    -1,
    10**6,
    10**9,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    "x" * 10**5,
    "/dev/zero",
    [1] * 1000,
    {"a": {}},
)
NUMBERS = (
    *("encoder_conf.num_blocks", "encoder_conf.output_size", "encoder_conf.linear_units"),
    *("encoder_conf.attention_heads", "decoder_conf.num_blocks", "decoder_conf.linear_units"),
    *("frontend_conf.n_fft", "frontend_conf.hop_length", "frontend_conf.n_mels", "frontend_conf.win_length"),
)
PARTS = {
    "frontend": ("s3prl", "whisper", "fused", "asteroid", "melspec_torch"),
    "encoder": ("beats", "whisper", "hubert", "hugging_face_transformers", "wav2vec2", "avhubert", "../x"),
    "decoder": ("hugging_face_transformers", "whisper", "s4"),
    "postencoder": ("hugging_face_transformers",),
    "preencoder": ("x",),
    "token_type": ("hugging_face", "whisper_multilingual", "/dev/zero"),
    "specaug": ("os.system",),
    "model": ("os.system", "__import__"),
}
KEYS = {
    "token_list": ("/dev/zero", "/etc/passwd", [1, 2], {"a": 1}, [["a"]], 3),
    "bpemodel": ("/dev/zero", "../../x", ["x"], "x" * 10**5),
    "normalize_conf": ("text", {"stats_file": "/dev/zero"}, {"stats_file": ["x"]}, {"stats_file": "../../../x"}),
    "task": ("x", ["asr"], 3),
    "encoder_conf": ("text", [1], 3),
    "non_linguistic_symbols": ("/dev/zero",),
    "init_param": (["/dev/zero"],),
}
ALIASES = "a: &a [x]\n" + "".join(
    f"{chr(i + 1)}: &{chr(i + 1)} [{','.join([f'*{chr(i)}'] * 10)}]\n" for i in range(97, 110)
)
DOCUMENTS = {
    "aliases": ALIASES,
    "merge keys": "a: &a {b: 1}\nc: {<<: *a}\n",
    "itself": "a: &a [*a]\n",
    "deep": "[" * 100_000,
    "deep mappings": "a: " + "{a: " * 10_000,
    "a long list": "a: [" + "0," * 500_000 + "]",
    "15 MB": "a: [" + "0, " * 5_000_000 + "]",
    "base 60": "a: 1" + ":1" * 500_000,
    "digits": "a: " + "9" * 1_000_000,
    "object": "a: !!python/object/apply:os.system ['touch ran']\n",
    "name": "a: !!python/name:os.system\n",
    "module": "a: !!python/object/new:os.system ['touch ran']\n",
    "list": "- 1\n",
    "nothing": "",
    "binary": b"\x00\xff" * 500,
    "key of a list": "? [a]\n: 1\n",
    "key of a number": "3: 1\n",
    "date": "a: 2020-99-99\n",
    "two documents": "--- {}\n--- {}\n",
    "open": "a: [1",
}
ARCHITECTURE = {
    "name": "x",
    "license": None,
    "encoder": {"model_type": "wav2vec2", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2},
    "processor": {"do_normalize": True},
}
ENCODERS = {
    "of a repository": {"model": "evil/encoder"},
    "of a folder": {"model": "/etc"},
    "of a device": {"model": "/dev/zero"},
    "of nothing": {},
    "with code": {"architecture": {"encoder": {"auto_map": {"AutoModel": "evil.Model"}}}},
    "with trust": {"architecture": {"encoder": {"trust_remote_code": True}}},
    "with a kernel": {"architecture": {"encoder": {"_attn_implementation": "evil/kernel"}}},
    "of another type": {"architecture": {"encoder": {"model_type": "table-transformer"}}},
    "of many layers": {"architecture": {"encoder": {"num_hidden_layers": 1000, "hidden_size": 1000}}},
    "of great width": {"architecture": {"encoder": {"hidden_size": 1_000_000}}},
    "of great filters": {"architecture": {"encoder": {"conv_dim": [10**6] * 7}}},
    "with many filters": {"architecture": {"processor": {"feature_size": 10**9}}},
    "with an option": {"architecture": {"processor": {"tokenizer": "evil/x"}}},
    "of a key": {"architecture": {"code": "x"}},
    "of text": {"architecture": "/dev/zero"},
}
"""Options of the frontend of pretrained encoders; those of an architecture are added to `ARCHITECTURE`."""
MEMBERS = dict.fromkeys(("../evil", "/tmp/evil", "a/../../evil", "..", "C:\\evil", "a\\..\\..\\evil", "e" * 300), "x")
WEIGHTS = {"empty": b"", "words": b"words", "pickle": pickle.dumps({"a": 1}), "zip": b"PK\x05\x06" + bytes(18)}


class Payload:
    def __reduce__(self):
        return os.system, ("touch ran",)


@pytest.fixture(scope="module")
def members(tiny_run, tmp_path_factory):
    """Content by name of a packed model."""
    model = pack(tiny_run.model_dir, tmp_path_factory.mktemp("packed") / "m.zip", Facts(), weights="pth")
    with zipfile.ZipFile(model) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def cases(members):
    """Name and members of each hostile model."""
    config = yaml.safe_load(members["config.yaml"])

    def changed(dotted, value):
        copy, below = yaml.safe_load(members["config.yaml"]), None
        *sections, key = dotted.split(".")
        below = copy
        for section in sections:
            below = below.setdefault(section, {})
        below[key] = value
        return {**members, "config.yaml": yaml.safe_dump(copy)}

    for key in NUMBERS:
        yield from ((f"{key}: {str(value)[:20]}", changed(key, value)) for value in VALUES)
    for key, values in (PARTS | KEYS).items():
        yield from ((f"{key}: {str(value)[:20]}", changed(key, value)) for value in values)
    for name, options in ENCODERS.items():
        given = options.get("architecture")
        if isinstance(given, dict):
            both = {key: ARCHITECTURE[key] | given.get(key, {}) for key in ("encoder", "processor")}
            options = {"architecture": ARCHITECTURE | given | both}
        conf = {"frontend": "huggingface", "frontend_conf": options}
        yield f"an encoder {name}", {**members, "config.yaml": yaml.safe_dump(config | conf)}
        parts = {"frontend": "fused", "frontend_conf": {"frontends": [{"frontend_type": "huggingface", **options}]}}
        yield f"a fused encoder {name}", {**members, "config.yaml": yaml.safe_dump(config | parts)}
    for name, text in DOCUMENTS.items():
        yield f"config.yaml of {name}", {**members, "config.yaml": text}
        yield f"meta.yaml of {name}", {**members, "meta.yaml": text}
    for name, content in MEMBERS.items():
        yield f"member {name[:20]}", {**members, name: content}
    (weights,) = [name for name in members if name.endswith(".pth")]
    code = io.BytesIO()
    torch.save({"w": Payload()}, code)
    for name, content in (WEIGHTS | {"code": code.getvalue(), "raw code": pickle.dumps(Payload())}).items():
        yield f"weights of {name}", {**members, weights: content}
    yield "a bomb of zeros", {**members, "zeros": bytes(1 << 27)}
    yield "statistics of code", {**members, "feats_stats.npz": pickle.dumps(Payload())}
    yield "no configuration", {name: content for name, content in members.items() if name != "config.yaml"}
    assert config


def check(tmp_path, monkeypatch, some) -> tuple[int, float]:
    """Open every model; returns how many were refused, and the longest time."""
    monkeypatch.setenv("ESPNET_DIVERSE_CACHE", str(tmp_path / "cache"))
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    refused, longest = 0, 0.0
    for name, content in some:
        with zipfile.ZipFile(tmp_path / "m.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for member, data in content.items():
                archive.writestr(member, data)
        outcome = limited(lambda: load_model(unpacked(tmp_path / "m.zip")), UserError)
        assert outcome.code in (0, 1), (name, outcome)
        assert "\n" not in outcome.said and len(outcome.said) < 1500, name
        assert not (work / "ran").exists() and not list(tmp_path.rglob("evil")), name
        refused, longest = refused + outcome.code, max(longest, outcome.seconds)
        shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    return refused, longest


def test_some_hostile_models_neither_run_nor_escape_nor_exhaust(members, tmp_path, monkeypatch):
    check(tmp_path, monkeypatch, [*cases(members)][::11])


@pytest.mark.trust
def test_hostile_models_neither_run_nor_escape_nor_exhaust(members, tmp_path, monkeypatch, capsys):
    some = [*cases(members)]
    assert len(some) >= 150
    refused, longest = check(tmp_path, monkeypatch, some)
    with capsys.disabled():
        print(f"\nhostile models: {len(some)}, {refused} refused, the others harmless, at most {longest:.1f} s each")
