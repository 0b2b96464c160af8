import torch


def example(x):
    y = x * 2
    if y.sum() > 0:  # here
        y = y.relu()
    return y + 1


ARGUMENTS = (torch.ones(3),)
