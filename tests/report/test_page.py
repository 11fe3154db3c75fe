"""The page in a real Chromium: it needs no network, complains of nothing, and answers."""

import pytest

LOOKS = {
    "light": {},
    "dark": {"dark": True},
    "phone": {"width": 360, "height": 780, "phone": True},
}


@pytest.mark.parametrize("look", LOOKS)
def test_it_loads_by_itself_and_fits(look, page, tab, screenshots):
    tab.open(page, **LOOKS[look])
    tab.screenshot(screenshots / f"report-{look}.png")
    assert [url for url in tab.requests if not url.startswith("data:")] == [page.as_uri()]
    assert any(url.startswith("data:image/webp") for url in tab.requests)
    assert tab.complaints == []
    assert tab.ask("document.documentElement.scrollWidth <= innerWidth")
    assert tab.ask("[...document.images].every(image => image.naturalWidth > 0)")


def paper(tab):
    return tab.ask("getComputedStyle(document.body).backgroundColor")


def test_dark_and_light_by_the_system_and_by_the_button(page, tab):
    tab.open(page)
    light = paper(tab)
    tab.click("#theme")
    dark = paper(tab)
    tab.open(page, dark=True)
    assert paper(tab) == dark != light
    tab.click("#theme")
    assert paper(tab) == light


def fill(tab, dot):
    return tab.ask(f"getComputedStyle(document.querySelector('[data-i=\"{dot}\"]')).fill")


def test_dots_take_the_colour_of_their_domain_or_class(page, tab):
    tab.open(page)
    by_domain = [fill(tab, dot) for dot in range(60)]
    assert len({*by_domain}) > 1
    tab.click("[data-by=class]")
    by_class = [fill(tab, dot) for dot in range(60)]
    assert len({*by_class}) == 10
    tab.click("[data-by=domain]")
    assert [fill(tab, dot) for dot in range(60)] == by_domain


def test_a_name_of_the_legend_shows_its_dots_alone(page, tab):
    tab.open(page)
    faint = "document.querySelectorAll('circle.off:not(.d3)').length"
    others = tab.ask("document.querySelectorAll('circle:not(.d3)').length")
    tab.click("[data-only=d3]")
    assert tab.ask(faint) == others > 0
    assert tab.ask("document.querySelectorAll('circle.d3.off').length") == 0
    tab.click("[data-only=d3]")
    assert tab.ask("document.querySelectorAll('circle.off').length") == 0


CARD = """(card => card.hidden ? null : {
    class: card.querySelector("b").textContent,
    domain: card.querySelector("span").textContent,
    thumb: getComputedStyle(card.querySelector(".thumb")).backgroundPosition,
    on: [...document.querySelectorAll("circle.on")].map(dot => dot.dataset.i),
    inside: (r => r.left >= 0 && r.right <= innerWidth && r.top >= 0 && r.bottom <= innerHeight)(
        card.getBoundingClientRect()),
})(document.getElementById("card"))"""


@pytest.mark.parametrize("look", ["light", "phone"])
def test_pointing_at_a_dot_shows_its_image(look, page, tab, screenshots):
    tab.open(page, **LOOKS[look])
    n_maps = tab.ask("document.querySelectorAll('svg.map').length")
    assert n_maps == 2 and tab.ask(CARD) is None
    seen = {}
    for dot in (3, 40):
        place = tab.place(f"svg.map [data-i='{dot}']")
        tab.tap(*place) if look == "phone" else tab.point(*place)
        seen[dot] = shown = tab.ask(CARD)
        near = int(shown["on"][0])  # dots may lie one on the other
        kinds = tab.ask(f"document.querySelector('[data-i=\"{near}\"]').getAttribute('class')")
        names = [tab.ask(f"document.querySelector('[data-only={k}] span').textContent")
                 for k in kinds.split()[:2]]  # fmt: skip
        assert [shown["domain"], shown["class"]] == names
        assert shown["on"] == [str(near)] * n_maps and shown["inside"]
    tab.screenshot(screenshots / f"report-{look}-pointing.png", whole=False)
    assert seen[3]["thumb"] != seen[40]["thumb"]


def test_it_prints(page, tab, screenshots):
    tab.open(page)
    tab.print(screenshots / "report.pdf")
    content = (screenshots / "report.pdf").read_bytes()
    assert content.startswith(b"%PDF") and 2 <= content.count(b"/Type /Page\n") <= 9
