"""Writing the new checkpoint of a restored query, as its recipe describes it.

The state files are linked or copied (:mod:`.state_files`); the logs are rewritten
(:mod:`.new_logs`), with the combined watermark of a query that is merged from several.
"""
