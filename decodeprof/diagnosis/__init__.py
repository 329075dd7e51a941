"""Results to `Diagnosis`: judgement, and nothing that measures."""
