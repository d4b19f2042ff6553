"""The command `train` in this process, as tests of training give it."""

from espnet_diverse.bin.main import main


def train(run, model_dir, *changes, allow=(), nproc=1, **data):
    """Train with changed settings or data directories, in several processes if need be; return the exit code."""
    arguments = run._replace(**data).data()
    paths = ["--stats_dir", str(run.stats_dir), "--output_dir", str(model_dir)]
    allowed = ["--allow_changed", *allow] if allow else []
    processes = ["--nproc", str(nproc)] if nproc > 1 else []
    return main(
        ["train", *run.config, *arguments, *paths, *(f"--set={change}" for change in changes), *allowed, *processes]
    )
