"""One rule a file: each looks at a finished run and says what must be doubted."""
