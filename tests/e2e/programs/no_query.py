"""A batch program: no streaming query."""

import sys
import time

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
print("sum", spark.range(100).groupBy().sum("id").collect()[0][0])
time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 0)
