"""What users see: results, tables, progress; nothing is computed here."""
