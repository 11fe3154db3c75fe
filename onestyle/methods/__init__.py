"""The table of methods: a name, and where it is. A method is one file, one test, one line here."""

from __future__ import annotations

from importlib import import_module

from onestyle.methods.base import Batch, Method
from onestyle.names import instead

__all__ = ["METHODS", "Batch", "Method", "method_named"]

METHODS = {
    "simclr": "onestyle.methods.simclr:SimCLR",
    "swav": "onestyle.methods.swav:SWaV",
    "msn": "onestyle.methods.msn:MSN",
    "simclrv2": "onestyle.methods.simclrv2:SimCLRV2",
    "byol": "onestyle.methods.byol:BYOL",
    "mocov2": "onestyle.methods.mocov2:MoCoV2",
    "adco": "onestyle.methods.adco:AdCo",
    "mae": "onestyle.methods.mae:MAE",
    "darling": "onestyle.methods.darling:DARLING",
    "brad": "onestyle.methods.brad:BrAD",
    "dimae": "onestyle.methods.dimae:DiMAE",
    "cyclemae": "onestyle.methods.cyclemae:CycleMAE",
    "erm": "onestyle.methods.erm:ERM",
    "fixmatch": "onestyle.methods.fixmatch:FixMatch",
}


def method_named(name: str) -> type[Method]:
    """The class behind a name of the table, or behind "package.module:Class"."""
    if name not in METHODS and ":" not in name:
        raise ValueError(f"unknown method {name!r}{instead(name, METHODS, 'methods')}")
    module, _, attribute = METHODS.get(name, name).partition(":")
    return getattr(import_module(module), attribute)
