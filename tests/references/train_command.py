"""The command `train` in this process, as tests of training give it."""

import pytest

from espnet_diverse.bin.main import main
from espnet_diverse.training.loop.non_finite import NonFiniteBatches

NOISELESS = [  # losses per token: the gradient of several processes is that of one
    *("optim=sgd", "optim_conf={lr: 0.1}", "model_conf.length_normalized_loss=true"),
    *("encoder_conf.dropout_rate=0", "encoder_conf.positional_dropout_rate=0", "encoder_conf.attention.noise_std=0"),
    *("decoder_conf.dropout_rate=0", "decoder_conf.positional_dropout_rate=0", "decoder_conf.attention.noise_std=0"),
    "decoder_conf.cross_attention.noise_std=0",
]
"""Settings of the tiny run with which training draws no noise."""


def train(run, model_dir, *changes, allow=(), nproc=1, **data):
    """Train with changed settings or data directories, in several processes if need be; return the exit code."""
    arguments = run._replace(**data).data()
    paths = ["--stats_dir", str(run.stats_dir), "--output_dir", str(model_dir)]
    allowed = ["--allow_changed", *allow] if allow else []
    processes = ["--nproc", str(nproc)] if nproc > 1 else []
    return main(
        ["train", *run.config, *arguments, *paths, *(f"--set={change}" for change in changes), *allowed, *processes]
    )


def assert_packed_decodes_the_same(model_dir, data_dir, folder):
    """Decode in batches; where ESPnet's search would take over, its lack of a length penalty is an error."""
    packed, search = folder / "packed.zip", ("beam_size=2", "batch_size=3", "minlenratio=-4", "length_penalty=1")
    options = ["--data_dir", str(data_dir), *(f"--set={option}" for option in search)]
    assert main(["pack", str(model_dir), "--output", str(packed)]) == 0
    for model in (model_dir, packed):
        assert main(["decode", str(model), *options, "--output_dir", str(folder / f"by {model.name}")]) == 0
        assert "one by one" not in (folder / f"by {model.name}" / "decode.log").read_text()
    for name in ("text", "score"):
        ours, theirs = ((folder / f"by {model.name}" / name).read_text() for model in (model_dir, packed))
        assert ours == theirs and all(len(line.split()) == 2 for line in ours.splitlines())


class Killed(BaseException):
    """What nothing expects, so that training ends as after a kill."""


def train_until_killed(step, *arguments):
    """Train as `train` does, and end as after a kill after the update of a batch, counted from 1."""

    def kill():
        raise Killed

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        call_after(step, kill, patch)
        train(*arguments)


def call_after(step, function, patch):
    """Call a function after the update of a batch of a training in this process, counted from 1, by `patch`."""
    done, check = 0, NonFiniteBatches.check

    def counted(self, group, *rest):
        nonlocal done
        check(self, group, *rest)
        done += len(group)
        if done - len(group) < step <= done:
            function()

    patch.setattr(NonFiniteBatches, "check", counted)
