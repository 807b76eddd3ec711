"""The broker configs, each declared once: name, type, default, limits, what it is for.

The order counts: DescribeConfigs goes by it (`odradek.broker.config.description`).
"""
