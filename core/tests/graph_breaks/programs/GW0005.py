import torch


def example(x):
    y = x * 2
    try:
        raise ExceptionGroup("several", [ValueError("one")])
    except* ValueError:  # here
        y = y + 1
    return y * 3


ARGUMENTS = (torch.ones(3),)
