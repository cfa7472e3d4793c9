"""The functions behind the paths: each reads a request, asks the service, and writes the answer."""
