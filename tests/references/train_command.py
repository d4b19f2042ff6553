"""The command `train` in this process, as tests of training give it."""

from espnet_diverse.bin.main import main

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
