import random

import torch


def example(x):
    y = x * 2
    return y + random.random()  # here


ARGUMENTS = (torch.ones(3),)
