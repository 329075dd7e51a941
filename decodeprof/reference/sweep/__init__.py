"""What changes along one axis: batch, context, prompt length, layers or width?

`spec` says what is swept; `subjects` builds one point; `clock` times it without a profiler and
`counts` profiles it, in this order; `points` goes from point to point.
"""
