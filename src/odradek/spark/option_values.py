"""Options by name, whatever their case, as numbers, booleans, durations and choices. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_MOST = 2**63 - 1
"""The largest number of Spark's own options."""


def text_of(value: Any) -> str:
    """A value as the text that Spark makes of an option's or a setting's."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class Given:
    """The options that were given.

    Raises:
        ValueError: by the methods that read a value, where it cannot be; names its option.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str) -> str | None:
        """The value without surrounding blanks, or None if the option is absent."""
        value = self._values.get(name.lower())
        return None if value is None else value.strip()

    def integer(self, name: str, least: int) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            number = int(text)
        except ValueError:
            raise ValueError(f"{name} must be a whole number, got {text!r}") from None
        if number > _MOST:
            raise ValueError(f"{name} must be at most {_MOST}")
        if number < least:
            raise ValueError(f"{name} must be positive" if least == 1 else f"{name} must be at least {least}")
        return number

    def boolean(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise ValueError(f"{name} must be true or false, got {text!r}")
        return text.lower() == "true"

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """One of `choices` (lower case); the first is the default."""
        text = self.text(name)
        if text is None:
            return choices[0]
        if text.lower() not in choices:
            raise ValueError(f"{name} must be one of {', '.join(choices)}, got {text!r}")
        return text.lower()

    def duration_ms(self, name: str, default: int) -> int:
        text = self.text(name)
        if text is None:
            return default
        try:
            return duration_ms(text)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def kafka(self) -> dict[str, str]:
        """Return the options behind `kafka.`, under Kafka's own names."""
        prefix = "kafka."
        return {name[len(prefix) :]: value for name, value in self._values.items() if name.startswith(prefix)}

    def refuse_unknown(self, known_options: Iterable[str], ignored: Iterable[str]) -> None:
        """Check that every option is known, or `kafka.*`.

        Raises:
            ValueError: one is neither; names the nearest one.
        """
        names = {name.lower(): name for name in known_options}
        allowed = set(names) | {name.lower() for name in ignored}
        for name in sorted(self._values):
            if name in allowed or name.startswith(("kafka.", "__")):
                continue
            from difflib import get_close_matches

            near = get_close_matches(name, names, n=1, cutoff=0.6)
            # Those of TLS are many, and Kafka's own names.
            common = ", ".join(known_name for known_name in names.values() if ".ssl." not in known_name)
            hint = f"did you mean '{names[near[0]]}'?" if near else f"Known are {common}."
            raise ValueError(
                f"Unknown option '{name}'. {hint} A config of the Kafka client is written 'kafka.<its name>'."
            )


_MS_PER_UNIT = {
    "us": 0.001,
    "ms": 1,
    "": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


def duration_ms(text: str) -> int:
    """Milliseconds in a duration as Spark writes it (`15m`, `200ms`, `1h`); a bare number is milliseconds.

    Raises:
        ValueError: it is no duration.
    """
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if not match or match[2] not in _MS_PER_UNIT:
        raise ValueError(
            f"Time must be specified as a number of microseconds (us), milliseconds (ms), seconds (s), "
            f"minutes (m or min), hours (h), or days (d), e.g. 50s, 100ms, 15m; got {text!r}"
        )
    return int(int(match[1]) * _MS_PER_UNIT[match[2]])
