"""Settings on which the keys and values of a state depend, and that have other values now. Pure.

Spark pins the settings of its state stores, not those of its expressions. So if a query whose key
is an hour, ``date_format(ts, "yyyy-MM-dd HH")``, continues in another time zone, the same hour gets
a different key than before, and is then in the state twice. A savepoint records the settings on
which the expressions of each operator depend (:class:`~.state_semantics.Dependence`); they are
compared with those of the program that starts.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence

from flinkish.errors import ConsentNeeded
from flinkish.messages.plan import StateChange, StateVerdict
from flinkish.operators.state_semantics import (
    ANSI,
    CASE_SENSITIVE,
    MAP_DEDUP,
    TIME_PARSER,
    TIME_ZONE,
    Column,
    Dependence,
    StateSemantics,
)
from flinkish.restore.plan.schema_messages import ACCEPT_PARTIAL
from flinkish.units import first_of

#: The stable id of the changes.
SETTINGS_CHANGED = "settings-changed"
_NAMES = {TIME_ZONE: "the session's time zone"}
_UTC = frozenset(
    {
        *("utc", "etc/utc", "gmt", "etc/gmt", "z", "zulu", "etc/zulu", "uct", "etc/uct"),
        *("universal", "etc/universal", "greenwich", "etc/greenwich", "gmt0", "etc/gmt0"),
        *("+00:00", "-00:00", "+0", "+00", "utc+0", "utc+00:00", "gmt+0", "gmt+00:00"),
    }
)
#: Maximum number of parts that a message names.
_SHOWN = 3
#: The end of an advice to pass a setting with ``--conf``.
_IF_SET = " (if the program sets it, change it there)"


def setting_changes(saved: StateSemantics | None, new: StateSemantics) -> Iterator[StateChange]:
    """Yield the changes of the settings on which the state depends; none if ``saved`` is None.

    Where the effect is certain, the change is ``partial``, so the user has to agree that existing
    state keeps the keys or values of the old setting.
    """
    if saved is None:
        return
    before, after = _by_part(saved.settings), _by_part(new.settings)
    changed: dict[tuple[str, bool], list[tuple[Sequence[Dependence], Sequence[Dependence]]]] = {}
    for key, olds in before.items():
        news = after.get(key, [])
        if news and _values(olds) != _values(news):
            changed.setdefault((key[0], olds[0].certain and news[0].certain), []).append(
                (olds, news)
            )
    names = changed.pop((CASE_SENSITIVE, False), [])
    for (setting, certain), pairs in sorted(changed.items()):
        yield _change(setting, pairs, certain=certain)
    yield from _case_changes(saved, new, names)


def refuse_in_place(
    name: str, operators: Iterable[tuple[str, StateSemantics | None, StateSemantics]]
) -> ConsentNeeded | None:
    """Return the refusal of a query that continues in its own checkpoint, or None.

    ``name`` is the name of the query. ``operators`` has the name of each operator, and the meaning
    of its state in the checkpoint (None if unknown) and in the program.
    """
    changes = [
        (operator, change)
        for operator, before, now in operators
        for change in setting_changes(before, now)
        if change.partial
    ]
    if not changes:
        return None
    flags = dict.fromkeys(f"{ACCEPT_PARTIAL} {shlex.quote(operator)}" for operator, _ in changes)
    advices = dict.fromkeys(change.advice for _, change in changes)
    return ConsentNeeded(
        f"query '{name}': " + "; ".join(f"{op}: {change.text}" for op, change in changes),
        hint="; ".join(
            [*advices, "or take a savepoint of the job, and agree when it is restored: "]
        )
        + f"flinkish run -s PATH {' '.join(flags)}",
        reasons=[SETTINGS_CHANGED],
    )


def _by_part(settings: Iterable[Dependence]) -> dict[tuple[str, str], list[Dependence]]:
    """Return what each part depends on, by setting and part, certain ones first."""
    by_part: dict[tuple[str, str], list[Dependence]] = {}
    for each in sorted(settings, key=lambda each: not each.certain):
        by_part.setdefault((each.setting, each.part.casefold()), []).append(each)
    return by_part


def _values(listed: Iterable[Dependence]) -> set[str]:
    return {normal_value(each.setting, each.value) for each in listed}


def normal_value(setting: str, value: str) -> str:
    """Return the same text for values of a setting that mean the same."""
    lower = value.strip().lower()
    if setting == TIME_ZONE:
        return "utc" if lower in _UTC else lower
    if setting == TIME_PARSER:
        return "legacy" if lower == "legacy" else "corrected"  # ``exception`` gives the same values
    return lower


def _change(
    setting: str,
    pairs: Sequence[tuple[Sequence[Dependence], Sequence[Dependence]]],
    *,
    certain: bool,
) -> StateChange:
    olds = [old for each, _ in pairs for old in each]
    news = [new for _, each in pairs for new in each]
    parts = [_shown(each[0]) for _, each in pairs]
    effect = _effect(setting, several=len(parts) > 1, certain=certain)
    text = (
        f"{_NAMES.get(setting, setting)} was {_listed(olds)} and is {_listed(news)}: "
        f"{first_of(parts, limit=_SHOWN)} {effect}"
    )
    if len(_values(olds)) > 1:
        advice = f"have the program set {setting} as the saved one did"
    else:
        advice = f"continue with --conf {shlex.quote(f'{setting}={olds[0].value}')}"
        advice += _IF_SET if certain else ""
    return StateChange("", StateVerdict.AS_IS, SETTINGS_CHANGED, text, advice, partial=certain)


def _shown(each: Dependence) -> str:
    if not each.expression or each.expression in each.part:
        return each.part
    return f"{each.part} ({each.expression})"


def _listed(listed: Iterable[Dependence]) -> str:
    return " and ".join(dict.fromkeys(each.value for each in listed))


def _effect(setting: str, *, several: bool, certain: bool) -> str:
    verb = ("depend" if several else "depends") + " on it"
    if setting == ANSI:
        return f"{verb} where a value does not fit or cannot be converted"
    if setting == MAP_DEDUP:
        return f"{verb} where a map has duplicate keys"
    if setting == TIME_ZONE and not certain:
        return f"{verb} where the text does not name a zone"
    if not certain:
        return f"{verb} for some of the values"
    return f"{verb}, so existing state does not match new rows"


def _case_changes(
    saved: StateSemantics,
    new: StateSemantics,
    pairs: Sequence[tuple[Sequence[Dependence], Sequence[Dependence]]],
) -> Iterator[StateChange]:
    """Yield what the new case sensitivity affects: what names refer to, and look-ups by name."""
    if not pairs:
        return
    olds, news = pairs[0]
    begins = f"{CASE_SENSITIVE} was {_listed(olds)} and is {_listed(news)}"
    advice = f"continue with --conf {CASE_SENSITIVE}={olds[0].value}"
    before, after = _origins(saved), _origins(new)
    other = sorted(name for name in before.keys() & after.keys() if before[name] != after[name])
    if other:
        each = [f"`{name}` was {before[name]} and is {after[name]}" for name in other]
        columns = first_of(each, limit=_SHOWN, separator="; ")
        text = f"{begins}, so names refer to other columns: {columns}"
        advice += _IF_SET
        yield StateChange("", StateVerdict.AS_IS, SETTINGS_CHANGED, text, advice, partial=True)
    read = [each[1][0] for each in pairs if each[1][0].part]
    if read:
        verb = "is" if len(read) == 1 else "are"
        names = first_of([_shown(each) for each in read], limit=_SHOWN)
        text = f"{begins}: {names} {verb} looked up by name"
        yield StateChange("", StateVerdict.AS_IS, SETTINGS_CHANGED, text, advice)


def _origins(meaning: StateSemantics) -> dict[str, str]:
    listed: list[tuple[str, Column]] = []
    for part, roles in (("key", meaning.keys), ("value", meaning.values)):
        for role, columns in roles.items():
            listed += [(f"{role} {part} {each.name.casefold()}".strip(), each) for each in columns]
    return {name: column.origin for name, column in listed}
