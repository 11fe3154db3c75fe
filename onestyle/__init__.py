"""onestyle: one style for a whole batch, for unsupervised domain generalization.

The transforms need torch and nothing else. They are imported when first asked for, so that neither
`import onestyle` nor the command line's `--help` waits for torch.
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["BatchStylesStandardization", "FourierAugmentation", "transfer_style"]

if TYPE_CHECKING:
    from onestyle.fourier import BatchStylesStandardization, FourierAugmentation, transfer_style
else:

    def __getattr__(name):
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from onestyle import fourier

        return getattr(fourier, name)

    def __dir__():
        return sorted({*globals(), *__all__})
