from hypothesis import given
from hypothesis import strategies as st

from cdk.base.secret_marks import SecretMarks
from cdk.base.secret_masking import Secrets, spellings

SECRETS = st.text(st.characters(codec="utf-8", exclude_characters="<>"), min_size=4, max_size=20)
PLAIN = st.text("xyz ?&=/", max_size=6)


@given(SECRETS, PLAIN, PLAIN, st.data())
def test_what_is_put_back_is_what_was_cut_out(secret: str, before: str, behind: str, data: st.DataObject) -> None:
    spelled = data.draw(st.sampled_from(sorted(spellings(secret).values())))
    token = {"url": f"{before}{spelled}{behind}", "deep": [{"k": spelled}, 7, None, True]}
    marks = SecretMarks([("credentials.key", secret)])

    cut = marks.cut(token)

    assert not Secrets([secret]).holds(str(cut).replace("<secret credentials.key", ""))
    assert marks.restore(cut) == token


def test_a_longer_secret_leaves_no_rest_of_itself() -> None:
    marks = SecretMarks([("user", "abcd"), ("key", "abcd-efgh")])

    assert marks.cut("x abcd-efgh y abcd") == "x <secret key plain> y <secret user plain>"


def test_a_secret_that_is_a_word_of_the_marks_is_cut_once() -> None:
    marks = SecretMarks([("a", "secret"), ("b", "plain")])

    assert marks.cut("secret plain") == "<secret a plain> <secret b plain>"
    assert marks.restore(marks.cut("secret plain")) == "secret plain"


def test_a_mark_of_a_secret_that_is_gone_stays() -> None:
    assert SecretMarks([("new", "abcd")]).restore({"t": "<secret old plain>"}) == {"t": "<secret old plain>"}


def test_short_texts_are_not_cut() -> None:
    assert SecretMarks([("pin", "123")]).cut({"page": "1234"}) == {"page": "1234"}
