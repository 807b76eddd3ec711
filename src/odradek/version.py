"""The version of this package, as clients tell it to brokers and tools print it."""

VERSION = "0.1.0"
