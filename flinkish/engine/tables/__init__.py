"""State as tables: DataFrames, Arrow, files."""
