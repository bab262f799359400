"""Writing the new checkpoint of a restored query, as its recipe describes it.

The state files are linked or copied to the places that :mod:`.state_files` gives them; the logs are
rewritten (:mod:`.new_logs`), with a combined watermark for a query that is merged from several.
"""
