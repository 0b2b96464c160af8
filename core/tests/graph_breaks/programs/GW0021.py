import torch


def example(x):
    y = x * 2
    z = eval("y + 1", {"y": y})  # here
    return z * 3


ARGUMENTS = (torch.ones(3),)
