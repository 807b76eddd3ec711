"""The text of the option `where`, read into conditions. Pure.

It is a part of Spark SQL, so that the same text is a right argument of `DataFrame.where`:

    where       = condition { AND condition }
    condition   = column comparison value | value comparison column
                | column [NOT] IN "(" value { "," value } ")" | column BETWEEN value AND value
                | "(" where ")"
    column      = topic | partition | offset | timestamp
    comparison  = "=" | "==" | "<>" | "!=" | "<" | "<=" | ">" | ">="       (topic: the first four)
    value       = 'text' for topic, whole number for partition and offset, time for timestamp
    time        = moment { ("+" | "-") INTERVAL number unit { number unit } }
    moment      = now() | current_timestamp() | current_timestamp | [TIMESTAMP] 'text with a zone'
                | timestamp_seconds(number) | timestamp_millis(number) | timestamp_micros(number)
    unit        = microsecond | millisecond | second | minute | hour | day | week, or with an s

Words may be written in any case. There is no OR and no NOT before a condition: conditions that are joined by
AND each narrow the read by themselves, whatever the others say.
"""

import datetime
import re
from typing import Any, NamedTuple

from odradek.spark.where.conditions import COLUMNS, Condition, Where

# A text ends at the next quote of its kind: what Spark makes of backslashes in it depends on its configs.
_TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z_][A-Za-z_0-9]*|`[^`]*`)|(?P<number>\d+(?:\.\d+)?)"
    r"|(?P<text>'[^']*'|\"[^\"]*\")|(?P<sign><=|>=|<>|!=|==|[=<>(),+\-]))"
)
_LARGEST = (1 << 63) - 1
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SPELLED = {"==": "=", "<>": "!="}
_UNITS_US = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 7 * 86_400_000_000,
}
_EPOCH_FUNCTIONS = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1_000, "timestamp_micros": 1}
_NOW = ("now", "current_timestamp")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class _Token(NamedTuple):
    """A word, a number, a quoted text, a sign, or the end; `position` counts from 0."""

    kind: str
    text: str
    position: int


def parse_where(text: str, now_us: int | None) -> Where:
    """Read the conditions of the option `where`.

    Args:
        text: see above.
        now_us: the time that `now()` is (µs since the epoch); None: it has no meaning here.

    Raises:
        ValueError: they cannot be read; names the position, what is wrong there, and what to write.
    """
    parser = _Parser(text, now_us)
    conditions = parser.conjunction()
    parser.end()
    return Where(text, tuple(conditions))


class _Parser:
    """Recursive descent over the tokens; one method for each rule."""

    def __init__(self, text: str, now_us: int | None) -> None:
        self._text = text
        self._now_us = now_us
        self._tokens = self._tokenized()
        self._next = 0
        """The token that is looked at; never behind the last, which is the end."""

    def conjunction(self) -> list[Condition]:
        conditions = self._condition()
        while self._takes_word("and"):
            conditions += self._condition()
        return conditions

    def end(self) -> None:
        token = self._peek()
        if token.kind == "end":
            return
        # Each condition narrows the read by itself, whatever the others say; joined by OR it could not.
        if token.text.lower() == "or":
            raise self._wrong(
                token,
                "conditions can only be joined by AND. Write one column IN (...) instead, or two frames and "
                "union(), or put this into frame.where(...), which Spark evaluates",
            )
        raise self._wrong(token, "expected AND and another condition, or the end")

    def _condition(self) -> list[Condition]:
        token = self._peek()
        if self._takes_sign("("):
            inner = self.conjunction()
            # For its error, which says what to write instead.
            if self._peek().text.lower() == "or":
                self.end()
            self._expect_sign(")")
            return inner
        if token.text.lower() == "not":
            raise self._wrong(token, "NOT goes with IN only. Write the opposite comparison")
        if self._is_column():
            return self._with_column_first()
        return [self._with_value_first()]

    def _with_column_first(self) -> list[Condition]:
        column = self._column()
        token = self._take()
        match token.text.lower():
            case "between":
                low = self._value(column)
                self._expect_word("and")
                high = self._value(column)
                if column == "topic":
                    raise self._wrong(token, "topics have no order. Write topic IN ('a', 'b')")
                return [Condition(column, ">=", (low,)), Condition(column, "<=", (high,))]
            case "in":
                return [Condition(column, "in", self._values(column))]
            case "not":
                self._expect_word("in")
                return [Condition(column, "not in", self._values(column))]
        return [Condition(column, self._comparison(token, column), (self._value(column),))]

    def _with_value_first(self) -> Condition:
        # Which kind of value it has to be is only known when the column has been seen.
        start, before = self._next, self._peek()
        while not self._is_comparison() and self._peek().text.lower() not in ("", "and", "or"):
            self._next += 1
        comparison = self._take()
        if comparison.kind != "sign":
            raise self._wrong(before, f"expected a column: {', '.join(COLUMNS)}")
        column = self._column()
        after, self._next = self._next, start
        value = self._value(column)
        if self._peek() != comparison:
            raise self._wrong(self._peek(), "expected a comparison: = != < <= > >=")
        self._next = after
        sign = self._comparison(comparison, column)
        # `5 < offset` is `offset > 5`.
        return Condition(column, _MIRRORED.get(sign, sign), (value,))

    def _is_column(self) -> bool:
        """Return whether a column is next: `timestamp` also begins `timestamp '2026-…'`."""
        token = self._peek()
        following = self._tokens[min(self._next + 1, len(self._tokens) - 1)]
        # Words that can only be values, and functions, which a bracket follows.
        if token.kind != "word" or token.text.lower() in ("current_timestamp", "null", "true", "false"):
            return False
        return following.kind != "text" and following.text != "("

    def _column(self) -> str:
        token = self._take()
        name = token.text.strip("`").lower()
        if name not in COLUMNS:
            raise self._wrong(
                token,
                f"there is no column to narrow a read by of that name: it can be {', '.join(COLUMNS)}. Other "
                "conditions go into frame.where(...), which Spark evaluates",
            )
        return name

    def _is_comparison(self) -> bool:
        token = self._peek()
        return token.kind == "sign" and token.text in ("=", "==", "<>", "!=", "<", "<=", ">", ">=")

    def _comparison(self, token: _Token, column: str) -> str:
        sign = _SPELLED.get(token.text, token.text)
        if token.kind != "sign" or sign not in ("=", "!=", "<", "<=", ">", ">="):
            raise self._wrong(token, "expected = != < <= > >= IN, NOT IN or BETWEEN")
        if column == "topic" and sign not in ("=", "!="):
            raise self._wrong(token, "topics have no order. Write topic IN ('a', 'b')")
        return sign

    def _values(self, column: str) -> tuple[Any, ...]:
        self._expect_sign("(")
        values = [self._value(column)]
        while self._takes_sign(","):
            values.append(self._value(column))
        self._expect_sign(")")
        return tuple(values)

    def _value(self, column: str) -> Any:
        if column == "timestamp":
            return self._time()
        if column == "topic":
            token = self._take()
            if token.kind != "text":
                raise self._wrong(token, "expected the name of a topic in quotes: 'clicks'")
            return self._unquoted(token)
        return self._number(signed=True)

    def _number(self, *, signed: bool = False) -> int:
        negative = signed and self._takes_sign("-")
        token = self._take()
        if token.kind != "number" or "." in token.text:
            raise self._wrong(token, "expected a whole number")
        number = int(token.text)
        if number > _LARGEST:
            raise self._wrong(token, f"the number is larger than {_LARGEST}")
        return -number if negative else number

    def _time(self) -> int:
        at = self._peek()
        time_us = self._moment()
        while (sign := self._peek()).text in ("+", "-"):
            self._next += 1
            interval = self._interval()
            time_us += interval if sign.text == "+" else -interval
        # One less than fits: conditions compare with the microsecond after it (`Condition.bounds`).
        if abs(time_us) > _LARGEST - 1:
            raise self._wrong(at, "the time is too far away to be written in microseconds")
        return time_us

    def _moment(self) -> int:
        token = self._take()
        word = token.text.lower()
        if token.kind == "word" and word in _NOW:
            # SQL's `current_timestamp` needs no brackets, `now` does.
            if self._takes_sign("("):
                self._expect_sign(")")
            elif word == "now":
                raise self._wrong(token, "write now()")
            if self._now_us is None:
                raise self._wrong(
                    token,
                    "a stream goes on, and now() would stand still at its start. Write a time, or put this "
                    "into frame.where(...), which Spark evaluates for each batch",
                )
            return self._now_us
        if token.kind == "word" and word in _EPOCH_FUNCTIONS:
            self._expect_sign("(")
            number = self._number(signed=True)
            self._expect_sign(")")
            return number * _EPOCH_FUNCTIONS[word]
        if token.kind == "word" and word == "timestamp" and self._peek().kind == "text":
            token = self._take()
        if token.kind == "text":
            return self._written_time(token)
        raise self._wrong(
            token,
            "expected a time: now(), timestamp '2026-03-01 12:00:00Z' or timestamp_millis(1772366400000), "
            "and perhaps - interval 1 hour",
        )

    def _written_time(self, token: _Token) -> int:
        text = self._unquoted(token).strip()
        try:
            moment = datetime.datetime.fromisoformat(text)
        except ValueError:
            raise self._wrong(token, "expected a time like '2026-03-01 12:00:00Z'") from None
        # The session's zone is known to the driver alone, so that a time without a zone would be guessed.
        if moment.tzinfo is None:
            raise self._wrong(
                token,
                "the time has no zone, and Spark's tasks do not know that of your session. Write "
                f"'{text if ':' in text else text + ' 00:00:00'}Z' for UTC, or +01:00 for Z",
            )
        return (moment - _EPOCH) // datetime.timedelta(microseconds=1)

    def _interval(self) -> int:
        self._expect_word("interval")
        if self._peek().kind == "text":
            return self._written_interval()
        total = self._number(signed=True) * self._unit()
        while self._peek().kind == "number":
            total += self._number() * self._unit()
        return total

    def _written_interval(self) -> int:
        """Return `interval '1' hour`, or `interval '1 hour 30 minutes'`."""
        token = self._take()
        words = self._unquoted(token).split()
        # A number alone has its unit behind the quotes.
        if len(words) == 1:
            words.append(self._take().text)
        if not words or len(words) % 2:
            raise self._wrong(token, "expected numbers and units: '1 hour 30 minutes'")
        total = 0
        for number, unit in zip(words[::2], words[1::2], strict=True):
            if not re.fullmatch(r"-?\d{1,18}", number):
                raise self._wrong(token, "expected whole numbers and units: '1 hour 30 minutes'")
            total += int(number) * self._unit_named(unit, token)
        return total

    def _unit(self) -> int:
        token = self._take()
        return self._unit_named(token.text, token)

    def _unit_named(self, name: str, token: _Token) -> int:
        unit = name.lower().removesuffix("s")
        # Spark has calendar intervals for these; their length depends on where they begin.
        if unit in ("month", "year", "quarter"):
            raise self._wrong(token, f"a {unit} has no fixed length. Write days")
        if unit not in _UNITS_US:
            raise self._wrong(token, f"expected a unit of time: {', '.join(_UNITS_US)}")
        return _UNITS_US[unit]

    def _unquoted(self, token: _Token) -> str:
        # Spark reads escapes, or does not (`spark.sql.parser.escapedStringLiterals`).
        if "\\" in token.text:
            raise self._wrong(token, "a text with a backslash is not possible here")
        return token.text[1:-1]

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        if token.kind != "end":
            self._next += 1
        return token

    def _takes_sign(self, sign: str) -> bool:
        matches = self._peek().kind == "sign" and self._peek().text == sign
        self._next += matches
        return matches

    def _takes_word(self, word: str) -> bool:
        matches = self._peek().kind == "word" and self._peek().text.lower() == word
        self._next += matches
        return matches

    def _expect_sign(self, sign: str) -> None:
        if not self._takes_sign(sign):
            raise self._wrong(self._peek(), f"expected '{sign}'")

    def _expect_word(self, word: str) -> None:
        if not self._takes_word(word):
            raise self._wrong(self._peek(), f"expected {word.upper()}")

    def _tokenized(self) -> list[_Token]:
        tokens = []
        position, end = 0, len(self._text.rstrip())
        while position < end:
            match = _TOKEN.match(self._text, position)
            if match is None:
                blanks = len(self._text[position:]) - len(self._text[position:].lstrip())
                where = position + blanks
                unknown = _Token("unknown", self._text[where], where)
                complaint = "the text has no closing quote" if unknown.text in "'\"" else "what is this?"
                raise self._wrong(unknown, complaint)
            kind = str(match.lastgroup)
            tokens.append(_Token(kind, match[kind], match.start(kind)))
            position = match.end()
        tokens.append(_Token("end", "", len(self._text)))
        return tokens

    def _wrong(self, token: _Token, complaint: str) -> ValueError:
        here = f"at '{token.text}'" if token.kind != "end" else "at the end"
        return ValueError(
            f"where: {complaint} ({here}, position {token.position + 1}). An example of all that is "
            "possible: topic in ('a', 'b') and partition = 0 and offset between 10 and 99 and "
            f"timestamp >= now() - interval 1 hour. Given was: {self._text}"
        )
