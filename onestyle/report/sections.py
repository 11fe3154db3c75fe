"""The sections of a report, each a function that gives nothing where there is nothing to show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from onestyle.analysis.embedding import Embedding
from onestyle.analysis.similarity import BINS
from onestyle.report.answer import answer
from onestyle.report.charts import Curve, line_chart
from onestyle.report.contents import Report, Views
from onestyle.report.dots import dot_map, legend
from onestyle.report.escape import html
from onestyle.report.groups import chance_of, percents_of, score
from onestyle.report.pictures import grid, sheet, side_of
from onestyle.report.results import results_table
from onestyle.report.tables import to_html

__all__ = ["SECTIONS"]

POINTS = 200  # of a training curve


def _section(title: str, lead: str, *inside: str) -> str:
    return f"<section><h2>{title}</h2><p class='lead'>{lead}</p>{''.join(inside)}</section>\n"


def _key(report: Report) -> str:
    """Which colour is which group."""
    items = (
        f'<li style="--c:var(--s{k})"><i></i>{html(group.name)}</li>'
        for k, group in enumerate(report.groups)
    )
    return f'<ul class="series">{"".join(items)}</ul>'


def _charts(report: Report, charts: Sequence[str]) -> str:
    return f'{_key(report)}<div class="charts">{"".join(charts)}</div>'


def _top(report: Report) -> str:
    return answer(report.groups)


def _results(report: Report) -> str:
    percents = percents_of(report.groups)
    if not percents:
        return ""
    table = results_table(report.groups)
    charts = []
    if len(percents) > 1:
        charts = [_by_fraction(report, measure, words) for measure, words in _measures(report)]
    return _section(
        "Few labels, many labels",
        "The backbone stays as pretraining left it; a linear head learns from a share of the "
        "sources' labels. Bars reach one standard deviation up and down.",
        _charts(report, charts) if charts else "",
        f'<div class="scroll">{to_html(table)}</div>',
    )


def _measures(report: Report) -> Iterator[tuple[str, str]]:
    """What is charted: the mean of unseen domains, each of them, and the sources' own."""
    targets = report.names.targets
    if len(targets) > 1:
        yield "average", "mean of the unseen, accuracy in %"
    for name in targets:
        yield name, f"{name}, unseen, accuracy in %"
    yield "val", "sources, held out, accuracy in %"


def _by_fraction(report: Report, measure: str, title: str) -> str:
    curves, percents = [], percents_of(report.groups)
    for k, group in enumerate(report.groups):
        found = [(p, s) for p in percents if (s := score(group, p, measure))]
        if found:
            x, scores = zip(*found, strict=True)
            means, stds = [s.mean for s in scores], [s.std for s in scores]
            curves.append(Curve(group.name, k, x, means, group.marker, stds))
    if not curves:
        return ""
    chance = chance_of(report.groups, measure)
    levels = [(chance, "chance")] if chance is not None else []
    options = {"log": True, "x_ticks": percents, "levels": levels, "y_word": "{:.3g}".format}
    return line_chart(curves, title, "% of the labels", **options)


def _views(report: Report) -> str:
    shown = report.having("views")
    if not shown or report.images is None:
        return ""
    figures = [_figure_of_views("the images", [Views("unchanged", report.images[:, None])])]
    figures += [_figure_of_views(group.name, views, k) for k, group, views in shown]
    return _section(
        "What training looked at",
        "A row is an image, a column a view of it, made as the run made its own. With FA each cell "
        "borrows the style of some image of the batch; with BSS a whole column has one.",
        f'<div class="views">{"".join(figures)}</div>',
    )


def _figure_of_views(name: str, views: Sequence[Views], series: int | None = None) -> str:
    n_columns = sum(group.pixels.shape[1] for group in views)
    colour = f";--c:var(--s{series})" if series is not None else ""
    parts = [f'<figure style="--columns:{n_columns}{colour}">']
    parts.append(f"<figcaption><b>{html(name)}</b></figcaption><div>")
    for group in views:
        words, (n, n_views) = html(group.words), group.pixels.shape[:2]
        picture = f'<img src="{grid(group.pixels)}" alt="{words}: {n} images, {n_views} each">'
        parts.append(f"<p>{picture}<small>{words}</small></p>")
    return "".join([*parts, "</div></figure>"])


