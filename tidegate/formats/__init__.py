"""The formats of files. The bytes of one file become one Arrow table, or a reason for refusal: no network, no Spark.

`registry` lists the formats, and imports nothing beyond the standard library. Each format has a module with its
decoder. `columns`, `reasons` and `paths` serve all formats.
"""
