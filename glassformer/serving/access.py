"""API keys, rate limits, bans. Only hashes of keys are held and compared."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from glassformer.errors import ConfigError
from glassformer.serving.config import ServeConfig
from glassformer.serving.http_errors import HTTPError, bad_request
from glassformer.text.lines import read_lines

_MINUTE, _HOUR = 60.0, 3600.0
_MAX_CLIENTS = 100_000  # the least recently seen is forgotten


@dataclass
class _Count:
    minute: float = 0.0
    texts: int = 0
    characters: int = 0
    violations: int = 0
    first_violation: float = 0.0


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
        self._counts = OrderedDict[str, _Count]()

    def admit(self, key: str, address: str, texts: int = 1) -> tuple[str, dict[str, str]]:
        """A client's name and rate-limit headers; ``HTTPError`` for a ban, then a key, then a limit."""
        of_address, now = self.count(f"address {address}"), time.monotonic()
        if not of_address.violations or now - of_address.first_violation > _HOUR:
            of_address.first_violation, of_address.violations = now, 0
        if 0 < self._config.ban_after <= of_address.violations:
            rest = of_address.first_violation + _HOUR - now
            raise HTTPError(403, "Too many request limits violations", retry_after=rest)
        client, limit = self._identify(key, address)
        if not limit or not texts:
            return client, {}
        counts = self.count(client)
        if now - counts.minute >= _MINUTE:
            counts.minute, counts.texts = now, 0
        reset, is_over = counts.minute + _MINUTE - now, counts.texts + texts > limit
        counts.texts += 0 if is_over else texts
        values = {"Limit": limit, "Remaining": max(0, limit - counts.texts), "Reset": max(1, round(reset))}
        headers = {f"X-RateLimit-{name}": str(value) for name, value in values.items()}
        if is_over:
            of_address.violations += 1
            message = f"Slowdown: {limit} texts a minute are allowed"
            raise HTTPError(429, message, retry_after=reset, headers=headers)
        return client, headers

    def _identify(self, key: str, address: str) -> tuple[str, int]:
        """A client's name, from its key or address, and its texts per minute, 0 without a limit."""
        if self._config.keys and key:
            digest = _digest(key)
            if digest not in self._keys:
                raise HTTPError(403, "Invalid API key")
            return f"key {digest}", self._keys[digest]
        if self._config.require_key:
            contact = self._config.key_contact
            unknown = "Please contact the server operator to get an API key"
            raise HTTPError(400, f"Visit {contact} to get an API key" if contact else unknown)
        return f"address {address}", self._config.request_limit

    def count(self, name: str) -> _Count:
        """The counts of a client or an address; characters are counted since the server started."""
        counts = self._counts.setdefault(name, _Count())
        self._counts.move_to_end(name)
        if len(self._counts) > _MAX_CLIENTS:
            self._counts.popitem(last=False)
        return counts

    def check_size(self, client: str, texts: Sequence[str]) -> None:
        """Count characters of a client; ``HTTPError`` for too many texts or characters in one request."""
        characters, config = sum(map(len, texts)), self._config
        for found, most in ((characters, config.char_limit), (len(texts), config.batch_limit)):
            if most and found > most:
                raise bad_request(f"request ({found}) exceeds text limit ({most})")
        self.count(client).characters += characters


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _read_keys(path: Path, limit: int) -> dict[str, int]:
    """The hash of each key with its texts per minute; by default the limit of the server."""
    keys = {}
    for number, line in enumerate(read_lines(path), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) > 2 or not all(word.isdecimal() for word in words[1:]):
            raise ConfigError(
                f"{path}:{number}: found {len(words)} words, expected a key and, if wanted, its texts a minute as a "
                "number. Correct that line."
            )
        keys[_digest(words[0])] = int(words[1]) if words[1:] else limit
    if not keys:
        raise ConfigError(f"{path}: has no key, expected one on each line. Write some, or leave --keys out.")
    return keys
