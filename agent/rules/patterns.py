"""Prometheus' regular expressions (RE2) as Python's: what means the same is kept, what does not is translated or refused.

Python looks for a match by trying, RE2 in one pass. To try a repeat within a repeat, such as `(a+)+`, takes twice as long for each
further character of the text, so those are refused. Repeats one behind another, such as `.*a.*b`, take a power of the text's length:
a few are taken, half a dozen are refused. What bounds the rest is that a node's label values are short, and that each is looked at
once: storages remember what a selector matched, label_replace() what it made of the same series.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from agent.rules import patterncosts
from agent.rules.characterclasses import ASSERTIONS, CONTROL, POSIX, SHORT
from agent.rules.refusals import ExpressionError, unsupported

LONGEST = 2000
"""Characters of a pattern."""
_MOST_REPEATS = 1000  # RE2's own bound
_MOST_TRIES = 8  # repeats of what can match in several ways

_BRACE = r"\{"  # one that begins no repeat
_REPEAT = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")
_HEXADECIMAL = re.compile(r"x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,8})\})")
_GROUP = re.compile(r"\?(?:P<[A-Za-z_]\w*>|([is]*(?:-[is]+)?)([:)]))", re.ASCII)


@lru_cache(1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern for `fullmatch`; ExpressionError as `translated` has them."""
    return re.compile(translated(pattern))


@lru_cache(1024)
def translated(pattern: str) -> str:
    """The same in Python's words; ExpressionError of what is no pattern, or means nothing here."""
    if len(pattern) > LONGEST:
        raise _unsupported(pattern, f"more than {LONGEST} characters")
    found = "".join(_Translation(pattern).pieces())
    try:
        re.compile(found)
    except (re.error, OverflowError, RecursionError) as error:
        if "redefinition of group name" in str(error):  # the one thing here that Go takes
            raise _unsupported(pattern, "a name for two groups") from error
        raise _invalid(pattern, str(error)) from error
    if patterncosts.is_dear(found):
        raise _unsupported(pattern, "too many ways to match")
    return found


