"""What do points along an axis say: where does the host stop deciding, and what does padding cost?

`floors` derives each point's floors, `crossing` finds where curves meet, `padding` weighs plans of
buckets, and `judge` puts them together.
"""
