"""One broker among several: its session, what the controller has it do, its return after a crash."""
