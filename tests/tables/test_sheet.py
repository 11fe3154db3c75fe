"""What tables say of runs whose accuracies are known."""

import json
import shutil
from dataclasses import replace
from statistics import mean, stdev

import pytest

from onestyle.recipes import RECIPES, plain
from onestyle.tables.collect import collect
from onestyle.tables.keep import keep
from onestyle.tables.layout import TABLES
from onestyle.tables.plan import Ask, differences, fingerprint, plan
from onestyle.tables.sheet import make_table
from tests.tables.made import evaluated, made


def sheet(runs, name="pacs", recipes=None, **ask):
    layout = TABLES[name].with_recipes(recipes) if recipes else TABLES[name]
    jobs = plan(layout, Ask(**ask))
    harvest = collect(runs, jobs)
    assert not harvest.problems
    return make_table(layout, Ask(**ask), jobs, harvest)


def jobs_of(name="pacs", recipes=None, **ask):
    return plan(TABLES[name].with_recipes(recipes) if recipes else TABLES[name], Ask(**ask))


def cell(table, label, column, group="5% of the labels"):
    (row,) = (row for row in table.rows if (row.label, row.group) == (label, group))
    return row.cell(column)


def hits(percent, seed, target):
    return {"photo": 80, "art_painting": 60, "cartoon": 50, "sketch": 30}[target] + seed


def test_mean_and_std_of_a_target_and_of_the_average(tmp_path):
    for job in jobs_of(methods=("simclr",), styles=("bss",), seeds=(0, 1)):
        made(tmp_path, job, lambda p, s, t, job=job: hits(p, s, t) + 10 * job.recipe.seed)
    table = sheet(tmp_path, methods=("simclr",), seeds=(0, 1))
    sketch, average = (cell(table, "SimCLR w/ BSS", name) for name in ("sketch", "average"))
    each = [mean([30, 31, 32]), mean([40, 41, 42])]  # a pretraining counts once
    assert (sketch.n, sketch.mean) == (2, pytest.approx(mean(each)))
    assert sketch.std == pytest.approx(stdev(each))
    each = [mean([55, 56, 57]), mean([65, 66, 67])]
    assert (average.n, average.mean) == (2, pytest.approx(mean(each)))
    assert average.std == pytest.approx(stdev(each))
    assert sketch.paper == 65.36 and sketch.paper_marks == "!"
    assert sketch.provenance["varied"] == "pretraining (each the mean of its probes)"
    assert sketch.provenance["predictions"] == "checked"


def test_the_average_waits_for_every_target(tmp_path):
    for job in jobs_of(methods=("simclr",), styles=("bss",), targets=("photo", "sketch")):
        made(tmp_path, job, hits)
    table = sheet(tmp_path, methods=("simclr",))
    assert cell(table, "SimCLR w/ BSS", "photo").mean == 81
    assert cell(table, "SimCLR w/ BSS", "average").mean is None


def test_at_all_labels_of_pacs_the_whole_network_is_trained(tmp_path):
    (job,) = jobs_of(methods=("swav",), styles=("fa",), targets=("sketch",))
    assert (job.probed, job.finetuned) == ((1, 5, 10, 100), (100,))
    folder = made(tmp_path, job, hits)
    shutil.rmtree(folder / "finetune")
    evaluated(folder / "finetune", "finetune", job, (100,), lambda p, s, t: 70)
    table = sheet(tmp_path, methods=("swav",), targets=("sketch",))
    group = "100% of the labels, the whole network trained"
    assert cell(table, "SWaV w/ FA", "sketch", group).mean == 70
    assert cell(table, "SWaV w/ FA", "sketch").mean == 31


def test_overall_is_of_the_images_of_both_directions(tmp_path):
    sizes = {"clipart": 10, "infograph": 20, "quickdraw": 30, "painting": 40, "real": 50}
    sizes |= {"sketch": 60}
    right = {name: k * k for k, name in enumerate(sizes, 1)}
    for job in jobs_of("domainnet", methods=("simclr",), styles=("bss",)):
        made(tmp_path, job, lambda p, s, t: right[t], n=sizes)
    table = sheet(tmp_path, "domainnet", methods=("simclr",), styles=("bss",))
    overall = cell(table, "SimCLR w/ BSS", "overall")
    assert overall.mean == pytest.approx(100 * sum(right.values()) / sum(sizes.values()))
    average = mean(100 * right[name] / sizes[name] for name in sizes)
    assert cell(table, "SimCLR w/ BSS", "average").mean == pytest.approx(average)
    (row,) = (row for row in table.rows if row.ours and row.style == "bss" and "1%" in row.group)
    assert row.marks == "¶" and "ImageNet's" in table.notes["¶"]


