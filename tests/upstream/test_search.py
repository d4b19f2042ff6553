"""ESPnet's search and scorers by their names."""

from espnet_diverse.upstream import search


def test_exported_names_are_espnets_own():
    assert search.__all__ == sorted(search.__all__)
    assert all(getattr(search, name).__module__.startswith("espnet2.legacy.nets.") for name in search.__all__)
