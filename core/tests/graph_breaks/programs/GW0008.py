import torch


def example(x):
    y = x * 2
    return y @ torch.ones(5, 6)  # here


ARGUMENTS = (torch.ones(3, 4),)