def test_erm_is_found_without_a_run(tmp_path):
    (job,) = jobs_of(methods=("erm",), targets=("sketch",))
    assert (job.probed, job.finetuned) == ((), (1, 5, 10, 100))
    folder = made(tmp_path, job, hits)
    part = {"stage": "finetune", "data": {}}
    (folder / "p100-s0").mkdir()
    (folder / "p100-s0/recipe.yaml").write_text(json.dumps(part))
    (folder / "p100-s0/result.json").write_text("{}")
    table = sheet(tmp_path, methods=("erm",), targets=("sketch",))
    assert cell(table, "ERM", "sketch").mean == 31
    assert cell(table, "ERM", "sketch").budget is None
    small = {"recipes": "pacs-small", "methods": ("erm",), "targets": ("sketch",)}
    assert cell(sheet(tmp_path, **small), "ERM", "sketch").mean is None  # of other images


def test_a_smaller_recipe_says_its_share_of_the_papers_pixels(tmp_path):
    for job in jobs_of(recipes="pacs-small", methods=("simclr",), targets=("sketch",)):
        made(tmp_path, job, hits)
    table = sheet(tmp_path, recipes="pacs-small", methods=("simclr",), targets=("sketch",))
    paper = 60_000 * 256 * (2 * 224**2 + 6 * 128**2)
    found = cell(table, "SimCLR w/ BSS", "sketch")
    assert found.budget == pytest.approx(4000 * 128 * 4 * 64**2 / paper)
    assert "pacs-small" in table.title
    assert sheet(tmp_path, methods=("simclr",), targets=("sketch",)).rows[0].cell("sketch").n == 0


def test_the_paper_has_its_rows_and_ours_their_places():
    table = make_table(TABLES["camelyon17"], Ask(), [], collect_nothing())
    labels = [row.label for row in table.rows]
    first = labels.index("DARLING")  # of the paper's
    assert labels[first : first + 7] == [
        "DARLING", "DiMAE", "FixMatch", "SWaV", "SimCLR", "SimCLR w/ FA", "SimCLR w/ BSS",
    ]  # fmt: skip
    assert labels[0] == "ERM" and {"MoCo V2", "MAE", "CycleMAE"} <= {*labels[1:first]}
    ours = {row.label for row in table.rows if row.ours}
    assert {"ERM", "MAE", "CycleMAE", "DiMAE", "SimCLR w/ BSS"} <= ours
    assert "Unseen: hospital_2." in table.remarks
    seen, own = (row for row in table.rows if row.label == "SWaV" and row.ours)
    assert (seen.cell("100%").paper, own.cell("100%").paper) == (91.4, None)  # which has seen it
    seen = [(row.label, row.style) for row in table.rows if row.marks == "†"]
    assert seen == [("FixMatch", "none"), ("SWaV", "none")]
    for row in table.rows:
        if row.ours:  # what uses the target stands beside its like, and nothing else does
            assert ("†" in row.marks) == ("†" in row.paper_marks)
    assert table.rows[labels.index("FixMatch")].cell("100%").paper == 71.0


def test_rows_that_use_the_target_are_asked_for_and_found(tmp_path):
    """SWaV by its own name, FixMatch as ERM is: trained for every fraction."""
    (swav,) = jobs_of("camelyon17", methods=("swav-target",))
    (fixmatch,) = jobs_of("camelyon17", methods=("fixmatch",))
    assert (swav.probed, swav.finetuned) == ((1, 5, 10, 100), ())
    assert (fixmatch.probed, fixmatch.finetuned) == ((), (1, 5, 10, 100))
    assert fixmatch.n_seeds == 10 and fixmatch.protocol["steps"] == fixmatch.recipe.steps
    assert len(jobs_of("camelyon17", methods=("swav",))) == 4  # plain, FA, BSS and that one
    many = lambda p, s, t: {"hospital_1": 10, "hospital_2": 60}[t] + s  # noqa: E731
    for job in (swav, fixmatch):
        made(tmp_path, job, many, openings=2 if job.pretrained else 0, name=job.line.name)
    table = sheet(tmp_path, "camelyon17", methods=("swav", "fixmatch"))
    for label in ("SWaV", "FixMatch"):
        (row,) = (row for row in table.rows if row.label == label and row.marks)
        assert row.marks == "†" and row.cell("1%").mean == pytest.approx(64.5)
        assert row.cell("1%").n == 10 and row.cell("1%").budget is None
    plain = [row for row in table.rows if row.label == "SWaV" and not row.marks and row.ours]
    assert [row.cell("1%").n for row in plain] == [0]
    assert any(line.startswith("FixMatch: the whole network") for line in table.remarks)


def test_a_recipe_of_labels_on_another_network_is_no_cell(tmp_path):
    (job,) = jobs_of(methods=("fixmatch",), targets=("sketch",))
    folder = made(tmp_path, job, hits)
    assert collect(tmp_path, [job]).of(job)
    result = json.loads((folder / "result.json").read_text())
    del result["network"]["own"]
    (folder / "result.json").write_text(json.dumps(result))
    assert collect(tmp_path, [job]).of(job) is None


