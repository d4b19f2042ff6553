"""Prints how many cases of the marker `counted` passed, where they are chosen by name as `make trust` does."""

from collections import Counter


def pytest_collection_modifyitems(items):
    """Let the report of each case carry what it counts for."""
    for item in items:
        for marker in item.iter_markers("counted"):
            item.user_properties.append(("counted", marker.args[0]))


def pytest_terminal_summary(terminalreporter, config):
    """Print a line for each thing that was counted."""
    if "counted" not in config.option.markexpr:
        return
    for outcome in ("passed", "failed", "error"):
        done = [report for report in terminalreporter.getreports(outcome) if report.when == "call"]
        names = [dict(report.user_properties).get("counted") for report in done]
        for what, count in Counter(filter(None, names)).items():
            terminalreporter.write_line(f"{what}: {count} {outcome}")
