"""Runs that are made in a second or two."""

from onestyle.cli import main

SMALL = {"views": "2x16", "batch_size": 16, "steps": 2, "precision": "32-true"}


def pretrained(path, *words, recipe="digits/simclr", **settings):
    pairs = (SMALL | settings).items()
    settings = [word for key, value in pairs for word in ("--set", f"{key}={value}")]
    assert main(["pretrain", recipe, "--out", str(path), *settings, *words]) == 0
    return path
