"""The CPU of the machine."""

from espnet_diverse import portable
from espnet_diverse.cpu import machine


def test_the_kind_of_a_cpu_is_its_model_and_flags(tmp_path, monkeypatch):
    def kind(text):
        (tmp_path / "cpuinfo").write_text(text)
        machine.cpu_kind.cache_clear()
        return machine.cpu_kind()

    monkeypatch.setattr(portable, "PROC", tmp_path)
    core = "processor\t: {0}\nmodel name\t: AMD EPYC 7763\ncpu MHz\t\t: 245{0}.1\nflags\t\t: avx avx2\n"
    two, one = f"{core.format(0)}\n{core.format(1)}", core.format(2)
    assert kind(two) == kind(one) != kind(one.replace("avx2", "avx2 avx512f"))
    assert kind("")
    machine.cpu_kind.cache_clear()
