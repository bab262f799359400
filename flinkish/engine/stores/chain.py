"""The files that make up the requested version of a store."""

from __future__ import annotations

from collections.abc import Callable

from flinkish.checkpoint.format import chains
from flinkish.checkpoint.format.chains import Chain, Lineage
from flinkish.checkpoint.format.names import HDFS, state_files_among
from flinkish.engine.errors import UnsupportedState
from flinkish.engine.stores.files import StoreFiles


def find_chain(files: StoreFiles, lineage_of: Callable[[str], Lineage | None]) -> Chain:
    """Find the files that make up ``files.version``.

    It uses only the file names. ``lineage_of`` reads the lineage at the start of a changelog, in
    checkpoint format 2 only.

    Raises MissingStateFile for a file that the version needs, and UnsupportedState if the store has
    a unique id but is HDFS-backed.
    """
    listed = state_files_among(files.names)
    if files.unique_id is None:
        return chains.find_chain(listed, files.version, files.backend)
    if files.backend == HDFS:
        raise UnsupportedState("", None, "HDFS-backed stores have no unique ids")
    return chains.find_chain_by_lineage(listed, files.version, files.unique_id, lineage_of)
