import subprocess
import sys


def test_the_package_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "espnet_diverse", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("espnet-diverse ")
