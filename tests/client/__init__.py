"""The clients: the sans-I/O core by tables and properties, the rest against a broker of our own."""