WORDS = {
    "loss": "loss",
    "val_knn": "k-NN accuracy on held-out images",
    "val_across": "the same, neighbours of other domains alone",
    "val_purity": "domain purity of held-out images",
    "embedding_std": "spread of embeddings (0: collapsed)",
    "prototypes_used": "prototypes in use",
}
UNSHOWN = {"step", "lr", "views_per_second", "data_share", "views_share"}


def _training(report: Report) -> str:
    rows = [row for found in report.findings for run in found.rows for row in run]
    known = dict.fromkeys([*WORDS, *(name for row in rows for name in row)])
    charts = [_over_training(report, name) for name in known if name not in UNSHOWN]
    if not any(charts):
        return ""
    return _section(
        "Training",
        "A line is a run. Losses of different methods, or of different styles, cannot be compared: "
        "the task differs. k-NN accuracy and purity need labels and are only looked at.",
        _charts(report, charts),
    )


def _over_training(report: Report, name: str) -> str:
    curves = []
    for k, found in enumerate(report.findings):
        for rows in found.rows:
            points = np.array([(row["step"], row[name]) for row in rows if name in row])
            if len(points) > 1:
                x, y = _thinned(points).T.tolist()
                curves.append(Curve(report.groups[k].name, k, x, y))
    return line_chart(curves, WORDS.get(name, name), "step") if curves else ""


