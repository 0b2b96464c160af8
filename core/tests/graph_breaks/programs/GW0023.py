import torch


def example(x, other):
    y = x * 2
    if [y] == [other]:  # here: the lists compare their tensors
        y = y + 1
    return y * 3


ARGUMENTS = (torch.ones(1), torch.ones(1))
