from espnet_diverse.corpora.shared.sgm import segment


def test_segments():
    assert segment('<seg id="12"> a &lt;b&gt; </seg>') == " a <b> "
    assert segment("<SEG ID=3>x</SEG>") == "x"
    assert [segment(line) for line in ("</doc>", "plain", "")] == [None] * 3
