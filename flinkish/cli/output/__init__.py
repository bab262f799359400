"""What users see: results, tables, progress. Nothing is computed here."""
