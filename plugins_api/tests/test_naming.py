from graphwright_plugins.naming import backend_in_words, did_you_mean, listing, nearest, raised


def test_nearest_names_come_first() -> None:
    assert nearest("egaer", ["aot_eager", "eager", "inductor"])[0] == "eager"


def test_case_does_not_matter() -> None:
    assert nearest("EAGER", ["Eager", "other"]) == ["Eager"]


def test_nothing_is_suggested_for_a_name_unlike_all() -> None:
    assert did_you_mean("xyz", ["eager"]) == ""


def test_suggestion_reads_as_a_sentence() -> None:
    assert did_you_mean("eagr", ["eager"]) == " Did you mean 'eager'?"


def test_listing_is_sorted_and_says_none() -> None:
    assert listing(["b", "a"]) == "'a', 'b'"
    assert listing([]) == "none"


def test_a_backend_is_called_by_name_and_owner() -> None:
    assert backend_in_words("x") == "backend 'x'"
    assert backend_in_words("x", "some-package", "1.0") == "backend 'x' of some-package 1.0"


def test_what_was_raised_is_told_even_if_it_fails_to_print_itself() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert raised(KeyError("a")) == "KeyError: 'a'"
    assert raised(AssertionError()) == "AssertionError"
    assert raised(Mute()) == "Mute"
