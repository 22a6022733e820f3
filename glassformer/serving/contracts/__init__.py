"""The contracts: the requests and responses of other programs, as ours."""
