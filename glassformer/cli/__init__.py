"""The command line: each command parses its arguments, makes one library call and prints the result."""
