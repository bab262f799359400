"""Directories that file sources read."""

from __future__ import annotations

from typing import Any

from flinkish.connectors.files.ages import archive_to_list, clean_mode
from flinkish.connectors.files.offset_checks import without_pattern
from flinkish.connectors.files.reading import FileReading
from flinkish.connectors.sources import normal_path
from flinkish.driver.connectors.question import SourceQuestion
from flinkish.restore.check.file_places import file_reading


def ask(question: SourceQuestion) -> FileReading | None:
    """Return where to find the files that a source has read.

    Returns None if the source's path is unknown, or the position is not one of a file source;
    raises the errors of :func:`~flinkish.restore.check.file_places.file_reading`.
    """
    source, saved = question.source, question.saved
    options = {name.lower(): value for name, value in source.options.items()}
    path = options.get("path") or source.signature.partition("[")[2].removesuffix("]")
    if not path:
        return None
    is_cleaned = clean_mode(options if saved.options is None else saved.options) is not None
    own = options.get("sourcearchivedir")
    recorded = (saved.options or {}).get("sourcearchivedir")
    archive = archive_to_list(None if own is None else normal_path(own), recorded)
    return file_reading(
        question.offer.origin,
        saved,
        path,
        input_url(without_pattern(path), question.session),
        options,
        archive=None if archive is None else input_url(archive, question.session),
        unlisted=recorded if recorded is not None and archive != recorded else "",
        gone_on=question.gone_on() if is_cleaned else None,
    )


def input_url(path: str, session: Any) -> str:
    """Return the URL of an input directory, written as in the log of Spark's file source."""
    hadoop = session._jvm.org.apache.hadoop.fs.Path(path or ".")
    system = hadoop.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
    url = system.makeQualified(hadoop).toUri()
    scheme, authority = str(url.getScheme()), url.getAuthority()
    return f"{scheme}://{authority or ''}{url.getRawPath()}".rstrip("/")
