"""`Knob`: one setting to be swept, with the values to try and the one in force today."""

from __future__ import annotations

from dataclasses import dataclass

from nettune.errors import InputError


@dataclass(frozen=True)
class Knob:
    """A setting of the job.

    Attributes:
        name: with its unit, `bucket_cap_mib`.
        values: values to try, each once, the default among them.
        default: the value in force; it is kept unless another is shown to be better.

    Raises:
        InputError: no values, a value twice, or a default that is not among them.
    """

    name: str
    values: tuple[float, ...]
    default: float

    def __post_init__(self) -> None:
        if len(set(self.values)) != len(self.values) or self.default not in self.values:
            raise InputError(
                f"knob {self.name}: each value once, and the default {self.default:g} among them, is needed"
            )

    @classmethod
    def parse(cls, text: str, default: float | None = None) -> Knob:
        """Read `bucket_cap_mib=0.5,1,4`; the first value is the default when none is given, and is added if missing.

        Raises:
            InputError: not of this form.
        """
        name, equals, listed = text.partition("=")
        try:
            values = tuple(dict.fromkeys(float(part) for part in listed.split(",")))
        except ValueError:
            values = ()
        if not equals or not name.strip() or not values:
            raise InputError(f"{text!r} is no knob; write it like bucket_cap_mib=0.5,1,4")
        start = values[0] if default is None else default
        return cls(name.strip(), values if start in values else (start, *values), start)
