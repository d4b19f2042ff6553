import logging
import os
import warnings

import pytest
from references.killed_steps import DONE, with_room

from espnet_diverse.runs import logs
from espnet_diverse.runs.logs import logged


def test_the_log_has_all_records_and_the_console_warnings_once(tmp_path, capfd):
    root = logging.getLogger()
    noisy = logging.StreamHandler()
    root.addHandler(noisy)
    before, level = root.handlers[:], root.level
    with logged(tmp_path / "new" / "stage.log"):
        logging.info("detail")
        for text in ("beware", "beware", "beware of", "beware"):
            logging.warning(text)
        warnings.warn("of a library", UserWarning, stacklevel=1)
    assert root.handlers == before and root.level == level
    root.removeHandler(noisy)
    logging.info("after")
    assert capfd.readouterr().err == "WARNING: beware\nWARNING: beware of\n"
    log = (tmp_path / "new" / "stage.log").read_text()
    assert log.count("beware") == 4
    assert all(text in log for text in ("detail", "beware", "of a library")) and "after" not in log


def test_handlers_are_taken_away_after_an_error_too(tmp_path):
    before = logging.getLogger().handlers[:]
    with pytest.raises(KeyError), logged(tmp_path / "stage.log"):
        raise KeyError
    assert logging.getLogger().handlers == before


def test_a_log_that_finds_no_room_is_no_error(tmp_path, capfd):
    def log():
        with logged(tmp_path / "stage.log"):
            logging.info("detail")

    assert with_room(log, 0) == DONE
    assert capfd.readouterr().err == "" and (tmp_path / "stage.log").read_text() == ""


@pytest.mark.parametrize(("path", "given", "said"), [("/dev/full", 1, ""), (os.devnull, "x", "TypeError: %d format")])
def test_a_record_that_finds_no_room_is_lost_and_a_wrong_one_is_shown(capsys, path, given, said):
    handler = logs._LogFile(path)
    handler.handle(logging.makeLogRecord({"msg": "%d", "args": (given,)}))
    handler.close()
    shown = capsys.readouterr().err
    assert said in shown and bool(shown) == bool(said)
