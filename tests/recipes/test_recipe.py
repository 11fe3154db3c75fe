"""Recipes: the paper's numbers, typed overrides, and back from YAML."""

import inspect

import pytest
import yaml

from onestyle.cli import main
from onestyle.methods import method_named
from onestyle.recipes import RECIPES, override, plain, recipe_named, recipe_of
from tests.methods.cases import PLAIN

# fmt: off
# Tables 5 to 7 of the paper (appendix C): what each recipe must say.
PAPER = {
    "pacs/simclr": ("resnet18", "random", "2x224 + 6x128", (0.02, 1.0), 256, 60_000, 0.2, 1e-6),
    "pacs/swav": ("resnet18", "random", "2x224 + 6x128", (0.02, 1.0), 256, 60_000, 0.2, 1e-6),
    "domainnet/simclr": ("resnet18", "timm", "2x224 + 6x128", (0.02, 1.0), 512, 60_000, 0.4, 1e-6),
    "domainnet/swav": ("resnet18", "timm", "2x224 + 6x128", (0.02, 1.0), 512, 60_000, 0.4, 1e-6),
    "camelyon17/simclr": ("resnet50", "random", "8x128", (0.02, 0.1), 256, 150_000, 0.2, 1e-6),
    "camelyon17/swav": (
        "resnet50", "random", "2x128 + 6x128", (0.02, 0.1), 256, 150_000, 0.2, 1e-6,
    ),
    "camelyon17/msn": (
        "vit_small_patch8_224", "random", "2x96 + 10x64", (0.02, 0.1), 256, 150_000, 0.2, 1e-6,
    ),
}
# fmt: on


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_settings(name):
    recipe = recipe_named(name)
    views = " + ".join(f"{group.n}x{group.size}" for group in recipe.plan().groups)
    assert PAPER[name] == (
        recipe.backbone, recipe.init, views, recipe.ratios, recipe.batch_size, recipe.steps,
        recipe.lr, recipe.weight_decay,
    )  # fmt: skip
    assert recipe.optimizer == "lars" and recipe.style == "bss"


def test_the_papers_options_are_the_methods_defaults():
    def defaults(name):
        taken = inspect.signature(method_named(name)).parameters
        return {key: p.default for key, p in taken.items() if p.default is not p.empty}

    assert defaults("simclr") == {"dim": 128, "temperature": 0.5}
    assert {"dim": 128, "prototypes": 256, "temperature": 0.1}.items() <= defaults("swav").items()
    msn = {
        "dim": 384, "prototypes": 128, "temperature": 0.1, "target_temperature": 0.025,
        "drop": 0.3, "momentum": 0.995,
    }  # fmt: skip
    assert msn.items() <= defaults("msn").items()
    for name in ("pacs", "domainnet", "camelyon17"):
        assert all(not RECIPES[f"{name}/{m}"].options for m in ("simclr", "swav"))


@pytest.mark.parametrize("name", RECIPES)
def test_there_and_back_through_yaml(name):
    recipe = recipe_named(name)
    assert recipe_of(yaml.safe_load(yaml.safe_dump(plain(recipe)))) == recipe


def test_a_recipe_from_before_a_field_came_is_read_and_keeps_its_words():
    recipe = recipe_named("digits/simclr")
    tree = plain(recipe)
    late = {"uses_target", "labelled_batch_size", "schedule"}
    assert not late & tree.keys()  # as it was written then, so that its hash is the same
    assert not recipe_of(tree).uses_target
    other = override(recipe, ["uses_target=true", "schedule=power"])
    assert other.uses_target and other.schedule == "power"
    assert late & plain(other).keys() == {"uses_target", "schedule"}
    assert recipe_of(plain(other)) == other


@pytest.mark.parametrize("style", ["bss", "fa", "none"])
@pytest.mark.parametrize("name", RECIPES)
def test_every_style_makes_a_plan(name, style):
    if name.partition("/")[2] in PLAIN and style != "none":
        with pytest.raises(ValueError, match="take style none"):
            override(recipe_named(name), [f"style={style}"])
        return
    plan = override(recipe_named(name), [f"style={style}"]).plan()
    first = next(group for group in plan.groups if group.style != "weak")
    assert first.style == style
    assert first.scope == ("batch" if style == "bss" else "image")


def test_settings_become_what_the_types_say():
    settings = [
        "lr=3e-1", "clip=null", "ratios=[0.1, 0.5]", "options.temperature=0.2",
        "geometry.rotation=0", "colour.jitter=0.5", "colour_scope=image",
        "backbone_options.drop_path_rate=0.1",
    ]  # fmt: skip
    recipe = override(recipe_named("pacs/simclr"), settings)
    assert recipe.lr == 0.3 and recipe.clip is None and recipe.ratios == (0.1, 0.5)
    assert recipe.options == {"temperature": 0.2} and recipe.geometry.rotation == 0
    assert recipe.colour.jitter == 0.5 and recipe.backbone_options == {"drop_path_rate": 0.1}
    assert {group.scope for group in recipe.plan().groups} == {"image"}


@pytest.mark.parametrize(
    "setting, answer",
    [
        ("lrr=0.1", "there is no field 'lrr'; did you mean lr?"),
        ("temperature=0.1", "did you mean options.temperature?"),
        ("options.temprature=0.1", "did you mean options.temperature?"),
        ("rotation=0", "did you mean geometry.rotation?"),
        ("steps=many", "steps"),
        ("steps=1.5", "steps"),
        ("optimizer=adam2", "optimizer"),
        ("options.dim=wide", "options.dim"),
        ("ratios=[0.5, 0.1]", "ratios must be"),
        ("views=2y64", "a view plan reads like"),
        ("style=bsss", "style"),
        ("lr", "--set takes FIELD=VALUE"),
    ],
)
def test_what_is_wrong_is_named(setting, answer, capsys):
    assert main(["pretrain", "pacs/simclr", "--print-recipe", "--set", setting]) == 2
    assert answer in capsys.readouterr().err


def test_another_method_begins_with_its_own_options():
    settings = ["options.momentum=0.9", "method=mocov2"]
    recipe = override(recipe_named("digits/simclr"), settings)
    assert recipe.method == "mocov2" and recipe.options == {"momentum": 0.9}
    same = override(recipe_named("digits/simclr"), ["method=simclr"])
    assert same == recipe_named("digits/simclr")


def test_names_of_recipes(capsys):
    with pytest.raises(ValueError, match=r"did you mean pacs/simclr\?"):
        recipe_named("pacs/simcrl")
    assert main(["pretrain", "list"]) == 0
    assert capsys.readouterr().out.split() == list(RECIPES)
    assert main(["pretrain", "digits/swav", "--print-recipe", "--set", "seed=3"]) == 0
    assert recipe_of(yaml.safe_load(capsys.readouterr().out)) == override(
        recipe_named("digits/swav"), ["seed=3"]
    )
