"""Callers of a server under test: with signed tokens, or without credentials."""

import base64
import hashlib
import hmac
import json
import pathlib
import time
from typing import Any

SECRET = b"a secret of the tests, of more than 32 bytes"


def encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def signed(claims: dict[str, Any]) -> str:
    """A token with these claims."""
    parts = [{"alg": "HS256", "kid": "tests"}, claims]
    text = ".".join(encoded(json.dumps(part).encode()) for part in parts)
    return f"{text}.{encoded(hmac.new(SECRET, text.encode(), hashlib.sha256).digest())}"


class Callers:
    """Credentials of callers; a server of those with tokens knows the key by its settings."""

    def __init__(self, directory: pathlib.Path, with_tokens: bool) -> None:
        self.with_tokens = with_tokens
        self.settings: list[str] = []
        if with_tokens:
            keys = directory / "keys.json"
            key = {"kty": "oct", "kid": "tests", "alg": "HS256", "k": encoded(SECRET)}
            keys.write_text(json.dumps({"keys": [key]}), encoding="utf-8")
            self.settings = ["--token-keys", str(keys)]

    def token(self, groups: list[str] | str, *permissions: str) -> str | None:
        """A token for these groups; none without credentials."""
        if not self.with_tokens:
            return None
        soon = int(time.time()) + 3600
        return signed({"sub": "tests", "aud": "millrace", "exp": soon, "groups": groups, "permissions": permissions})

    def headers(self, groups: list[str] | str, *permissions: str) -> dict[str, str]:
        """The header with such a token."""
        token = self.token(groups, *permissions)
        return {"Authorization": f"Bearer {token}"} if token else {}
