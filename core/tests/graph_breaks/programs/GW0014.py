import torch


def add_down(x, n):
    return x if n == 0 else add_down(x, n - 1) + 1  # here: config.inline_depth_limit is 200


def example(x):
    return add_down(x, 199)


ARGUMENTS = (torch.ones(3),)
