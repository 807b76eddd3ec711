#!/bin/sh
# Start Python for Spark, with PySpark from where it is installed: see worker_python.py.
IFS=:
kept=
for entry in $PYTHONPATH; do
    case $entry in
        */pyspark/python/lib/*.zip) ;;
        *) kept=$kept${kept:+:}$entry ;;
    esac
done
unset IFS
PYTHONPATH=$kept exec "$TESTS_PYTHON" "$@"
