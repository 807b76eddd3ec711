"""The command line: one file per tool, each exporting a click `command`; `main` finds them by name."""
