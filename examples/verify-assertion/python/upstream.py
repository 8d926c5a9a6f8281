#!/usr/bin/env python3
"""An upstream that trusts only Latchkey's signed assertion.

Needs PyJWT and cryptography: apt-get install python3-jwt python3-cryptography, or pip install "pyjwt[crypto]".
"""
import base64
import hashlib
import json
import os
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt

PORT = int(os.environ.get("PORT", "3000"))
JWKS_URL = os.environ.get("JWKS_URL", "http://127.0.0.1:8080/.well-known/jwks.json")
ISSUER = os.environ.get("ISSUER", "https://auth.example.com")
AUDIENCE = os.environ.get("AUDIENCE", "example-api")
# In seconds; the same as in Latchkey's Cache-Control.
JWKS_MAX_AGE = float(os.environ.get("JWKS_MAX_AGE", "300"))
# Accept only assertions that are bound to their request (identity.assertion.bind).
BOUND = os.environ.get("BOUND") == "required"
# Minimum seconds between fetches for unknown keys, so that invented key names do not flood Latchkey.
COOLDOWN = 5.0
# Never "none", never a shared secret.
ALGORITHMS = {"EdDSA", "ES256"}


class KeysUnavailable(Exception):
    """Without the keys the signature cannot be checked, so the assertion is not trusted."""


class Keys:
    """The keys that Latchkey publishes, fetched when they are too old or when one is missing."""

    def __init__(self, url):
        self._url = url
        self._lock = threading.Lock()
        self._keys = {}
        self._fetched = float("-inf")

    def find(self, kid):
        with self._lock:
            age = time.monotonic() - self._fetched
            if age > JWKS_MAX_AGE or (kid not in self._keys and age > COOLDOWN):
                self._fetch()
            if kid not in self._keys:
                raise jwt.InvalidTokenError("no key has this name")
            return self._keys[kid]

    def _fetch(self):
        try:
            with urllib.request.urlopen(self._url, timeout=5) as response:
                jwks = json.load(response)
            known = [key for key in jwks["keys"] if key.get("alg") in ALGORITHMS]
            self._keys = {key["kid"]: (jwt.PyJWK(key).key, key["alg"]) for key in known}
        except Exception as error:
            raise KeysUnavailable from error
        self._fetched = time.monotonic()


KEYS = Keys(JWKS_URL)


def verify(assertion, method, target, request_ids):
    """Returns the claims of a request's assertion. Raises KeysUnavailable, or any other exception if it is not valid."""
    kid = jwt.get_unverified_header(assertion).get("kid")
    key, algorithm = KEYS.find(kid)
    claims = jwt.decode(
        assertion,
        key,
        algorithms=[algorithm],  # that of the key, not of the assertion
        issuer=ISSUER,
        audience=AUDIENCE,
        leeway=5,  # seconds by which the clocks of both machines may differ
        options={"require": ["iss", "aud", "exp", "iat", "sub"]},
    )
    if "dev" in claims:
        raise jwt.InvalidTokenError("it was made for tests")
    if BOUND or not {"htm", "htu", "rid"}.isdisjoint(claims):
        digest = hashlib.sha256(target.encode("latin-1")).digest()
        htu = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if claims.get("htm") != method or claims.get("htu") != htu or [claims.get("rid")] != request_ids:
            raise jwt.InvalidTokenError("it is for another request")
    return claims


class Upstream(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 10  # seconds for which a connection may be silent

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            pass  # The client has disconnected.

    def do_GET(self):
        # The body is not read, and must not become the next request.
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True
        try:
            # Several assertions are refused, because another program may read the other one.
            (assertion,) = self.headers.get_all("X-Auth-Assertion", [])
            # The target as received: self.path turns several leading slashes into one.
            target = self.requestline.split(" ")[1]
            caller = verify(assertion, self.command, target, self.headers.get_all("X-Request-Id", []))
        except KeysUnavailable:
            self.respond(503, {"error": "the keys cannot be fetched"})
        except Exception as error:
            # Any malformed assertion: nested too deeply, not text, an endless number.
            self.respond(401, {"error": type(error).__name__})
        else:
            self.respond(200, {"hello": caller.get("login"), "caller": caller})

    def respond(self, status, body):
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", PORT), Upstream)
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
