import pytest

from espnet_diverse.transcription.cjk import join_texts


@pytest.mark.parametrize(
    ("texts", "text"),
    [
        ([], ""),
        (["", "one", "", "two", ""], "one two"),
        (["今天", "天气"], "今天天气"),
        (["今天，", "天气！", "「好」"], "今天，天气！「好」"),
        (["コーヒー", "です。", "𠀀"], "コーヒーです。𠀀"),
        (["今天", "ok", "天气"], "今天 ok 天气"),
        (["안녕", "하세요"], "안녕 하세요"),
    ],
)
def test_spaces_stand_where_the_script_has_them(texts, text):
    assert join_texts(texts) == text
