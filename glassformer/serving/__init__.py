"""The HTTP server: one process, common batches for all clients, contracts that programs already speak.

A request passes ``middleware`` (size, metrics, errors), ``endpoint`` and its contract in ``contracts``, ``access``
(keys, rate limits), ``service`` (from a request to its answers), ``batcher`` and ``models``.
"""
