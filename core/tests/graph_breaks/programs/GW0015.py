import torch


def example(x):
    y = x * 2
    ring = []
    ring.append((ring, y))  # a tuple inside of a list inside of the tuple
    return ring[0]  # here


ARGUMENTS = (torch.ones(3),)
