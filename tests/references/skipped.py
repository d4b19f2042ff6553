"""The tests that this installation lacks something for: listed with their reasons, and written to a file.

pytest --skipped FILE     append their names to FILE, one a line; `pytest @FILE` runs them once that is installed
"""

from pathlib import Path


def pytest_addoption(parser):
    parser.addoption("--skipped", metavar="FILE", type=Path, help="append the names of skipped tests to FILE")


def pytest_terminal_summary(terminalreporter, config):
    """Print the command that runs what was skipped; the option -rs of pyproject.toml has printed the reasons."""
    path = config.getoption("skipped")
    names = sorted({report.nodeid for report in terminalreporter.getreports("skipped")})
    if path is None or not names or hasattr(config, "workerinput"):  # a worker of xdist has only its own
        return
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(f"{name}\n" for name in names)
    terminalreporter.write_line(f"{len(names)} skipped tests or files, in {path}; make test-skipped runs them")
