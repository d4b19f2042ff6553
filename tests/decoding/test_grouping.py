from espnet_diverse.decoding.grouping import each_result, grouped


def test_batches_hold_items_of_like_length_and_not_too_many_frames():
    lengths = [9, 40, 8, 60, 7, 33, 101]
    assert list(grouped(lengths, int, 3, 100)) == [[101], [60], [40, 33], [9, 8, 7]]
    assert list(grouped([5, 5, 5], int, 2, 100)) == [[5, 5], [5]]
    assert list(grouped([], int, 2, 100)) == []


def test_the_item_that_breaks_its_batch_is_found():
    asked = []

    def inverted(items):
        asked.append(items)
        return [1 / item for item in items]

    first, second, third = each_result(inverted, [2, 0, 4])
    assert (first, third) == (0.5, 0.25) and isinstance(second, ZeroDivisionError)
    assert asked == [[2, 0, 4], [2], [0], [4]]
    assert each_result(inverted, [1, 2]) == [1.0, 0.5]
