from onestyle.analysis.drawing import COLOURS, FIXED, MARKERS, looks_of, short


def test_styles_have_their_colours_everywhere():
    looks = looks_of(["SimCLR, plain", "fa", "digits-simclr-bss-photo-s0", "another"])
    assert [look.colour for look in looks.values()][:3] == [
        FIXED["plain"],
        FIXED["fa"],
        FIXED["bss"],
    ]
    assert looks["another"].colour in COLOURS


def test_runs_have_a_look_each():
    names = ["BSS 1", "BSS 2", "basset", *map(str, range(5))]
    looks = looks_of(names)
    assert len({look.colour for look in looks.values()}) == 8
    assert looks["basset"].colour != FIXED["bss"] == looks["BSS 1"].colour
    assert [look.marker for look in looks.values()] == list(MARKERS[:8])
    assert len(looks_of(map(str, range(40)))) == 40


def test_words_of_the_user_s_stay_on_a_line():
    assert short("two\nlines", 20) == "two lines"
    assert short("x" * 30, 10) == "x" * 9 + "…"
