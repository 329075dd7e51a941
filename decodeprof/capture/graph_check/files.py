"""What does the process that captures leave behind?"""

RUN_FILE = "graph_check.json"
"""A `GraphCheckRun`, written anew after each thing that was learnt."""
