from graphwright_plugins.naming import did_you_mean, listing, nearest


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
