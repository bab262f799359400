"""What storage libraries say, in one line of ours."""

from __future__ import annotations

import pytest

from flinkish.storage import storage_error


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            r'RPCError("org.apache.hadoop.security.AccessControlException", "Permission denied: '
            r'user=me, inode=\"/\":root:drwxr-xr-x\n\tat org.apache.hadoop.X.check(X.java:663)\n")',
            'Permission denied: user=me, inode="/":root:drwxr-xr-x',
        ),
        (r'RPCError("org.apache.hadoop.Gone", "no such host")', "no such host"),
        ("first line\n  at second", "first line"),
        ("", "RuntimeError"),
    ],
)
def test_a_reason_is_one_line_without_a_stack_trace(said: str, shown: str) -> None:
    error = storage_error("write", "hdfs://h/x", RuntimeError(said))
    assert error.message == f"cannot write hdfs://h/x: {shown}"
