#!/bin/sh
# Start Python for Spark with the PySpark that is installed: see worker_python.py. `set -f`: no entry is a pattern.
set -f
IFS=:
kept=
for entry in $PYTHONPATH; do
    case $entry in
        */pyspark/python/lib/*.zip) ;;
        *) kept=$kept${kept:+:}$entry ;;
    esac
done
unset IFS
PYTHONPATH=$kept exec "${ODRADEK_WORKER_PYTHON:-python3}" "$@"
