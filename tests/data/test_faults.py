import pytest

from espnet_diverse.data.faults import Fault, refuse
from espnet_diverse.errors import DataError


def test_faults_are_named_and_counted():
    refuse([])
    with pytest.raises(DataError, match="^text:3: bad$"):
        refuse([Fault("text", 3, "bad")])
    faults = [Fault("text", f"utt{number}", "bad") for number in range(5)]
    with pytest.raises(DataError) as caught:
        refuse(faults)
    named = "text: utt0: bad; text: utt1: bad; text: utt2: bad"
    assert str(caught.value) == f"5 faults: {named}; and 2 more"
    assert caught.value.faults == faults
