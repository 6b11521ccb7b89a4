"""Floor 8: the command line. The only place, with the web pages, where services are chained."""
