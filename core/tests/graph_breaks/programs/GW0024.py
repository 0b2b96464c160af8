import torch


def example(x):
    y = x * 2
    manager = torch.inference_mode(False)  # here: made, and entered or not
    return y + 1, manager.mode


ARGUMENTS = (torch.ones(3),)
