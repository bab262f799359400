"""What a page shows of a command, held against what a run of it shows, and rewritten by it.

Ids, times and sizes differ from run to run: an id of the page has to stand for one id of the run
wherever it comes, of the others the form is compared. ``...`` in the page stands for anything: in a
line for the rest of it, alone on a line for any number of lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tests.support.guides.blocks import Step

ANYTHING = "..."
#: The form of what differs from run to run, and what stands for it; ids, in which case matters for
#: more than the form, are named.
_FORMS = (
    ("SAVEPOINT", r"savepoint-[0-9a-f]{6}-[0-9a-f]{12}"),
    ("DIGEST", r"\b[0-9a-f]{64}\b"),
    ("QUERY", r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    ("JOB", r"\b[0-9a-f]{32}\b"),
    ("TIME", r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?Z?"),
    # With the blanks before it: a column is as wide as its widest.
    ("SIZE", r" *\b[\d,]+(?:\.\d+)? (?:bytes|[KMGT]iB|B)\b"),
    ("DURATION", r"\b\d+(?:\.\d+)? (?:ms|s|min)\b"),
)
_VARYING = re.compile("|".join(f"(?P<{name}>{form})" for name, form in _FORMS))
_NUMBER = re.compile(r"\d[\d,.]*")
_IDS = ("SAVEPOINT", "QUERY", "JOB")


@dataclass
class Comparison:
    """A page's commands against those of a run.

    Parameters
    ----------
    moment
        The numbers depend on the moment: only their places are compared, and in a table not its
        columns' widths.
    names
        The page's ids and which ids of the run they stand for; what is found is added.
    """

    moment: bool = False
    names: dict[str, str] = field(default_factory=dict)

    def differences(self, shown: Sequence[Step], real: Sequence[Step]) -> Iterator[str]:
        """Yield what the page shows and the run does not; the run may have more commands."""
        left = iter(real)
        for step in shown:
            found = next((each for each in left if self.same(step.head, each.head)), None)
            if found is None:
                yield f"- {step.head}\n  is not in the run, or not in this place"
                return
            yield from self._lines(step.output, found.output)

    def _lines(self, shown: Sequence[str], real: Sequence[str]) -> Iterator[str]:
        if ANYTHING in shown:
            at = shown.index(ANYTHING)
            behind = len(shown) - at - 1
            if len(real) < at + behind:
                yield f"- {len(shown)} lines\n+ {len(real)}"
            real = [*real[:at], *real[len(real) - behind :]]
            shown = [*shown[:at], *shown[at + 1 :]]
        for number in range(max(len(shown), len(real))):
            is_, was = (lines[number] if number < len(lines) else None for lines in (real, shown))
            if is_ is None or was is None or not self.same(was, is_):
                yield f"- {was}\n+ {is_}"

    def same(self, shown: str, real: str) -> bool:
        """Return whether a line of the run is what the page shows, and remember its ids."""
        pattern = re.escape(self._form(shown)).replace(re.escape(ANYTHING), ".*")
        if not re.fullmatch(pattern, self._form(real)):
            return False
        names = dict(self.names)
        for old, new in zip(_ids(shown), _ids(real), strict=False):
            if names.setdefault(old, new) != new:
                return False
        self.names = names
        return True

    def renewed(self, shown: Sequence[Step], real: Sequence[Step]) -> list[Step]:
        """Return what the page should show: the run's output, as far as the page has it.

        Raises
        ------
        ValueError
            A command of the page is not in the run.
        """
        left, found = iter(real), []
        for step in shown:
            ran = next((each for each in left if self.same(step.head, each.head)), None)
            if ran is None:
                raise ValueError(f"not in the run: {step.head}")
            found.append(replace(ran, output=self._folded(step.output, ran.output)))
        return found

    def _folded(self, shown: Sequence[str], real: Sequence[str]) -> tuple[str, ...]:
        """Shorten a run's output where the page has ``...``."""
        if ANYTHING in shown:
            at = shown.index(ANYTHING)
            behind = len(shown) - at - 1
            head, tail = real[:at], real[len(real) - behind :]
            return (
                *self._folded(shown[:at], head),
                ANYTHING,
                *self._folded(shown[at + 1 :], tail),
            )
        paired = zip(shown, real, strict=False)
        kept = [self._shortened(*pair) for pair in paired]
        return (*kept, *real[len(kept) :])

    def _shortened(self, shown: str, real: str) -> str:
        beginning, found, end = shown.partition(ANYTHING)
        if not found or end or not self.same(shown, real):
            return real
        for old, new in self.names.items():
            beginning = beginning.replace(old, new)
        return beginning + ANYTHING

    def _form(self, line: str) -> str:
        line = _VARYING.sub(lambda match: f"<{match.lastgroup}>", line.rstrip())
        return re.sub(" +", " ", _NUMBER.sub("#", line)) if self.moment else line


def _ids(line: str) -> Iterator[str]:
    for match in _VARYING.finditer(line):
        if match.lastgroup in _IDS:
            yield match[0]
