"""Sessions that other agents keep on disk: listed, read as events, searched; never written."""
