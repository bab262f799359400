"""Real storage servers for tests, on free loopback ports: S3 twice, and HDFS."""