class _Translation:
    """One walk through a pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._place = 0
        self._open: list[_Group] = []
        self._varies = False  # whether the enclosing group can match in several ways
        self._last: bool | None = None  # the same of what a repeat would repeat; None: nothing
        self._begun = 0  # where the latest group begins
        self._folds = False  # whether letters' case may not count

    def pieces(self) -> Iterator[str]:
        """What the pattern is made of, translated."""
        while self._place < len(self._pattern):
            yield self._piece(self._pattern[self._place])
        if self._open:
            raise _invalid(self._pattern, "missing closing parenthesis")

    def _piece(self, character: str) -> str:
        match character:
            case "(":
                return self._begin()
            case ")":
                return self._end()
            case "*" | "+" | "?" | "{":
                return self._repeat()
            case "[":
                return self._atom(self._set())
            case "\\":
                return self._escape()
            case _:
                return self._plain(character)

    def _plain(self, character: str) -> str:
        self._place += 1
        if character == "|":
            self._varies, self._last = True, None
            return character
        if character in "^$":
            self._last = True
            return ASSERTIONS["A" if character == "^" else "z"]
        return self._atom("." if character == "." else re.escape(character))

    def _atom(self, text: str) -> str:
        self._last = False
        return text

    def _begin(self) -> str:
        self._place += 1
        opening = "("
        if self._pattern.startswith("?", self._place):
            match = _GROUP.match(self._pattern, self._place)
            if match is None:
                raise self._refused(self._pattern[self._place - 1 : self._place + 3])
            self._place = match.end()
            self._folds |= "i" in (match[1] or "")
            if match[2] == ")":
                return self._flags(match[1], self._place - len(match[0]) - 1)
            opening += match[0]
        self._open.append(_Group(")", self._varies))
        self._begun, self._varies, self._last = self._place, False, None
        return opening

    def _flags(self, flags: str, start: int) -> str:
        """Flags to the end of the group: only where the group begins, as an alternative before would have to be left out."""
        if not flags or start != self._begun:
            raise self._refused(f"(?{flags}) after other things")
        self._begun = self._place
        if self._open:
            self._open[-1].closing += ")"
            return f"(?{flags}:"
        self._pattern += ")"
        self._open.append(_Group(")", varies=False))
        return f"(?{flags}:"

    def _end(self) -> str:
        if not self._open:
            raise _invalid(self._pattern, "unexpected closing parenthesis")
        self._place += 1
        group = self._open.pop()
        self._last = self._varies
        self._varies = self._varies or group.varies
        return group.closing

    def _repeat(self) -> str:
        text, most = self._bounds()
        if text == _BRACE:
            return self._atom(text)
        if self._last is None:
            raise _invalid(self._pattern, f"nothing to repeat before {text}")
        if self._last and (most is None or most > _MOST_TRIES):
            raise self._refused("a repeat of what repeats, has alternatives or is empty")
        self._varies, self._last = True, None
        if self._pattern.startswith("?", self._place):
            self._place += 1
            text += "?"
        return text

    def _bounds(self) -> tuple[str, int | None]:
        """The repeat at this place, and how often at most; None: no bound."""
        character = self._pattern[self._place]
        if character != "{":
            self._place += 1
            return character, 1 if character == "?" else None
        match = _REPEAT.match(self._pattern, self._place)
        if match is None:
            self._place += 1
            return _BRACE, 0
        self._place = match.end()
        numbers = [int(number) for number in (match[1], match[3]) if number]
        if max(numbers) > _MOST_REPEATS:
            raise _invalid(self._pattern, f"more than {_MOST_REPEATS} repeats")
        return match[0], None if match[2] and not match[3] else numbers[-1]

    def _escape(self) -> str:
        name = self._pattern[self._place + 1 : self._place + 2]
        if name in SHORT:
            self._place += 2
            return self._atom(f"[^{SHORT[name.lower()]}]" if name.isupper() else f"[{SHORT[name]}]")
        if name in ASSERTIONS:
            self._place += 2
            self._last = True
            return ASSERTIONS[name]
        if name == "Q":
            return self._quoted()
        return self._atom(re.escape(self._character()))

    def _quoted(self) -> str:
        text, end, _ = self._pattern[self._place + 2 :].partition(r"\E")
        if not end:  # would quote the anchors that Prometheus puts behind
            raise _invalid(self._pattern, r"\Q without \E")
        self._place += len(text) + 4
        self._last = False if text else None
        return re.escape(text)

    def _character(self) -> str:
        """The one character at this place, escaped or not."""
        character = self._pattern[self._place]
        self._place += 1
        if character != "\\":
            return character
        escaped = self._pattern[self._place : self._place + 1]
        if escaped == "x" and (match := _HEXADECIMAL.match(self._pattern, self._place)):
            self._place = match.end()
            return self._of_code(int(match[1] or match[2], 16))
        self._place += 1
        if escaped in CONTROL:
            return CONTROL[escaped]
        if not escaped:
            raise _invalid(self._pattern, "a backslash at the end")
        if escaped.isalnum() or not escaped.isascii() or escaped == "_":
            raise self._refused(f"\\{escaped}")
        return escaped

    def _of_code(self, code: int) -> str:
        if code > 0x10FFFF:
            raise _invalid(self._pattern, "a character beyond Unicode")
        return chr(code)

    def _set(self) -> str:
        self._place += 1
        negated = self._pattern.startswith("^", self._place)
        self._place += negated
        members: list[str] = []
        while not members or not self._pattern.startswith("]", self._place):
            if self._place >= len(self._pattern):
                raise _invalid(self._pattern, "missing closing bracket")
            members.append(self._member())
        self._place += 1
        return f"[{'^' if negated else ''}{''.join(members)}]"

    def _member(self) -> str:
        rest = self._pattern[self._place :]
        if rest.startswith("[:") and ":]" in rest[2:]:
            name = rest[2 : rest.index(":]", 2)]
            if name not in POSIX:
                raise self._refused(f"[:{name}:]")
            self._place += len(name) + 4
            return POSIX[name]
        if rest[:1] == "\\" and rest[1:2] in SHORT:
            if self._folds and rest[1].isupper():
                raise self._refused(f"(?i) with {rest[:2]} between brackets")
            self._place += 2
            return SHORT[rest[1:2]]
        first = self._character()
        rest = self._pattern[self._place :]
        if len(rest) < 2 or rest[0] != "-" or rest[1] == "]":
            return re.escape(first)
        self._place += 1
        return f"{re.escape(first)}-{re.escape(self._character())}"

    def _refused(self, what: str) -> ExpressionError:
        return _unsupported(self._pattern, what)


class _Group:
    """A group that is not closed yet: what closes it, and whether what stood before it varies."""

    def __init__(self, closing: str, varies: bool) -> None:
        self.closing = closing
        self.varies = varies


def _invalid(pattern: str, what: str) -> ExpressionError:
    return ExpressionError(f"{pattern!r} is no regular expression: {what}", "parse")


def _unsupported(pattern: str, what: str) -> ExpressionError:
    return unsupported(f"{what} in the regular expression {pattern!r}")
