import torch


async def rows(y):
    for row in y:
        yield row


def example(x):
    y = x * 2
    stream = rows(y)  # here
    return y + 1, stream


ARGUMENTS = (torch.ones(3),)
