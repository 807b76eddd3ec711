"""The process around a broker: its start, its log lines, its event loop watched."""
