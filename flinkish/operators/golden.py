"""Check the hashers against a file of ids computed by Flink itself.

The file (JSON, or gzipped JSON) contains ``graphs`` (``source_ids``, ``nodes`` with their edges,
uid, uid hash, expected ids) and ``uids`` (uid, operator id), and may contain ``error_cases``: named
programs that Flink refuses, or hashes to the given ids. Unknown fields and sections are ignored,
except that a section whose entries have ``uid`` and ``operator_id`` is checked like ``uids``.

Run as ``python -m flinkish.operators.hasher FILE.json [--hasher v2|v3]``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flinkish.errors import FlinkishError, InvalidGraph
from flinkish.operators.graph import OperatorGraph, OperatorNode, OutEdge, require_uids
from flinkish.operators.hasher import hash_v2, hash_v3, user_hashes
from flinkish.operators.identity import identify
from flinkish.operators.uids import uid_to_operator_id

_SECTIONS = ("graphs", "error_cases")


@dataclass(frozen=True)
class GoldenComparison:
    """One expectation of the file and the computed value; ``what`` describes the expectation."""

    section: str
    what: str
    expected: str
    computed: str

    @property
    def equal(self) -> bool:
        """True when expectation and computed value are equal."""
        return self.expected == self.computed


def load(path: str) -> Mapping[str, Any]:
    """Return the file's contents; InvalidGraph if it cannot be read or is not such a file."""
    try:
        with open(path, "rb") as file:
            raw = file.read()
        if raw.startswith(b"\x1f\x8b"):
            raw = gzip.decompress(raw)
        data = json.loads(raw.decode("utf-8-sig", "surrogatepass"))
    except OSError as error:
        raise InvalidGraph(
            f"{path}: {error.strerror or error}", hint="name a readable file"
        ) from error
    except (ValueError, EOFError, zlib.error, RecursionError) as error:
        raise InvalidGraph(f"{path} is not JSON: {error}") from error
    if (
        not isinstance(data, dict)
        or not any(isinstance(v, list) for v in data.values())
        or not all(isinstance(data.get(name) or [], list) for name in _SECTIONS)
    ):
        raise InvalidGraph(
            f"{path} has no list of graphs or uids",
            hint='expected: {"graphs": [{"graph", "nodes": [...]}], "uids": [...]}',
        )
    return data


def read_graph(entry: Mapping[str, Any]) -> OperatorGraph:
    """Return the operator graph of one entry of ``graphs``; InvalidGraph if it is malformed.

    In Flink every operator may keep state, so all operators are stateful here.
    """
    try:
        nodes = tuple(_read_node(node) for node in entry["nodes"])
        sources = tuple(int(key) for key in entry.get("source_ids") or ())
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidGraph(
            f"graph {_name(entry)!r}: {type(error).__name__}: {error}",
            hint="a node has id, in_edges [id, ...], out_edges [{target, chainable}, ...]",
        ) from error
    return OperatorGraph(nodes, sources)


def compare_ids(data: Mapping[str, Any]) -> Iterator[GoldenComparison]:
    """Yield each expectation compared with hasher v2; an invalid graph yields only its error."""
    for entry in data.get("graphs") or ():
        yield from _compare_graph(entry)
    for section, entries in data.items():
        if section not in _SECTIONS:
            yield from _compare_uids(section, entries)
    for case in data.get("error_cases") or ():
        yield from _compare_case(case)


