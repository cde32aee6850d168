"""Teaches schemathesis Parler's own media types, bodies of bytes, whatever they are, and not to wait for a job."""

import schemathesis


@schemathesis.serializer("application/partial-upload", "application/vnd.parler.message-with-blob")
def as_bytes(_context, value):
    return {"data": value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")}


@schemathesis.hook
def filter_case(_context, case):
    # One that waits for a job is tested by hand: tests/hub/services.rs
    if not case.operation.path.endswith("/claims") or not isinstance(case.body, dict):
        return True
    wait = case.body.get("waitSeconds")
    return not isinstance(wait, (int, float)) or wait <= 1
