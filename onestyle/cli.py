"""The command line. A command is a function that adds its arguments, a function that does the work
and a line in COMMANDS; whatever is heavy is imported by the second."""

import argparse
import difflib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from onestyle import __version__
from onestyle.data import commands as data
from onestyle.signals import Interrupted
from onestyle.stages import commands as stages


class Command(NamedTuple):
    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0, or 2 and one line on stderr where the user can put something right.

    1 where a training went wrong; 128 + a signal's number where it ended with its state saved.
    """
    argv = sys.argv[1:] if argv is None else list(argv)
    parser = _parser()
    if not argv:
        parser.print_help(sys.stderr)
        return 2
    if not argv[0].startswith("-") and argv[0] not in COMMANDS:
        near = difflib.get_close_matches(argv[0], COMMANDS, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]!r}? " if near else ""
        parser.error(f"there is no command {argv[0]!r}; {hint}commands are {', '.join(COMMANDS)}")
    args = parser.parse_args(argv)
    try:
        COMMANDS[args.command].run(args)
    except (ValueError, OSError) as error:
        return _fail(error)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("onestyle"):
            raise
        return _fail(f"{error.name} is missing; pip install 'onestyle[train]' brings it")
    except FloatingPointError as error:
        return _fail(error, 1)
    except Interrupted as interrupted:
        return _fail(interrupted, 128 + interrupted.number)
    except KeyboardInterrupt:
        return 130
    return 0


# preview ----------------------------------------------------------------------------------------


def _preview_arguments(parser: argparse.ArgumentParser) -> None:
    add, digits = parser.add_argument, "default: the embedded digits"
    add("sources", nargs="*", type=Path, metavar="FOLDER_OR_IMAGE", help=digits)
    picture = "the picture, .png .jpg .webp or .pdf (%(default)s)"
    add("--out", type=Path, default="preview.png", help=picture)
    add("--images", type=_whole(2, 12), default=5, metavar="N", help="how many (%(default)s)")
    add("--views", type=_whole(1, 10), default=5, metavar="V", help="of each image (%(default)s)")
    add("--ratio", type=_ratios, default="0.02,1", metavar="R", help="R or MIN,MAX (%(default)s)")
    add("--seed", type=_whole(0, 2**63 - 1), default=0, metavar="S", help="(%(default)s)")
    add("--size", type=_whole(16, 512), default=128, metavar="S", help="in pixels (%(default)s)")
    parts = ("grids", "reach", "way")
    add("--part", choices=parts, action="append", help="only this part; may be repeated")
    add("--small", action="store_true", help="a PNG of 256 colours")
    add("--force", action="store_true", help="overwrite the picture")


def _preview(args: argparse.Namespace) -> None:
    from onestyle.preview import preview

    what = preview(
        args.sources,
        args.out,
        n_images=args.images,
        n_views=args.views,
        ratios=args.ratio,
        seed=args.seed,
        size=args.size,
        parts=args.part,
        force=args.force,
        small=args.small,
    )
    _say(f"{args.out} shows {what}")


COMMANDS = {
    "data": Command("pack, check, show and split images", data.add_arguments, data.run),
    "preview": Command("show what FA and BSS make of your images", _preview_arguments, _preview),
    "pretrain": Command(
        "train a backbone without labels", stages.pretrain_arguments, stages.pretrain
    ),
}


# ------------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options):
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str):
        self.exit(_fail(f"{message} (see {self.prog} --help)"))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="onestyle",
        description="One style for a whole batch: unsupervised domain generalization.",
    )
    parser.add_argument("--version", action="version", version=f"onestyle {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, command in COMMANDS.items():
        command.add_arguments(
            commands.add_parser(name, help=command.summary, description=command.summary)
        )
    return parser


def _say(text: str) -> None:
    """Print, whatever bytes a file name has and whatever the terminal can show."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding))


def _fail(error: object, code: int = 2) -> int:
    if isinstance(error, OSError) and error.filename is not None:
        error = f"{error.filename}: {error.strerror}"
    print("onestyle: error:", " ".join(str(error).splitlines()), file=sys.stderr)
    return code


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not (text.isdecimal() and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return parse


def _ratios(text: str) -> tuple[float, float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) not in (1, 2) or not 0 <= values[0] <= values[-1] <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is neither R nor MIN,MAX within 0..1")
    return values[0], values[-1]
