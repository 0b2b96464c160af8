import torch


def example(x):
    scale = x.max().item()  # here
    return x / scale


ARGUMENTS = (torch.arange(1.0, 4.0),)
