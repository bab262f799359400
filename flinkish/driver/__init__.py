"""What runs inside the Spark driver beside the user's program (DESIGN section 4)."""
