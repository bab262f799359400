"""Text for people: sizes, lists of names, and tables.

``list`` loads this module, so it imports no other module before it is needed.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know this name; importing typing costs start-up time
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def size_text(size: int) -> str:
    """Return a size in bytes as text for people: ``1.2 MiB``."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if round(value, 1) < 1024:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def age_text(seconds: float) -> str:
    """Return a duration as text for people, such as ``45 min``.

    The unit is the largest of which the duration has at least two, else seconds.
    """
    for unit, size, most in (("s", 1, 120), ("min", 60, 7_200), ("h", 3_600, 172_800)):
        if seconds < most:
            return f"{max(seconds, 0.0) / size:.0f} {unit}"
    return f"{seconds / 86_400:,.0f} d"


def counted(number: int, noun: str) -> str:
    """Return a number of things as text for people: ``1 savepoint``, ``2 savepoints``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def first_of(texts: Sequence[str], limit: int, separator: str = ", ") -> str:
    """Return the first ``limit`` texts and how many more there are: ``a, b and 3 more``."""
    more = f" and {len(texts) - limit} more" if len(texts) > limit else ""
    return separator.join(texts[:limit]) + more


def visible(text: str) -> str:
    """Return ``text`` as one line that cannot control a terminal.

    Characters that are not printable (controls, escape sequences, line ends, bidirectional and
    zero-width characters, lone surrogates) are escaped as in Python: ``\\x1b``, ``\\u202e``.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def visible_lines(text: str) -> str:
    """Return ``text`` escaped as in :func:`visible`, except that line ends and tabs stay."""
    if text.isprintable():
        return text
    keep = "\n\t"
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text
    )


def width_of(text: str) -> int:
    """Return the number of columns that a text takes on a terminal: two for CJK and emoji."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width  # rarely needed: ``list`` loads this module

    return sum(0 if combining(c) else 2 if east_asian_width(c) in ("W", "F") else 1 for c in text)


def shortened(text: str, width: int) -> str:
    """Return ``text`` with ``…`` in place of its middle, if it takes more than ``width`` columns.

    The part kept of the end is twice as long as that of the beginning: paths differ at the end.
    """
    if width_of(text) <= width:
        return text
    if width < 1:
        return ""
    first, last = (width - 1) // 3, (width - 1) - (width - 1) // 3
    return f"{_beginning(text, first)}…{_beginning(text[::-1], last)[::-1]}"


def _beginning(text: str, width: int) -> str:
    taken = 0
    for at, character in enumerate(text):
        taken += width_of(character)
        if taken > width:
            return text[:at]
    return text


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: str = "",
    width: int | None = None,
    flexible: Mapping[int, int] | None = None,
    optional: Sequence[int] = (),
) -> list[str]:
    """Return a table as lines, with aligned columns two blanks apart.

    Titles and cells are escaped with :func:`visible`, so each row is one line.

    ``head``: the titles of the columns. ``rows``: one sequence of cells for each row, as long as
    ``head``. ``right``: indexes of the columns that are aligned to the right, as digits, such as
    ``"45"``. ``width``: the width of the terminal that each line should fit into; None: no limit.
    ``flexible``: the columns whose cells may be shortened in the middle to make the lines fit, each
    with the width down to which it is shortened before other columns are left out. ``optional``:
    the columns that are left out if shortening is not enough, in this order.
    """
    cells_of_rows = [[visible(cell) for cell in row] for row in (head, *rows)]
    natural = [max(width_of(row[i]) for row in cells_of_rows) for i in range(len(head))]
    widths = dict(enumerate(natural))
    if width is not None:
        widths = _fitted(natural, width, flexible or {}, optional)
    lines = []
    for row in cells_of_rows:
        cells = []
        for i, room in widths.items():
            cell = row[i] if room >= natural[i] else shortened(row[i], room)
            blanks = " " * (room - width_of(cell))
            cells.append(blanks + cell if str(i) in right else cell + blanks)
        lines.append("  ".join(cells).rstrip())
    return lines


def _fitted(
    natural: Sequence[int], width: int, flexible: Mapping[int, int], optional: Sequence[int]
) -> dict[int, int]:
    """Return the widths of the columns that are shown. Pure.

    If leaving out columns is not enough either, flexible columns become narrower than ``flexible``
    says. If even that is not enough, lines are longer than ``width``.
    """
    widths = {i: min(room, flexible.get(i, room)) for i, room in enumerate(natural)}
    for column in (*optional, None):
        spare = width - sum(widths.values()) - 2 * (len(widths) - 1)
        if spare >= 0 or column is None:
            break
        del widths[column]
    growing = [i for i in flexible if i in widths]
    while spare != 0:
        step = 1 if spare > 0 else -1
        able = [i for i in growing if (widths[i] < natural[i] if step > 0 else widths[i] > 1)]
        if not able:
            break
        # The narrowest grows, the widest shrinks.
        chosen = min(able, key=lambda i: step * widths[i])
        widths[chosen] += step
        spare -= step
    return widths
