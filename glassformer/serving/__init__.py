"""The HTTP server: requests of all clients in common batches, and contracts that programs already speak.

``config`` what can be set, ``languages`` the models and where they lead, ``scheduling`` how requests become batches,
``service`` from a request to its answers, ``explanations`` and ``store`` what is kept, ``door`` and ``access`` what
every request meets, ``endpoint`` and ``contracts`` the interfaces, ``server`` the process of ``app``.
"""
