import torch

import graphwright


@graphwright.disable(reason="talks to a service")
def look_up(y):
    return y + 1


def example(x):
    y = x * 2
    return look_up(y) * 3  # here


ARGUMENTS = (torch.ones(3),)
