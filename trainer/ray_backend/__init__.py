"""A run on a Ray cluster computes what one machine computes: work is cut into the same shards, and gradients are summed in their order.

Arrays travel as numpy over the object store, weights with the version that they are, and whoever dies while sampling is replaced and
asked again: what it answers depends on seeds and weights alone.
"""
