import torch


def example(x):
    y = x * 2
    print("doubled", y)  # here
    return y + 1


ARGUMENTS = (torch.ones(3),)
