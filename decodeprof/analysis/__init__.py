"""`Trace` to results: numpy on columns, pure functions, no file is opened here."""
