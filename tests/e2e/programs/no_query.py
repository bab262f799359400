"""A batch program: no streaming query. It reads its standard input, which has ended."""

import sys
import time

from pyspark.sql import SparkSession

assert sys.stdin.read() == ""
spark = SparkSession.builder.getOrCreate()
print("sum", spark.range(100).groupBy().sum("id").collect()[0][0])
time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 0)
