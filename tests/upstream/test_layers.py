"""ESPnet's layers by their names."""

from espnet_diverse.upstream import layers


def test_exported_names_are_espnets_own():
    assert layers.__all__ == sorted(layers.__all__)
    assert all(getattr(layers, name).__module__.startswith("espnet2.legacy.nets.") for name in layers.__all__)


def test_layers_of_one_name_in_espnet_are_told_apart():
    assert layers.ConformerLayer.__name__ == layers.EncoderLayer.__name__ == "EncoderLayer"
    assert "conformer" in layers.ConformerLayer.__module__ and "transformer" in layers.EncoderLayer.__module__
