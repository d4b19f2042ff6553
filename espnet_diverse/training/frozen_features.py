"""Features of the frozen part of a model, computed once by `stats` and read by `train`, both with `keep_features`.

The part is the encoder with all that comes before it, or the frontend alone, such as a pretrained encoder of speech.
All of its parameters must be frozen, and no augmentation may act before its end, as each epoch would draw another one.
It computes as in evaluation, without dropout.
"""

import json
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path

import torch
from espnet2.tasks.abs_task import AbsTask
from espnet2.train.distributed_utils import DistributedOption
from torch import Tensor, nn

from espnet_diverse.conditions import CONDITIONS
from espnet_diverse.errors import ConfigError
from espnet_diverse.nets.frontends.kept_features import PARTS, ReadsKeptFeatures
from espnet_diverse.progress import progress
from espnet_diverse.runs.stored.frozen_part import tensor_digests, whole_digest
from espnet_diverse.scope import scope
from espnet_diverse.training.kept_features import Record, Writer, copied

_BATCH = 8  # utterances of similar length
_AUGMENTATIONS = ("rir_scp", "noise_scp")


def frozen_part(model: nn.Module, args: Namespace) -> str:
    """The part of a model whose features can be kept, a key of `PARTS`.

    Raises:
        ConfigError: The model cannot read features, no part is frozen, an augmentation acts before its end, or it reads
            a part that is trained.
    """
    if not isinstance(model, ReadsKeptFeatures):
        raise ConfigError(f"keep_features is for models of speech of this package, not {type(model).__name__}")
    trained: list[str] = []
    for part in model.keeps:
        if (main := getattr(model, part, None)) is None or not any(True for _ in main.parameters()):
            continue
        within = tuple(f"{name}." for name in PARTS[part])
        trained = [name for name, p in model.named_parameters() if name.startswith(within) and p.requires_grad]
        if not trained:
            _check_unaugmented(model, args, part)
            return part
    reason = f"{trained[0]} is trained" if trained else "no frontend or encoder has parameters"
    raise ConfigError(
        f"keep_features: {reason}; freeze the encoder or a pretrained frontend, or leave keep_features out"
    )


def _check_unaugmented(model: nn.Module, args: Namespace, part: str) -> None:
    augmentations = {name: getattr(args, name, None) for name in _AUGMENTATIONS}
    augmentations["preprocessor_conf"] = (getattr(args, "preprocessor_conf", None) or {}).get("data_aug_effects")
    if part == "encoder":
        augmentations |= {"specaug": model.specaug, "interctc_weight": getattr(model, "interctc_weight", 0)}
        reading = [name for name in ("interctc_use_conditioning", "ctc_trim") if getattr(model.encoder, name, False)]
        if reading:
            reason = f"with encoder_conf.{reading[0]} the encoder reads the CTC layer, which is trained"
            raise ConfigError(f"keep_features: {reason}; leave keep_features out")
    if used := [name for name, value in augmentations.items() if value]:
        reason = f"{used[0]} acts within the {part} or before it, and differs in each epoch"
        raise ConfigError(f"keep_features: {reason}; set {used[0]}=null, or leave keep_features out")


def part_digest(model: nn.Module, args: Namespace, part: str) -> str:
    """A digest of the weights and the options of a part of a model."""
    modules = ((name, getattr(model, name, None)) for name in PARTS[part])
    state = {f"{name}.{key}": value for name, module in modules if module for key, value in module.state_dict().items()}
    keys = [key for name in PARTS[part] for key in (name, f"{name}_conf") if key != "normalize_conf"]  # it has a path
    options = {key: getattr(args, key, None) for key in (*keys, "speech_volume_normalize", "input_size", "train_dtype")}
    described = json.dumps(options, sort_keys=True, default=str)
    return sha256(f"{whole_digest(tensor_digests(state))} {described}".encode()).hexdigest()


