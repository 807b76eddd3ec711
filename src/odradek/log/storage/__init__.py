"""Files and folders, behind an interface that tests replace; the small text files of a data folder."""
