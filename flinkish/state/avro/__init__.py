"""State with an Avro schema: its serializer, and Avro's schema resolution."""
