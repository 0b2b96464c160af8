import torch


def example(x, names):
    y = x * 2
    names.pop()  # here: which item goes depends on the set's history
    return y + len(names)


ARGUMENTS = (torch.ones(3), {"a", "b"})
