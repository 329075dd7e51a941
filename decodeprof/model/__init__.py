"""Types only: what a trace holds, what the analysis found, and the diagnosis that is published."""
