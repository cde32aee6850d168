"""Teaches schemathesis Parler's own media types: bodies of bytes, whatever they are."""

import schemathesis


@schemathesis.serializer("application/partial-upload", "application/vnd.parler.message-with-blob")
def as_bytes(_context, value):
    return {"data": value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")}
