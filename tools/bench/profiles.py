"""Why rows of the table are short, as profiles showed, and what it would take."""

from __future__ import annotations

#: By the name of the row, without a full stop.
PROFILES = {
    "canonical savepoint": (
        "a million rows take 3.0 s on two cores, Spark's reader with Parquet 1.7 s. Half of it is "
        "Python's walk over the Avro that was written, which is read back to verify it. As fast "
        "would need that walk in the optional C package"
    ),
    "state export": (
        "a million rows take 2.0 s on two cores, Spark's reader 1.7 s; the rest of the difference "
        "is the start of the command before that of its driver, and of Python's workers, and "
        "shrinks with larger state"
    ),
    "savepoint, local, many files": (
        "`cp -al` only makes directories and links, a fifth of our time. Two fifths go into "
        "reading the cut, the second time from the new directory to verify it, a fifth into the "
        "ends of files, which have the digests, and the rest into records. No part stands out; as "
        "fast would need these loops in C"
    ),
    "savepoint to S3 from S3": (
        "1.4 ms of a core for each file: botocore builds, signs and reads a CopyObject in "
        "Python, in one thread, and lists the directories of the checkpoint. obstore, which "
        "reads and puts objects at a tenth of that, can neither copy under the condition of an "
        "ETag nor tell the copy's checksum"
    ),
    "status": (
        "half the time is the import of the library for options and help, the rest that of the "
        "types of messages and of the registry; `list` does without both, `--help` without the "
        "latter"
    ),
    "savepoint list": (
        "a millisecond for each savepoint: half of it compares the sizes of its files, a quarter "
        "opens and hashes its `_metadata`, a quarter reads its beginning for the list. Reading it "
        "once would give 1.5x; five times Python's start would need an index of the directory, "
        "which somebody would have to keep true"
    ),
    "handover, state rewritten": (
        "the state is rewritten twice: before the stop, on a copy that warms the new driver up, "
        "and from the savepoint, within the pause. Rewriting only what has changed since would "
        "shorten it"
    ),
}