def test_a_flag_tells_two_runs_apart(tmp_path):
    (job,) = jobs_of(methods=("swav",), styles=("bss",), targets=("sketch",))
    seen = replace(job, recipe=replace(job.recipe, uses_target=True))
    assert seen.key != job.key
    made(tmp_path, seen, hits)
    harvest = collect(tmp_path, [job])
    assert not harvest.found and "uses_target True, not None" in harvest.others[0]


def collect_nothing():
    from onestyle.tables.collect import Harvest

    return Harvest({}, [])


def test_a_style_that_a_method_refuses_is_no_row():
    for style, there in (("none", True), ("fa", False), ("bss", False)):
        methods = {job.line.method for job in jobs_of("camelyon17", styles=(style,))}
        assert ("dimae" in methods, "cyclemae" in methods, "mae" in methods) == (there, there, True)
    assert not jobs_of(methods=("dimae",), styles=("bss",))


def test_a_target_that_was_seen_is_marked(tmp_path):
    (job,) = jobs_of(methods=("simclr",), styles=("bss",), targets=("sketch",))
    made(tmp_path, job, hits, openings=1)
    table = sheet(tmp_path, methods=("simclr",), styles=("bss",), targets=("sketch",))
    assert table.rows[0].marks == "†" and "target" in table.notes["†"]


def test_copies_without_weights_serve_and_say_so(tmp_path):
    (job,) = jobs_of(methods=("simclr",), styles=("bss",), targets=("sketch",))
    folder = made(tmp_path, job, hits, name="anything")
    for file in folder.rglob("*.safetensors"):
        file.unlink()
    table = sheet(tmp_path, methods=("simclr",), styles=("bss",), targets=("sketch",))
    found = cell(table, "SimCLR w/ BSS", "sketch")
    assert (found.mean, found.n, found.provenance["predictions"]) == (31, 3, "not kept")
    assert any("copies without the predictions" in line for line in table.remarks)


def test_the_ablation_shares_runs_with_the_table(tmp_path):
    table, ablation = jobs_of("camelyon17", methods=("simclr",)), jobs_of("ablation")
    assert {job.key for job in table} < {job.key for job in ablation}
    assert [job.recipe.colour_scope for job in ablation] == [None, "batch", None, None]
    sweep = {job.batch_size: job for job in jobs_of("batch-size", styles=("bss",))}
    assert sweep[256].key == {job.line.style: job.key for job in table}["bss"]
    assert [sweep[n].recipe.lr for n in sweep] == [0.2 * n / 256 for n in sweep]
    assert {job.recipe.steps for job in sweep.values()} == {150_000}


def test_what_changes_no_weight_makes_no_other_job():
    (job,) = jobs_of(methods=("simclr",), styles=("bss",), targets=("sketch",))
    quiet = replace(job, recipe=replace(job.recipe, log_every=7, snapshot_every=3))
    other = replace(job, recipe=replace(job.recipe, lr=0.3))
    assert quiet.key == job.key != other.key


def test_a_recipe_that_was_saved_before_a_field_was_thought_of_is_the_same_job():
    (job,) = jobs_of(methods=("simclr",), styles=("bss",), targets=("sketch",))
    older = plain(job.recipe)
    assert not {"blur", "sigma"} & older["colour"].keys()  # as before there was a blur
    del older["symmetric"]
    assert fingerprint(older, job.sources, job.targets) == job.key
    assert not differences(older, job.recipe)
    older["colour"]["blur"] = 0.5
    assert fingerprint(older, job.sources, job.targets) != job.key
    assert "colour" in " ".join(differences(older, job.recipe))


def test_kept_runs_give_the_same_table_without_weights_or_predictions(tmp_path):
    """And do not say where the images lie on this machine."""
    runs, out = tmp_path / "runs", tmp_path / "kept"
    (job,) = jobs_of(methods=("simclr",), styles=("bss",), targets=("sketch",))
    (erm,) = jobs_of(methods=("erm",), targets=("sketch",))
    (made(runs, job, hits) / "store.txt").write_text("/home/me/stores/pacs")
    made(runs, erm, hits)
    there = collect(runs, [job, erm])
    assert keep(there.found.values(), out) == 2
    again = collect(out, [job, erm])
    assert not again.problems and again.found.keys() == there.found.keys()
    for one in (job, erm):
        stage = "probe" if one.pretrained else "finetune"
        before, after = (harvest.of(one).evaluated[stage] for harvest in (there, again))
        assert (before.result, before.checked, after.checked) == (after.result, True, False)
    names = {file.name for file in out.rglob("*") if file.is_file()}
    assert names <= {"recipe.yaml", "result.json", "metrics.jsonl", "target_openings.jsonl"}
    with pytest.raises(ValueError, match="lies where it would be kept"):
        keep(there.found.values(), runs)


def test_every_recipe_of_every_table_is_a_row():
    for name, layout in TABLES.items():
        if not layout.lines:
            methods = {job.line.name for job in plan(layout, Ask())} - {"erm"}
            assert {f"{layout.recipes}/{method}" for method in methods} == {
                recipe for recipe in RECIPES if recipe.startswith(f"{layout.recipes}/")
            }, name
