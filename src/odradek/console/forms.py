"""The fields of a form that a browser has sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

if TYPE_CHECKING:
    from starlette.requests import Request

MOST_BYTES = 2 * 1024 * 1024
MOST_FIELDS = 1000


class FormError(ValueError):
    """A form that cannot be taken; the text is for whoever has sent it.

    Args:
        text: what is wrong.
        status: of HTTP.
    """

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


@contextmanager
def refusing() -> Iterator[None]:
    """Values within that cannot be understood make a form that cannot be taken.

    Raises:
        FormError: for a ValueError, with its text.
    """
    try:
        yield
    except FormError:
        raise
    except ValueError as error:
        raise FormError(str(error)) from error


class Form(dict[str, str]):
    """Fields by name; of several with one name, the last."""

    def text(self, name: str) -> str:
        """Return a field without blanks around it; '' where it is absent."""
        return self.get(name, "").strip()

    def number(self, name: str, label: str, *, least: int, most: int = 2**31 - 1) -> int:
        """Return a field that has to be an integer.

        Args:
            name: of the field.
            label: what the page calls it.
            least, most: the bounds, both included.

        Raises:
            FormError: it is none, or out of bounds.
        """
        text = self.text(name)
        try:
            value = int(text)
        except ValueError:
            raise FormError(f"{label}: {text!r} is not a whole number.") from None
        if not least <= value <= most:
            raise FormError(f"{label}: {value} is not between {least} and {most}.")
        return value

    def optional_number(self, name: str, label: str, *, least: int, most: int = 2**31 - 1) -> int | None:
        """Return a field that is an integer or empty, for which None stands; see `number`.

        Raises:
            FormError: it is neither.
        """
        return self.number(name, label, least=least, most=most) if self.text(name) else None


def name_values(text: str, label: str) -> list[tuple[str, str]]:
    """Return the names and values of a text with a `name=value` on each line; blank lines are none.

    Args:
        text: of a field; blanks belong to values, and not to names.
        label: what the page calls the field.

    Raises:
        FormError: a line is not so.
    """
    pairs = []
    for line in text.splitlines():
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise FormError(f"{label}: {line.strip()!r} is not name=value.")
        pairs.append((name.strip(), value))
    return pairs


def parse_form(body: bytes) -> Form:
    """Return the fields of a body of the type application/x-www-form-urlencoded.

    Raises:
        FormError: it is no such body.
    """
    try:
        fields = parse_qsl(
            body.decode("utf-8"),
            keep_blank_values=True,
            strict_parsing=bool(body),
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError as error:
        raise FormError(f"The form cannot be read: {error}") from error
    return Form(fields)


async def read_form(request: Request) -> Form:
    """Read the form of a request.

    Raises:
        FormError: it is of another type, too large, or not to be read.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/x-www-form-urlencoded":
        raise FormError(f"The console takes forms, not {content_type or 'requests without a type'}.", 415)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise FormError(f"The form is longer than {MOST_BYTES} bytes.", 413)
    return parse_form(bytes(body))
