"""What can be said of a picture without eyes."""

from itertools import combinations

from matplotlib.backends.backend_agg import FigureCanvasAgg


def words_of(figure):
    """The words of a page, none of which lies on another or beyond the edge."""
    FigureCanvasAgg(figure).draw()
    boxes = [(text.get_text(), text.get_window_extent()) for text in figure.axes[0].texts]
    for word, box in boxes:
        across, down = box.x0 >= 0 and box.x1 <= figure.bbox.x1, 0 <= box.y0 <= figure.bbox.y1
        assert across and down, f"{word!r} lies beyond the edge"
    for (a, first), (b, second) in combinations(boxes, 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        down = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert across < 2 or down < 4, f"{a!r} lies on {b!r}"  # a box has white around its letters
    return [word for word, _ in boxes]
