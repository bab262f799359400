"""No precondition of a restore is left to the making of its checkpoint.

Each ``raise`` of the modules that make checkpoints stands in :data:`RAISED`, with who says it
before: the plan (:func:`check_recipe` raises the same, and nothing is made), the check of the
savepoint's files, or nobody, as it depends on the moment.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flinkish.checkpoint.cut import read_cut
from flinkish.errors import Incompatible
from flinkish.restore.materialize.new_checkpoint import check_recipe, make_checkpoint
from flinkish.restore.recipe import (
    EmptyState,
    FreshSource,
    Recipe,
    TakenSource,
    TakenState,
)
from tests.support.checkpoints.recorded import unpack
from tests.support.restore.recipes import forget_checksums, origin, rewrite

ROOT = Path(__file__).parents[3] / "flinkish"
MODULES = [
    *sorted((ROOT / "restore/materialize").glob("*.py")),
    *sorted((ROOT / "driver/migration").glob("*.py")),
]
#: The plan of ``check`` and ``run -s`` refuses it: see :data:`PLANNED`.
PLAN = "plan"
#: ``check`` and ``run -s`` compare the savepoint's files with their records before a driver starts;
#: plain checkpoints are looked at. What changes after that is damage at the moment.
FILES = "files"
#: The target or its storage, and work on the executors: only the attempt shows it.
MOMENT = "moment"
#: Converted or raised again by its caller, in this module or in ``checkpoint/format``.
PASSED_ON = "passed on"
#: (module, function, what is raised) -> who says it before.
RAISED = {
    ("checkpoint_migration", "make_rewritten", "the same"): PASSED_ON,
    ("state_files", "empty_snapshot", "Incompatible"): PLAN,
    ("state_files", "empty_store", "Incompatible"): PLAN,
    ("file_transfer", "_on_executors", "from_record"): MOMENT,
    ("file_transfer", "carry", "_refused"): MOMENT,
    ("new_checkpoint", "_make_local", "the same"): PASSED_ON,
    ("new_checkpoint", "_moved_state", "missing_file"): FILES,
    ("new_checkpoint", "_put", "missing_file"): FILES,
    ("new_checkpoint", "_put", "not_as_recorded"): FILES,
    ("new_checkpoint", "_sources", "not_one_source"): PLAN,
    ("new_checkpoint", "check_free", "StorageError"): MOMENT,
    ("new_checkpoint", "make_checkpoint", "the same"): PASSED_ON,
    ("new_logs", "_lines", "_refusal"): PLAN,
    ("new_logs", "_named_line", "_refusal"): PLAN,
    ("new_logs", "_offset_at", "Corrupt"): FILES,
    ("savepoint_migration", "_rewrite", "LaunchFailed"): MOMENT,
    ("query_migration", "engine_work", "told_by_spark"): MOMENT,
    ("origin_checkpoints", "check_empty_states_fit", "Incompatible"): PLAN,
    ("origin_checkpoints", "check_digest", "UnsupportedFormat"): FILES,
    ("origin_checkpoints", "check_digest", "not_as_recorded"): FILES,
    ("origin_checkpoints", "check_states_agree", "_disagree"): PLAN,
    ("origin_checkpoints", "parsed", "damaged"): FILES,
    ("origin_checkpoints", "read_file", "missing_file"): FILES,
    ("origin_checkpoints", "source_files", "damaged"): FILES,
    ("origin_checkpoints", "source_files", "missing_file"): FILES,
    ("source_logs", "_parsed", "CheckpointFormatError"): PASSED_ON,
    ("source_logs", "_parsed", "the same"): PASSED_ON,
    ("source_logs", "files_at", "FileNotFoundError"): PASSED_ON,
    ("source_logs", "with_other_files", "CheckpointFormatError"): PASSED_ON,
    ("state_files", "_check_movable", "Incompatible"): PLAN,
}


def raised() -> Iterator[tuple[str, str, str]]:
    """Every ``raise`` of the modules."""
    for path in MODULES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Raise):
                    call = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
                    what = "the same" if call is None else ast.unparse(call)
                    yield path.stem, function.name, what


def test_every_raise_has_somebody_who_says_it_before() -> None:
    assert set(raised()) == set(RAISED)


def v2_log(root: Path) -> None:
    """Turn the offset log of a checkpoint with one source into one of version 2."""
    for path in (root / "offsets").glob("[0-9]*"):
        head, conf, offset = path.read_text().split("\n")
        assert head == "v1"
        path.write_text(f"v2\n{conf}\n0:{offset}")
        forget_checksums(path)


def two_versions(tmp_path: Path) -> Recipe:
    (tmp_path / "v2").mkdir()
    one = unpack("spark43-hdfs-agg", tmp_path)
    two = unpack("spark43-hdfs-agg", tmp_path / "v2")
    v2_log(two)
    cuts = [read_cut(str(root)) for root in (one, two)]
    sources = (TakenSource(0, 0, "0", "0"), TakenSource(1, 0, "0", "1"))
    return Recipe(tuple(origin(cut) for cut in cuts), sources=sources)


def renumbered_source(tmp_path: Path) -> Recipe:
    root = unpack("spark43-hdfs-agg", tmp_path)
    v2_log(root)
    sources = (FreshSource(), TakenSource(0, 0, "0", "1"))
    return Recipe((origin(read_cut(str(root))),), sources=sources)


def joined_sources(tmp_path: Path) -> Recipe:
    root = unpack("spark43-ids-join", tmp_path)
    rewrite(str(root), "sources/1/5.compact", "004.json", "other.json")
    sources = (TakenSource(0, 0, "0", "0"), TakenSource(0, 1, "1", "0"))
    return Recipe((origin(read_cut(str(root))),), sources=sources)


def two_settings(tmp_path: Path) -> Recipe:
    (tmp_path / "other").mkdir()
    one = unpack("spark43-hdfs-agg", tmp_path)
    other = unpack("spark43-rocksdb-dedup", tmp_path / "other")
    cuts = [read_cut(str(root)) for root in (one, other)]
    states = {0: TakenState(0, 0), 1: TakenState(1, 0)}
    return Recipe(tuple(origin(cut) for cut in cuts), states=states)


def other_partitions(tmp_path: Path, number: int = 3, *, is_keyed: bool = False) -> Recipe:
    cut = read_cut(str(unpack("spark43-hdfs-agg", tmp_path)))
    states: dict[int, Any] = {0: TakenState(0, 0), 1: EmptyState(number, is_keyed=is_keyed)}
    return Recipe((origin(cut),), states=states)


def lineage(tmp_path: Path) -> Recipe:
    cut = read_cut(str(unpack("spark43-ids-join", tmp_path)))
    return Recipe((origin(cut),), rebase_to=cut.batch_id + 3)


def empty_of(pin: str, value: str) -> Callable[[Path], Recipe]:
    def recipe(tmp_path: Path) -> Recipe:
        root = unpack("spark43-hdfs-agg", tmp_path)
        cut = read_cut(str(root))
        batch = f"offsets/{cut.batch_id}"
        rewrite(cut.root, batch, cut.pins[pin], value)
        states: dict[int, Any] = {0: TakenState(0, 0), 1: EmptyState(2)}
        return Recipe((origin(cut),), states=states)

    return recipe


_STORE = "spark.sql.streaming.stateStore."
#: What the plan refuses -> a recipe that cannot be made, and the text.
PLANNED: dict[tuple[str, str, str], tuple[Callable[[Path], Recipe], str]] = {
    ("state_files", "empty_snapshot", "Incompatible"): (
        empty_of(f"{_STORE}compression.codec", "own.Codec"),
        "codec own.Codec",
    ),
    ("state_files", "empty_store", "Incompatible"): (
        empty_of(f"{_STORE}providerClass", "own.Provider"),
        "provider own.Provider",
    ),
    ("new_checkpoint", "_sources", "not_one_source"): (
        joined_sources,
        "have not read the same input",
    ),
    ("new_logs", "_lines", "_refusal"): (two_versions, "an offset log of version 2"),
    ("new_logs", "_named_line", "_refusal"): (renumbered_source, "would become '1'"),
    ("origin_checkpoints", "check_empty_states_fit", "Incompatible"): (
        other_partitions,
        "continues with the 2 state partitions .* was planned with 3",
    ),
    ("origin_checkpoints", "check_states_agree", "_disagree"): (two_settings, "different settings"),
    ("state_files", "_check_movable", "Incompatible"): (lineage, "a lineage of state versions"),
}


def test_all_that_the_plan_says_is_tried() -> None:
    assert Counter(RAISED.values())[PLAN] == len(PLANNED)
    assert {key for key, who in RAISED.items() if who == PLAN} == PLANNED.keys()


@pytest.mark.parametrize("key", PLANNED, ids=lambda key: "-".join(key[:2]))
def test_the_plan_refuses_it_and_nothing_is_made(key: tuple[str, str, str], tmp_path: Path) -> None:
    recipe_of, text = PLANNED[key]
    recipe = recipe_of(tmp_path)
    with pytest.raises(Incompatible, match=text) as said:
        check_recipe(recipe)
    assert said.value.data["reasons"]
    with pytest.raises(Incompatible) as made:
        make_checkpoint(recipe, str(tmp_path / "new"))
    assert made.value.message == said.value.message
    assert not (tmp_path / "new").exists()


def test_only_state_without_keys_may_have_one_partition(tmp_path: Path) -> None:
    check_recipe(other_partitions(tmp_path, 1))
    (tmp_path / "keyed").mkdir()
    keyed = other_partitions(tmp_path / "keyed", 1, is_keyed=True)
    with pytest.raises(Incompatible, match="was planned with 1, and an operator"):
        check_recipe(keyed)
