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
        (["人々", "は二〇", "一〇年", "〆"], "人々は二〇一〇年〆"),
        (["ｶﾀｶﾅ", "です｡", "ﾊｲ"], "ｶﾀｶﾅです｡ﾊｲ"),
        (["今天", "ok", "天气"], "今天 ok 天气"),
        (["안녕", "하세요"], "안녕 하세요"),
    ],
)
def test_spaces_stand_where_the_script_has_them(texts, text):
    assert join_texts(texts) == text
