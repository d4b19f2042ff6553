"""Fine-tune a trained model on other data: its vocabulary, its configuration, its averaged weights to begin with.

    python examples/fine_tune.py exp/sdma data/new exp/sdma_new

`data/new` holds two Kaldi data directories, train and dev. Options that follow change the configuration, for example
`--set max_epoch=3` or, for adapters around a model that stays as it is, `--config adapter/bottleneck`.
"""

import sys
from pathlib import Path

from espnet_diverse.bin.main import main as espnet_diverse


def run(command: str, *arguments: object) -> None:
    """Run one command of espnet-diverse in this process; leave the program where it fails."""
    if code := espnet_diverse([command, *map(str, arguments)]):
        sys.exit(code)


def main(trained: Path, data: Path, output: Path, *options: str) -> None:
    """Collect statistics of the new data, train from the trained weights, average the best epochs."""
    fragments = [str(trained / "train.yaml")]  # what the trained model was configured with
    if "--config" in options:
        place = options.index("--config")
        fragments.append(options[place + 1])
        options = options[:place] + options[place + 2 :]
    common = ["--config", ",".join(fragments), "--tokens_dir", trained, *options]
    common += ["--train_dir", data / "train", "--valid_dir", data / "dev"]
    run("stats", *common, "--output_dir", output / "stats")
    # All parameters are copied. With `file:encoder:encoder` it would be those of the encoder alone.
    weights = trained / "valid.acc.ave.pth"
    run("train", *common, "--init_param", weights, "--stats_dir", output / "stats", "--output_dir", output)
    run("average", output, "--number", 3)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]), *sys.argv[4:])
