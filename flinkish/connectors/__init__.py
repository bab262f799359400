"""What flinkish knows of the formats that queries read and write: one module or folder for each."""
