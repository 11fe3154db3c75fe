"""The table of methods: a name, and where it is. A method is one file, one test, one line here."""

from __future__ import annotations

import difflib
from importlib import import_module

from onestyle.methods.base import Batch, Method

__all__ = ["METHODS", "Batch", "Method", "method_named"]

METHODS = {
    "simclr": "onestyle.methods.simclr:SimCLR",
    "swav": "onestyle.methods.swav:SWaV",
    "msn": "onestyle.methods.msn:MSN",
    "mocov2": "onestyle.methods.mocov2:MoCoV2",
    "mae": "onestyle.methods.mae:MAE",
    "dimae": "onestyle.methods.dimae:DiMAE",
    "cyclemae": "onestyle.methods.cyclemae:CycleMAE",
    "erm": "onestyle.methods.erm:ERM",
}


def method_named(name: str) -> type[Method]:
    """The class behind a name of the table, or behind "package.module:Class"."""
    if name not in METHODS and ":" not in name:
        near = difflib.get_close_matches(name, METHODS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"unknown method {name!r}; {hint}methods are {', '.join(METHODS)}")
    module, _, attribute = METHODS.get(name, name).partition(":")
    return getattr(import_module(module), attribute)
