"""Which files make up the version of a store that is to be read."""

from __future__ import annotations

from collections.abc import Callable

from flinkish.checkpoint.format import chains
from flinkish.checkpoint.format.chains import Chain, Lineage
from flinkish.checkpoint.format.names import HDFS, state_files_among
from flinkish.engine.errors import UnsupportedState, engine_errors
from flinkish.engine.stores.files import StoreFiles


@engine_errors()
def find_chain(files: StoreFiles, lineage_of: Callable[[str], Lineage | None]) -> Chain:
    """The files that make up ``files.version``.

    Args:
        files: the store; its names are all that is looked at.
        lineage_of: reads the lineage at the head of a changelog; called in format 2 only.

    Raises:
        MissingStateFile: a file that the version needs is not among the names.
        UnsupportedState: an id was given for a store that has none (HDFS-backed).
    """
    listed = state_files_among(files.names)
    if files.unique_id is None:
        return chains.find_chain(listed, files.version, files.backend)
    if files.backend == HDFS:
        raise UnsupportedState("", None, "HDFS-backed stores have no unique ids")
    return chains.find_chain_by_lineage(listed, files.version, files.unique_id, lineage_of)
