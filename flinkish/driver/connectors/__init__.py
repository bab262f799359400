"""Tables of other formats (Delta, Iceberg) that queries read and write, accessed in the driver.

The session of a program that uses such a table has the format's own classes. They read the table
with the program's catalogs and credentials, wherever it is, so nothing else has to be installed.
"""
