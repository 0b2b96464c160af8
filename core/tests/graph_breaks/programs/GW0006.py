import torch

MARK = object()


def example(x):
    y = x * 2
    name = f"{MARK} {y.dim()}"  # here: the text holds an address
    return y + 1, name


ARGUMENTS = (torch.ones(3),)
