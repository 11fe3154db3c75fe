"""A recipe: everything that makes a pretraining what it is, apart from whose images it sees."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar

import yaml
from jsonargparse import ArgumentError, ArgumentParser
from torch import nn

from onestyle.colour import Colour
from onestyle.geometry import Geometry
from onestyle.methods import Method, method_named
from onestyle.names import instead
from onestyle.optim import LATER, Training
from onestyle.views import ViewPlan

__all__ = ["SEEN", "Recipe", "changed", "override", "plain", "recipe_of"]

SEEN = "†"  # beside the name of what uses target images
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Recipe(Training):
    """`views` reads like "2x224 0.14..1 + 6x128 0.05..0.14"; `style` says what each group gets
    (the method's own table, such as BSS for the Sinkhorn views and FA for the others)."""

    data: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)  # of the method
    backbone: str = "resnet18"
    backbone_options: dict[str, Any] = field(default_factory=dict)
    init: str = "random"  # random, timm (its pretrained weights) or a file
    views: str = "2x224 + 6x128"
    style: Literal["bss", "fa", "none"] = "bss"
    colour_scope: Literal["batch", "image"] | None = None  # null: batch where the style is bss
    ratios: tuple[float, float] = (0.02, 1.0)
    ratio_scope: Literal["call", "view"] = "call"
    ratio_kind: Literal["side", "area"] = "side"
    symmetric: bool = False
    geometry: Geometry = field(default_factory=Geometry)
    colour: Colour = field(default_factory=Colour)
    balance: bool = False  # equally many images of every domain in a batch
    labelled_batch_size: int = field(default=64, metadata=LATER)  # of methods with both streams
    uses_target: bool = field(default=False, metadata=LATER)  # learns from unlabelled target images

    def __post_init__(self):
        super().__post_init__()
        self._require(self.labelled_batch_size >= 1, "labelled_batch_size", "at least 1")
        self.plan()  # refuses wrong views and ratios now
        check_options(self.method, self.options)

    def plan(self) -> ViewPlan:
        """The views, each group with its style and colour scope."""
        styles = method_named(self.method).styles(self.style, self.views.count("+") + 1)
        names = ("ratios", "ratio_scope", "ratio_kind", "symmetric", "geometry", "colour")
        plan = ViewPlan.parse(
            self.views, style=styles, **{name: getattr(self, name) for name in names}
        )
        if self.colour_scope is None:
            return plan
        groups = (replace(group, colour_scope=self.colour_scope) for group in plan.groups)
        return replace(plan, groups=tuple(groups))

    @property
    def view_size(self) -> int:
        return max(group.size for group in self.plan().groups)

    def make_method(self, backbone: nn.Module, **counts: int) -> Method:
        """The method; `counts` (n_domains, n_classes) reach those that take them."""
        taken = inspect.signature(method_named(self.method)).parameters
        counts = {name: n for name, n in counts.items() if name in taken}
        return method_named(self.method)(backbone, **self.options, **counts)


def plain(value: Any) -> Any:
    """A dataclass as dictionaries, lists and numbers: what YAML and JSON can hold. Without the
    fields that came LATER where they have their default."""
    if isinstance(value, dict):
        return {key: plain(inside) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inside) for inside in value]
    if not is_dataclass(value):
        return value
    tree = {field.name: getattr(value, field.name) for field in fields(value)}
    late = {field.name: field.default for field in fields(value) if "later" in field.metadata}
    return {key: plain(of) for key, of in tree.items() if key not in late or of != late[key]}


def override(recipe: Recipe, settings: Iterable[str]) -> Recipe:
    """The recipe with "field=value" settings: lr=0.3, options.temperature=0.2, clip=null.

    Another method begins with its own options.
    """
    tree, pairs = plain(recipe), [_pair(setting) for setting in settings]
    for name, value in pairs:
        if name == "method" and value != tree["method"]:
            tree |= {"method": value, "options": {}}
    for name, value in pairs:
        *path, last = _known(name, tree["method"]).split(".")
        inside = tree
        for part in path:
            inside = inside[part]
        inside[last] = value
    for name, value in tree["backbone_options"].items():
        tree["backbone_options"][name] = yaml.safe_load(value) if isinstance(value, str) else value
    return recipe_of(tree)


def changed(settings_of: T, settings: Iterable[str]) -> T:
    """A flat dataclass with "field=value" settings, each made what its field is, or refused."""
    values = asdict(settings_of)  # pyright: ignore
    for name, value in map(_pair, settings):
        if name not in values:
            raise ValueError(_unknown(name, list(values)))
        values[name] = value
    return _typed(type(settings_of), values)


def _pair(setting: str) -> tuple[str, str]:
    name, equals, value = setting.partition("=")
    if not equals:
        raise ValueError(f"--set takes FIELD=VALUE, got {setting!r}")
    return name.strip(), value.strip()


def recipe_of(tree: dict[str, Any]) -> Recipe:
    """The recipe that `plain` made a tree of; every value as its type says, or refused."""
    given, skip = tree["options"], {"backbone", *_COUNTS}
    method, how = method_named(tree["method"]), {"skip": skip, "instantiate": False}
    options = _typed(method, given, "options.", **how) if given else {}
    return _typed(Recipe, {**tree, "options": {name: options[name] for name in given}})


def _typed(owner: type, values: dict[str, Any], prefix: str = "", **how) -> Any:
    """The values, each made what the signature of `owner` says, or refused; as an `owner`."""
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(owner, "it", **how)
    try:
        return parser.instantiate(parser.parse_object({"it": values})).it
    except ArgumentError as error:
        key, _, reason = str(error).removeprefix('Parser key "it.').partition('":')
        reason = re.sub(r"<class '(\w+)'>", r"\1", " ".join(reason.split()))
        raise ValueError(f"{prefix}{key}: {reason}") from error


_COUNTS = {"n_domains", "n_classes"}  # the data say how many


def check_options(method: str, options: dict[str, Any]) -> None:
    legal = _options_of(method)
    for name in options:
        if f"options.{name}" not in legal:
            raise ValueError(_unknown(f"options.{name}", legal))


def _options_of(method: str) -> list[str]:
    taken = inspect.signature(method_named(method)).parameters
    return [f"options.{name}" for name in taken if name not in ("backbone", *_COUNTS)]


def _known(name: str, method: str) -> str:
    legal = [each.name for each in fields(Recipe)]
    legal += [f"geometry.{each.name}" for each in fields(Geometry)]
    legal += [f"colour.{each.name}" for each in fields(Colour)]
    legal += _options_of(method)
    if name not in legal and not name.startswith("backbone_options."):
        raise ValueError(_unknown(name, legal))
    return name


def _unknown(name: str, legal: list[str]) -> str:
    meant = next((each for each in legal if each.rpartition(".")[2] == name), name)
    return f"there is no field {name!r}{instead(meant, legal, 'fields')}"
