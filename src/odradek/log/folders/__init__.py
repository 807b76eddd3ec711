"""The data folders of a broker and all logs in them."""
