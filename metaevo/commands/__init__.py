"""One module for each `metaevo` command: parse, call the library, print."""
