import torch


class Tagged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return f"{func.__name__} of {len(args)}"


TAGGED = torch.ones(3).as_subclass(Tagged)


def example(x):
    y = x * 2
    return y + 1, torch.add(y, TAGGED)  # here


ARGUMENTS = (torch.ones(3),)
