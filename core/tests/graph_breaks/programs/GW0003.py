import json

import torch


def example(x):
    name = json.dumps({"rows": x.shape[0]})  # here
    return x + 1, name


ARGUMENTS = (torch.ones(3),)
