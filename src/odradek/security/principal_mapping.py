"""`ssl.principal.mapping.rules` (KIP-371): from the name in a client's certificate to its principal's name.

A rule is `RULE:pattern/replacement/` with `L` or `U` behind it for lower or upper case, or `DEFAULT`, which
takes the name as it is. The first whose pattern matches the whole name is applied; who matches none is not
let in.

The patterns are the operator's own, so that Python's engine will do; but the names are the clients', and a
pattern that goes wrong on one of them must not keep the broker busy: names are bounded in length.
"""

from __future__ import annotations

import re

MAX_NAME_CHARACTERS = 4096
"""A name longer than that is refused; patterns are not tried on it."""

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(?:,\s*|$)")
_PARSER = re.compile(_RULE)
_REFERENCE = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)
_NAMED_GROUP = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")


class MappingRuleError(ValueError):
    """The rules cannot be read; the message says which."""


class NoMatchingRuleError(ValueError):
    """No rule applies to a name."""


class _Rule:
    def __init__(self, pattern: str, replacement: str, case: str) -> None:
        try:
            # Java's groups with names.
            self._pattern = re.compile(_NAMED_GROUP.sub(r"(?P<\1>", pattern))
        except re.error as error:
            raise MappingRuleError(f"`{pattern}` is no regular expression: {error}") from error
        self._replacement = replacement
        self._case = case

    def apply(self, name: str) -> str | None:
        """The principal's name, None where the pattern does not match."""
        if self._pattern.fullmatch(name) is None:
            return None
        result = self._pattern.sub(self._replaced, name)
        if self._case == "L":
            return result.lower()
        return result.upper() if self._case == "U" else result

    def _replaced(self, match: re.Match[str]) -> str:
        groups = self._pattern.groups

        def one(reference: re.Match[str]) -> str:
            if reference[1] is not None:
                return reference[1]
            digits = reference[2]
            # Java takes as many digits as make a group that there is; the others stand for themselves.
            for end in range(len(digits), 0, -1):
                if int(digits[:end]) <= groups:
                    return (match[int(digits[:end])] or "") + digits[end:]
            return f"${digits}"

        return _REFERENCE.sub(one, self._replacement)


class SslPrincipalMapper:
    """Applies rules."""

    def __init__(self, rules: str | None) -> None:
        """
        Args:
            rules: the config's text; None or empty for `DEFAULT`.

        Raises:
            MappingRuleError: a rule is none.
        """
        self._rules: list[_Rule | None] = []
        text = (rules or "DEFAULT").strip() or "DEFAULT"
        for match in _SPLITTER.finditer(text):
            rule = match[1]
            parsed = _PARSER.match(rule)
            if parsed is None or parsed.end() != len(rule):
                raise MappingRuleError(f"Invalid rule: {rule}")
            if parsed[1] is not None:
                self._rules.append(None)
            elif parsed[2] is not None:
                self._rules.append(_Rule(parsed[2], parsed[3], parsed[4]))

    def name_of(self, distinguished_name: str) -> str:
        """Return the principal's name.

        Raises:
            NoMatchingRuleError: no rule applies, or the name is too long to be tried.
        """
        if len(distinguished_name) > MAX_NAME_CHARACTERS:
            raise NoMatchingRuleError(f"a name of {len(distinguished_name)} characters is too long")
        for rule in self._rules:
            name = distinguished_name if rule is None else rule.apply(distinguished_name)
            if name is not None:
                return name
        raise NoMatchingRuleError(f"No rules apply to {distinguished_name}")