def _thinned(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """At most POINTS of them, means of neighbours."""
    parts = np.array_split(points, min(POINTS, len(points)))
    return np.array([part.mean(0) for part in parts])


def _neighbours(report: Report) -> str:
    found = [(k, group, it) for k, group, of in report.having("purity") for it in of]
    kinds = dict.fromkeys(kind for _, _, it in found for kind in it.curves)
    charts = []
    for kind in kinds:
        some = [(k, group, it) for k, group, it in found if kind in it.curves]
        curves = [Curve(g.name, k, it.ks, it.curves[kind], g.marker) for k, g, it in some]
        levels = [(some[0][2].chance[kind], "chance")]
        ticks = [k for k in (1, 10, 100, 1000) if k <= some[0][2].ks[-1]]
        options = {"log": True, "x_ticks": ticks, "y_word": "{:.2g}".format}
        title = f"of the same {kind}, share of neighbours"
        charts.append(line_chart(curves, title, "k neighbours", levels=levels, **options))
    if not charts:
        return ""
    return _section(
        "Who is near whom",
        "Of the k nearest neighbours of an image's features (cosine; held-out and unseen images), "
        "how many come from its domain, how many are of its class? A backbone that ignores style "
        "has few of the first and many of the second.",
        _charts(report, charts),
    )


def _similarities(report: Report) -> str:
    found = [(k, group, it) for k, group, of in report.having("similarity") for it in of]
    if not found:
        return ""
    middles = (np.arange(BINS) + 0.5) * 2 / BINS - 1
    curves = [
        Curve(group.name, k, middles.tolist(), [100 * s for s in it.shares], filled=True)
        for k, group, it in found
    ]
    title = "pairs of different images, in %"
    chart = line_chart(curves, title, "cosine", x_ticks=(-1, -0.5, 0, 0.5, 1), y_from=0)
    means = "; ".join(
        f"{html(group.name)} {', '.join(f'{it.mean:.2f}' for it in of)}"
        for _, group, of in report.having("similarity")
    )
    return _section(
        "How alike are different images?",
        "Cosines between embeddings of different images of a batch, each under the run's own "
        "training views: the negatives that the loss sees. The more alike they are, the harder the "
        f"task, and style alone does not solve it. Means: {means}.",
        _charts(report, [chart]),
    )


def _prototypes(report: Report) -> str:
    found = report.having("homogeneity")
    kinds = dict.fromkeys(kind for _, _, it in found for m in it.moments for kind in m.purity)
    charts = []
    for kind in kinds:
        curves = []
        for k, group, it in found:
            steps = [moment.step for moment in it.moments]
            two = [moment.purity[kind] for moment in it.moments]
            curves.append(Curve(group.name, k, steps, [m.value for m in two], group.marker))
            chance = [m.chance for m in two]
            curves.append(Curve(f"{group.name}, by chance", k, steps, chance, dashed=True))
        charts.append(line_chart(curves, f"share of the most frequent {kind}", "step"))
    if not charts:
        return ""
    return _section(
        "What prototypes stand for",
        "Of the images of a prototype, the share that belongs to its most frequent domain, or "
        "class, over training. Dashed: the same with shuffled labels.",
        _charts(report, charts),
    )


def _maps(report: Report) -> str:
    found = report.having("embedding")
    if not found:
        return ""
    first = found[0][2]
    kinds = {"domain": first.domain, "class": first.label}
    present = [kind for kind, numbers in kinds.items() if numbers is not None]
    switch = "".join(
        f'<button type="button" data-by="{kind}" aria-pressed="{str(kind == present[0]).lower()}">'
        f"{kind}</button>"
        for kind in present
    )
    figures = "".join(
        f'<figure style="--c:var(--s{k})"><figcaption><b>{html(group.name)}</b>'
        f"<small>{_near(it)}</small></figcaption>{dot_map(it, group.name)}</figure>"
        for k, group, it in found
    )
    pointing = "Point at a dot, or tap it, and it lights up in every map"
    pointing += "." if report.thumbs is None else ", with its image."
    return _section(
        "A map of the features",
        f"t-SNE of {len(first.rows):,} held-out and unseen images; only who is near whom means "
        f"something. {pointing}",
        f'<div id="maps" data-colour="{present[0] if present else "none"}">'
        f'<div class="switch" role="group" aria-label="colour by">{switch}</div>'
        f'{legend(first, report.names)}<div class="maps">{figures}</div>{_card(report)}</div>',
    )


def _near(result: Embedding) -> str:
    """The numbers of a map, in brackets by chance."""
    found = {"domain purity": result.domain_purity, "class k-NN": result.class_knn}
    return " · ".join(f"{n} {m.value:.2f} ({m.chance:.2f})" for n, m in found.items() if m)


def _card(report: Report) -> str:
    thumb = ""
    if report.thumbs is not None:
        uri, columns = sheet(report.thumbs)
        rows, side = -(-len(report.thumbs) // columns), side_of(report.thumbs.shape[-1])
        size = f"--n:{columns};--m:{rows};background-image:url({uri})"
        smooth = "" if side * 2 > 96 else " pixels"
        thumb = f'<i class="thumb{smooth}" data-columns="{columns}" style="{size}"></i>'
    return f'<div id="card" role="status" hidden>{thumb}<b></b><span></span></div>'


def _provenance(report: Report) -> str:
    heads = ("run", "group", "seed", "steps", "images", "views", "minutes", "commit", "recipe")
    lines = []
    for group in report.groups:
        for run, result in zip(group.runs, group.results, strict=True):
            made, words = result["made_with"], [html(run.path.resolve().name), html(group.name)]
            words += [str(result["seeds"]["pretraining"]), f"{run.recipe.steps:,}"]
            words += [f"{result[key]:,}" for key in ("images_seen", "views_seen")]
            words += [f"{result['seconds'] / 60:.1f}", html(made.get("commit") or "")]
            words += [f"<code>{html(result['config_hash'][:12])}</code>"]
            lines.append("<tr>" + "".join(f"<td>{word}</td>" for word in words) + "</tr>")
    head = "".join(f"<th>{word}</th>" for word in heads)
    made = report.groups[0].results[0]["made_with"]
    data = report.groups[0].runs[0].config["data"]
    versions = ", ".join(f"{html(name)} {html(made[name])}" for name in made if name != "commit")
    return _section(
        "Where the numbers come from",
        f"Data: {html(data['store'])}, {data['n']:,} images of {data['size']} px; sources "
        f"{_list(data['sources'])}; unseen {_list(data['targets'])}; split "
        f"<code>{html(data['split'][:12])}</code>. Made with {versions}.",
        f'<div class="scroll"><table class="runs"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>",
    )


def _list(names: Sequence[str]) -> str:
    return html(", ".join(names) or "none")


SECTIONS: tuple[Callable[[Report], str], ...] = (
    _top,
    _results,
    _maps,
    _views,
    _neighbours,
    _similarities,
    _prototypes,
    _training,
    _provenance,
)
