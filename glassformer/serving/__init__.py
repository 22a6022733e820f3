"""The HTTP server: one process, common batches for all clients, contracts that programs already speak.

A request passes ``middleware`` (size, metrics, errors), ``endpoint`` with ``parameters`` and ``access`` (keys, rate
limits), its contract in ``contracts``, ``service`` (a thread, as for a document), ``models`` and ``batcher``.
"""
