"""The fresh process in which checkpoints are read: its start, its limits, and what it says.

`client` is the side of pytest, `server` the process that starts one child for each attempt, `child` what
happens in it, `parquet_rows` how a table is read there; `answers` judges what a child said, `protocol` is what the sides say
to each other.
"""
