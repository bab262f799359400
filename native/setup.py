"""Builds the extension; see pyproject.toml."""

import os

import pyarrow
from setuptools import Extension, setup

XXHASH = os.path.join(pyarrow.get_include(), "arrow", "vendored", "xxhash")

setup(
    ext_modules=[
        Extension(
            "flinkish_rocksdb",
            ["flinkish_rocksdb.c"],
            include_dirs=[XXHASH],
            define_macros=[("Py_LIMITED_API", "0x030A0000")],
            extra_compile_args=["-O3"],
            libraries=["dl"],
            py_limited_api=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
