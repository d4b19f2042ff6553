from espnet_diverse.decoding.grouping import each_result, grouped
from espnet_diverse.errors import DataError


def test_batches_hold_items_of_like_length_and_not_too_many_frames():
    lengths = [9, 40, 8, 60, 7, 33, 101]
    assert list(grouped(lengths, int, 3, 100)) == [[101], [60], [40, 33], [9, 8, 7]]
    assert list(grouped([5, 5, 5], int, 2, 100)) == [[5, 5], [5]]
    assert list(grouped([], int, 2, 100)) == []


def test_the_item_that_breaks_its_batch_is_found_and_the_fault_is_told(caplog):
    asked = []

    def inverted(items):
        asked.append(items)
        return [1 / item for item in items]

    first, second, third = each_result(inverted, [2, 0, 4])
    assert (first, third) == (0.5, 0.25) and isinstance(second, ZeroDivisionError)
    assert asked == [[2, 0, 4], [2], [0], [4]]
    (record,) = caplog.records  # not of the item alone, whose exception is its result
    assert "3" in record.message and "ZeroDivisionError: division by zero" in record.message
    assert record.exc_info[0] is ZeroDivisionError
    assert each_result(inverted, [1, 2]) == [1.0, 0.5] and len(caplog.records) == 1


def test_a_fault_that_the_user_can_mend_has_no_traceback(caplog):
    def short(items):
        if len(items) > 1:
            raise DataError("at most 1 item")
        return items

    assert each_result(short, [3, 4]) == [3, 4]
    (record,) = caplog.records
    assert "at most 1 item" in record.message and not record.exc_info