def unchecked(data: Mapping[str, Any]) -> list[str]:
    """Return the contents of the file that :func:`compare_ids` does not check."""
    left = [
        f"entry of section {section}: {entry!r:.80}"
        for section, entries in data.items()
        if section not in _SECTIONS and isinstance(entries, (list, dict))
        for entry in (entries if isinstance(entries, list) else [entries])
        if _uid_and_id(entry) is None
    ]
    for case in data.get("error_cases") or ():
        if _case_name(case) not in _CASES:
            left.append(f"error case {_case_name(case)}")
    return left


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns 0 if all ids match (v3: if all could be computed), 1 if not or (only v2) if there was
    nothing to compare, 2 for a file that cannot be read, 141 if the reader closed the pipe.
    """
    parser = argparse.ArgumentParser(
        prog="python -m flinkish.operators.hasher",
        description="Compare operator ids with those that Flink computed, or print those of v3.",
        epilog="exit status: v2: 0 all match, 1 some differ or nothing was checked; v3: 0 all ids "
        "were computed, 1 some could not be; both: 2 the file cannot be read",
    )
    parser.add_argument("file", metavar="FILE.json", help="graphs and uids; may be gzipped")
    parser.add_argument(
        "--hasher",
        choices=("v2", "v3"),
        default="v2",
        help="v2: compare with the file's ids (default); v3: print the ids only",
    )
    options = parser.parse_args(arguments)
    try:
        data = load(options.file)
    except InvalidGraph as error:
        hint = f" ({error.hint})" if error.hint else ""
        print(f"error: {error.message}{hint}", file=sys.stderr)
        return error.code
    try:
        status = _print_v3(data) if options.hasher == "v3" else _print_comparisons(data)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader (head, less) has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # a shell's exit status for a process killed by SIGPIPE
    return status


def _print_comparisons(data: Mapping[str, Any]) -> int:
    total: dict[str, int] = {}
    wrong = 0
    for comparison in compare_ids(data):
        total[comparison.section] = total.get(comparison.section, 0) + 1
        if not comparison.equal:
            wrong += 1
            line = (
                f"{comparison.what}: expected {comparison.expected}, computed {comparison.computed}"
            )
            print(_printable(line))
    for what in unchecked(data):
        print(_printable(f"not checked: {what}"), file=sys.stderr)
    checked = ", ".join(f"{section} {count}" for section, count in total.items()) or "nothing"
    print(f"{wrong} of {sum(total.values())} differ (checked: {checked})")
    return 1 if wrong or not total else 0


def _print_v3(data: Mapping[str, Any]) -> int:
    status = 0
    for entry in data.get("graphs") or ():
        try:
            ids = hash_v3(read_graph(entry))
        except FlinkishError as error:
            print(_printable(f"graph {_name(entry)}: {error.message}"), file=sys.stderr)
            status = 1
            continue
        for key, operator_id in ids.items():
            print(_printable(f"{_name(entry)} {key} {operator_id}"))
    return status


def _compare_graph(entry: Mapping[str, Any]) -> Iterator[GoldenComparison]:
    name = _name(entry)
    try:
        graph = read_graph(entry)
        ids, hashes = hash_v2(graph), user_hashes(graph)
    except FlinkishError as error:
        yield GoldenComparison("graphs", f"graph {name}", "ids", f"error: {error.message}")
        return
    for node in entry["nodes"]:
        key = int(node["id"])
        what = f"graph {name} node {key} ({node.get('name')})"
        if node.get("expected_operator_id") is not None:
            yield GoldenComparison("ids", what, node["expected_operator_id"], ids[key])
        if "expected_user_defined_operator_id" in node:
            expected = node["expected_user_defined_operator_id"]
            yield GoldenComparison("user hashes", what, str(expected), str(hashes.get(key)))


def _compare_uids(section: str, entries: object) -> Iterator[GoldenComparison]:
    for entry in entries if isinstance(entries, list) else [entries]:
        pair = _uid_and_id(entry)
        if pair is not None:
            uid, expected = pair
            short = ascii(uid) if len(uid) <= 60 else f"{uid[:60]!a}... ({len(uid)})"
            yield GoldenComparison(section, f"uid {short}", expected, uid_to_operator_id(uid))


def _uid_and_id(entry: object) -> tuple[str, str] | None:
    if not isinstance(entry, dict):
        return None
    uid, operator_id = entry.get("uid"), entry.get("operator_id")
    return (uid, operator_id) if isinstance(uid, str) and isinstance(operator_id, str) else None


def _compare_case(case: Mapping[str, Any]) -> Iterator[GoldenComparison]:
    """Compare one error case: its ``ids``, in any order, and the ``message`` of the refusal."""
    name = _case_name(case)
    if name not in _CASES:
        return
    graph, submit = _CASES[name]
    if isinstance(case.get("ids"), list):
        expected = ", ".join(sorted(map(str, case["ids"])))
        computed = ", ".join(sorted(hash_v2(graph).values()))
        yield GoldenComparison("error cases", f"error case {name}, ids", expected, computed)
    if case.get("message"):
        try:
            submit(graph)
            computed = "no error"
        except FlinkishError as error:
            # A message begins with Flink's sentence (with operators named otherwise); more follows.
            computed = error.message.replace('"s" (operator)', "s")
        message = str(case["message"])
        if computed.startswith(message):
            computed = message
        yield GoldenComparison("error cases", f"error case {name}, message", message, computed)


def _case_name(case: object) -> str:
    return str(case.get("case")) if isinstance(case, dict) else repr(case)


def _two(**changes: str | None) -> OperatorGraph:
    """Return the error cases' program, source "s" chained to map "a", both with these changes."""
    return _source_and_map(changes, changes)


def _source_and_map(
    source: Mapping[str, str | None], mapped: Mapping[str, str | None]
) -> OperatorGraph:
    first = OperatorNode(1, "s", out_edges=(OutEdge(2, chainable=True),))
    second = OperatorNode(2, "a", in_edges=(1,))
    # The fields that change are uid and uid_hash: strings, which mypy cannot tell from the rest.
    return OperatorGraph((replace(first, **source), replace(second, **mapped)))  # type: ignore[arg-type]


#: Error case -> a program for it (the file has names only), and the function that submits it.
_CASES: Mapping[str, tuple[OperatorGraph, Callable[[OperatorGraph], object]]] = {
    "duplicate_uid": (_two(uid="same"), identify),
    "uidhash_short": (_source_and_map({}, {"uid_hash": "abc"}), identify),
    "uidhash_nonhex": (_source_and_map({}, {"uid_hash": "z" * 32}), identify),
    "uidhash_upper": (_source_and_map({}, {"uid_hash": "ABCDEF0123456789" * 2}), identify),
    "autogen_disabled": (_source_and_map({}, {"uid": "a"}), require_uids),
    "uid_empty": (_source_and_map({}, {"uid": ""}), identify),
    "uid_null": (_source_and_map({}, {"uid": None}), identify),
    "dup_uidhash": (_two(uid_hash="0123456789abcdef" * 2), identify),
}


def _read_node(node: Mapping[str, Any]) -> OperatorNode:
    uid = node.get("uid")
    if not isinstance(uid, str | None):
        raise TypeError(f"a uid is a text, not {uid!r}")
    return OperatorNode(
        key=int(node["id"]),
        name=str(node.get("name", node["id"])),
        uid=uid,
        uid_hash=node.get("uid_hash"),
        stateful=True,
        in_edges=tuple(
            int(edge["source"] if isinstance(edge, dict) else edge) for edge in node["in_edges"]
        ),
        out_edges=tuple(
            OutEdge(int(edge["target"]), bool(edge["chainable"])) for edge in node["out_edges"]
        ),
    )


def _name(entry: Mapping[str, Any]) -> str:
    return str(entry.get("graph", "?")) if isinstance(entry, Mapping) else "?"


def _printable(text: str) -> str:
    """Return ``text`` as one line in ASCII, which any terminal can show."""
    return text.encode("ascii", "backslashreplace").decode().replace("\n", "\\n")
