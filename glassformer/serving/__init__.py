"""The HTTP server: common batches for the requests of all clients, and contracts that programs already speak.

A request passes ``middleware`` (limits, metrics, errors), ``endpoint`` and its contract in ``contracts``, ``access``
(keys, rate limits), ``service`` (from a request to its answers) and ``scheduling`` (batches, worker processes).
"""
