import torch

import graphwright


def example(x):
    y = x * 2
    graphwright.graph_break("two halves are wanted")  # here
    return y + 1


ARGUMENTS = (torch.ones(3),)