def keep(
    task: type[AbsTask], model: nn.Module, args: Namespace, stats_dir: Path, data: Mapping[str, str], former: Path
) -> None:
    """Compute and write the features of the frozen part of a model for both sets, or copy those that are there.

    Args:
        task: Task of the model.
        model: The model with its trained weights.
        args: Arguments of ESPnet's command.
        stats_dir: Directory of the statistics, with the shapes of all utterances.
        data: Digests of the data.
        former: Directory of earlier statistics, with features that are taken over if they are of the same.

    Raises:
        ConfigError: See `frozen_part`.
        DataError: A feature is not finite.
    """
    part, sizes, size = frozen_part(model, args), {}, 0
    if part == "frontend":  # reads no conditions
        data = {name: digest for name, digest in data.items() if "/wav.scp" in name}
    model.eval()
    digest = part_digest(model, args, part)
    if copied(former, stats_dir, Record(part, digest, args.keep_features, 0, data, {})):
        return
    for phase in ("train", "valid"):
        shapes = stats_dir / phase / "speech_shape"
        with Writer(stats_dir / phase, args.keep_features) as writer:
            for utterances, batch in progress(_batches(task, args, phase, shapes), f"features {phase}", None, "step"):
                keys = list(_inputs(part, batch))
                new = {key: row for row, key in enumerate(keys) if key not in writer.places}
                if new:
                    rows = {name: value[[*new.values()]] for name, value in batch.items()}
                    named = {key: utterances[row] for key, row in new.items()}
                    writer.add(named, *_features(model, part, rows))
                for utterance, key in zip(utterances, keys, strict=True):
                    writer.name(utterance, key)
        sizes[phase], size = writer.bytes, writer.size
    Record(part, digest, args.keep_features, size, data, sizes).save(stats_dir)


def _batches(task: type[AbsTask], args: Namespace, phase: str, shapes: Path) -> Iterable:
    """The utterances of a phase in batches of similar length, read as in validation."""
    overrides = {"valid_data_path_and_name_and_type": getattr(args, f"{phase}_data_path_and_name_and_type")}
    overrides |= {"valid_shape_file": [str(shapes)], "valid_batch_type": "sorted", "valid_batch_size": _BATCH}
    changed = Namespace(**vars(args) | overrides | {"drop_last_iter": False, "valid_max_cache_size": 0.0})
    return task.build_iter_factory(changed, DistributedOption(), "valid").build_iter(1, shuffle=False)


def _inputs(part: str, batch: Mapping[str, Tensor]) -> Iterator[bytes]:
    """A digest of what the features of each utterance are computed from: its samples and, by an encoder, conditions."""
    conditions = [batch[name] for name in CONDITIONS if name in batch and part == "encoder"]
    for row, length in enumerate(batch["speech_lengths"].tolist()):
        parts = (batch["speech"][row, :length], *(values[row] for values in conditions))
        yield sha256(b"".join(tensor.numpy().tobytes() for tensor in parts)).digest()


@torch.no_grad()
def _features(model: nn.Module, part: str, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Features of a batch (B, T, M) and their lengths (B,)."""
    compute = model.encode if part == "encoder" else model._extract_feats
    with scope({name: batch[name][:, 0] for name in CONDITIONS if name in batch}):
        return compute(batch["speech"], batch["speech_lengths"])


def without_features(model: nn.Module, args: Namespace) -> nn.Module:
    """Let a model whose features are kept, and not normalised, collect sums of samples, which nothing reads."""
    if args.keep_features and isinstance(model, ReadsKeptFeatures):
        model.kept_part = "frontend"
    return model


def read_kept(model: nn.Module, args: Namespace) -> None:
    """Let a model in training read the features that `read_instead` gives it instead of audio.

    Args:
        model: The model with the weights that it begins with.
        args: Arguments of ESPnet's command; the volume of features is not changed.

    Raises:
        ConfigError: See `frozen_part`.
        DataError: The features are of another part, or of other weights or options.
    """
    part = frozen_part(model, args)
    stats_dir = Path(args.train_data_path_and_name_and_type[0][0]).parents[1]
    Record.load(stats_dir).check_model(stats_dir, part, part_digest(model, args, part))
    args.speech_volume_normalize = None
    model.kept_part = part
