import torch


def example(x):
    y = x * 2
    torch.set_float32_matmul_precision("highest")  # here
    return y @ y


ARGUMENTS = (torch.ones(3, 3),)
