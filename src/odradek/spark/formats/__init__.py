"""Typed columns: keys and values decoded in the Python worker, straight into Arrow columns, and encoded
again.

    options.py            what the user may say of formats
    ddl.py, avro_schema.py, protobuf_schema.py   where the types come from; registry.py: by odradek.serdes
    layouts.py, columns.py   which columns a table has
    tree.py               Spark's types as a tree of columns that decoders fill, and arrays of it
    avro_plan.py, protobuf_plan.py   a writer's schema laid over the tree
    decoding.py           a binary array in, a typed one out, and what is malformed
    shape.py, dead_letters.py   the table's rows of one task
    encoding.py, json_encoding.py, avro_encoding.py, protobuf_encoding.py   rows into bytes

The loops are compiled: `_tree`, `_json`, `_avro`, `_protobuf`. Their twins in Python (`_py….py`)
serve where they are not, and are the contract.
"""
