"""API keys and rate limits. Only hashes of keys are held and compared."""

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

from cachetools import LRUCache
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

from glassformer.errors import ConfigError
from glassformer.serving.config import ServeConfig
from glassformer.serving.http_errors import HTTPError, bad_request
from glassformer.text.lines import read_lines

_MAX_CLIENTS = 100_000  # the least recently seen is forgotten


class Access:
    """The keys and the counts of a server."""

    def __init__(self, config: ServeConfig) -> None:
        """Raises ``ConfigError`` for a damaged file of keys, or if a key is required without one;
        ``TextError`` if the file cannot be read.
        """
        if config.require_key and not config.keys:
            raise ConfigError("--require-key: found without --keys, expected the file of those that are taken.")
        self._config = config
        self._keys = _read_keys(Path(config.keys), config.request_limit) if config.keys else {}
        self._limiter = FixedWindowRateLimiter(MemoryStorage())
        self.characters = LRUCache[str, int](_MAX_CLIENTS)
        """Of each client since the server started."""

    def admit(self, key: str, address: str, texts: int = 1, statuses: tuple[int, int] = (400, 403)) -> str:
        """A client's name; ``HTTPError`` for a key, then for its texts per minute.

        ``statuses`` are those of the contract for no key and for a wrong one.
        """
        client, limit = f"address {address}", self._config.request_limit
        if self._config.keys and key:
            if _digest(key) not in self._keys:
                raise HTTPError(statuses[1], "Invalid API key")
            client, limit = f"key {_digest(key)}", self._keys[_digest(key)]
        elif self._config.require_key:
            raise HTTPError(statuses[0], "Please contact the server operator to get an API key")
        item = RateLimitItemPerMinute(limit or 1)
        if limit and texts and not self._limiter.test(item, client, cost=texts):
            seconds = self._limiter.get_window_stats(item, client).reset_time - time.time()
            raise HTTPError(429, f"Slowdown: {limit} texts a minute are allowed", retry_after=seconds)
        if limit and texts:
            self._limiter.hit(item, client, cost=texts)
        return client

    def check_size(self, client: str, texts: Sequence[str]) -> None:
        """Count characters of a client; ``HTTPError`` for too many texts or characters in one request."""
        characters, config = sum(map(len, texts)), self._config
        for found, most in ((characters, config.char_limit), (len(texts), config.batch_limit)):
            if most and found > most:
                raise bad_request(f"request ({found}) exceeds text limit ({most})")
        self.characters[client] = self.characters.get(client, 0) + characters


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _read_keys(path: Path, limit: int) -> dict[str, int]:
    """The hash of each key with its texts per minute; by default the limit of the server."""
    keys = {}
    for number, line in enumerate(read_lines(path), 1):
        key, *rest = line.split() or ["#"]
        if key.startswith("#"):
            continue
        if len(rest) > 1 or not all(word.isdecimal() for word in rest):
            raise ConfigError(
                f"{path}:{number}: found {1 + len(rest)} words, expected a key and, if wanted, its texts a minute as "
                "a number. Correct that line."
            )
        keys[_digest(key)] = int(rest[0]) if rest else limit
    if not keys:
        raise ConfigError(f"{path}: has no key, expected one on each line. Write some, or leave --keys out.")
    return keys
