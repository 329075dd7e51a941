"""`Diagnosis` to something a person reads; pure functions of what they are given."""
