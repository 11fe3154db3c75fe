"""The command line. A command is a line in COMMANDS and a module with `add_arguments(parser)` and
`run(args)`; it is imported when it is called, and whatever is heavy by its `run`."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from onestyle import __version__
from onestyle.names import instead
from onestyle.signals import Interrupted

COMMANDS = {
    "data": ("pack, check, show and split images", "onestyle.data.commands"),
    "preview": ("show what FA and BSS make of your images", "onestyle.commands.preview"),
    "pretrain": ("train a backbone without labels", "onestyle.commands.pretrain"),
    "table": ("plan, run and show the paper's tables", "onestyle.commands.table"),
    "probe": ("how well few labels do on frozen features", "onestyle.commands.probe"),
    "finetune": ("train the whole network on few labels", "onestyle.commands.finetune"),
    "leave-one-out": ("each of your domains unseen in turn", "onestyle.commands.leave_one_out"),
    "predict": ("classes of new images by a probed run", "onestyle.commands.predict"),
    "embed": ("features of a store's images, with their names", "onestyle.commands.embed"),
    "analyze": ("show what runs know of domains and classes", "onestyle.commands.analyze"),
    "export": ("a run's backbone for timm, torchvision, ONNX, a hub", "onestyle.commands.export"),
    "demo": ("from nothing to a report, on embedded digits, in minutes", "onestyle.commands.demo"),
    "report": ("one page about runs: accuracy, views, curves, maps", "onestyle.commands.report"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 0, or 2 and one line on stderr where the user can put something right.

    1 where a training went wrong, or what the command's `run` returns; 128 + a signal's number
    where it ended with its state saved.
    """
    argv = sys.argv[1:] if argv is None else list(argv)
    parser = _parser(argv[0] if argv else "")
    if not argv:
        parser.print_help(sys.stderr)
        return 2
    if not argv[0].startswith("-") and argv[0] not in COMMANDS:
        parser.error(f"there is no command {argv[0]!r}{instead(argv[0], COMMANDS, 'commands')}")
    args = parser.parse_args(argv)
    try:
        return import_module(COMMANDS[args.command][1]).run(args) or 0
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


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options):
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str):
        self.exit(_fail(f"{message} (see {self.prog} --help)"))


def _parser(called: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="onestyle",
        description="One style for a whole batch: unsupervised domain generalization.",
    )
    parser.add_argument("--version", action="version", version=f"onestyle {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (summary, module) in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary)
        if name == called:
            import_module(module).add_arguments(command)
    return parser


def _fail(error: object, code: int = 2) -> int:
    if isinstance(error, OSError) and error.filename is not None:
        error = f"{error.filename}: {error.strerror}"
    print("onestyle: error:", " ".join(str(error).splitlines()), file=sys.stderr)
    return code
