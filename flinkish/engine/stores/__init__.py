"""State stores: their files, versions and records.

A version of a RocksDB store is an archive (:mod:`flinkish.checkpoint.format.archives`) with shared
SST files, which RocksDB itself reads (:mod:`.rocksdb_store`), and changelogs (:mod:`.records`). A
version of an HDFS store is a snapshot and deltas (:mod:`.records`, :mod:`.hdfs_store`).
:mod:`flinkish.checkpoint.format.chains` determines which files make up a version.
"""
