"""The parts of a page: what is escaped, what stands out, and which cells may break."""

from softfair import page
from softfair.figures import new_figure


def test_every_text_is_escaped():
    parts = [
        page.heading("<a>", "<b>"),
        page.bullets(["<c>"], [True]),
        page.section("<d>", "<hr>", "<e>"),
        page.table(["<f>"], [["<g>"]]),
        page.page("<h>", "", "").decode(),
    ]
    for letter in "abcdefgh":
        assert sum(f"&lt;{letter}&gt;" in part for part in parts) == 1
        assert not any(f"<{letter}>" in part for part in parts)
    assert "<hr>" in parts[2]


def test_stressed_text_is_marked():
    assert page.bullets(["x", "y"], [False, True]) == ('<ul><li>x</li><li class="look">y</li></ul>')
    assert page.heading("x") == "<h1>x</h1>"
    assert page.section("x", "y") == "<section><h2>x</h2>y</section>"


def test_figures_stay_on_one_line_and_sentences_do_not():
    share = "70.2 % (66.6 % to 100.0 %)"
    table = page.table(["share", "why"], [[share, "a sentence that goes on for too long"]])
    assert f"<td>{share}</td>" in table
    assert '<td class="long">a sentence' in table
    assert table.startswith('<div class="wide"><table><thead>')
    assert '<table class="text">' in page.table(["x"], [["y"]], text=True)


def test_one_panel_fits_a_telephone_and_several_scroll():
    one, _ = new_figure(width=4.0)
    several, _ = new_figure(columns=2)
    assert '<div class="one"><img style="width:24rem" alt="&lt;x&gt;"' in page.image(one, "<x>")
    assert '<div class="wide"><img style="min-width:64rem"' in page.image(several, "x")
    assert page.picture(one) == page.picture(one)
    assert page.picture(one, "svg") == page.picture(one, "svg")
