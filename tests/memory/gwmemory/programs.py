"""Programs to be executed afresh: each defines `f`, a function of one tensor, and all that it needs."""

from __future__ import annotations

from typing import Any

import torch

PROGRAMS: dict[str, str] = {
    "plain": """
def h(x): return x.sin()
def f(x): return h(x)+1
""",
    "lambda": """
f=lambda x: x*2+1
""",
    "closure": """
def make():
    k=torch.ones(2)
    def inner(x): return x+k
    return inner
f=make()
""",
    "method": """
class C:
    def __init__(self): self.t=torch.ones(2); self.n=0
    def go(self,x):
        self.log=[self.n,x]
        return x+self.t
c=C()
f=c.go
""",
    "explicit_break": """
def f(x):
    y=x+1
    torch._dynamo.graph_break()
    return y*2
""",
    "effects": """
log=[]
table={}
def f(x):
    log.append(x)
    table['last']=x+1
    x.mark=3
    return x
""",
    "slots": """
class S:
    __slots__=('a','b')
    def __init__(self,a): self.a=a; self.b=2
    def go(self,x): return x*self.a+self.b
def f(x): return S(3).go(x), S(4)
""",
    "slots_changed": """
class S:
    __slots__=('a','b')
    def __init__(self,a): self.a=a; self.b=2
s=S(3)
def f(x): s.b+=1; return x*s.a+s.b
""",
    "dataclass": """
import dataclasses
@dataclasses.dataclass
class D:
    a: object
    b: int = 3
    def go(self): return self.a*self.b
def f(x): d=D(x); return dataclasses.replace(d,b=4), d.go()
""",
    "frozen_dataclass": """
import dataclasses
@dataclasses.dataclass(frozen=True, slots=True)
class D:
    a: object
    b: int = 3
def f(x): return D(x, 5)
""",
    "namedtuple": """
import collections
N=collections.namedtuple('N','a b')
def f(x): n=N(x,x+1); return n._replace(a=x*2), n.b
""",
    "enum": """
import enum
class E(enum.Enum):
    A=1
    B=2
class I(enum.IntEnum):
    A=1
k=E.A
def f(x,e=E.A):
    d={E.A: x, E.B: x+1}
    return d, E.B, x*I.A, (E.A, 3), d[k]
""",
    "exception": """
class X(Exception):
    def __init__(self,m,code): super().__init__(m); self.code=code
def f(x):
    try:
        raise X('a',3)
    except X as e:
        return x+e.code, e
""",
    "makes_its_own_code": """
def make():
    def inner(x): return x+1, make()
    return inner
f=make()
""",
    "partials": """
import functools
def g(a,b,c=1): return a*b+c
p=functools.partial(g, c=4)
def f(x): return p(x,x), functools.partial(g, x), functools.reduce(g,[x,x,x])
""",
    "cached_function": """
import functools
@functools.lru_cache
def sz(n): return n+1
def f(x): return x+sz(3), sz
""",
    "decorators": """
import functools, contextlib
def deco(fn):
    @functools.wraps(fn)
    def w(*a,**k): return fn(*a,**k)+1
    return w
@deco
def g(x,y=2): return x*y
@contextlib.contextmanager
def cm(n):
    yield n
def f(x):
    with cm(3) as n: y=g(x)+n
    return y, g, lambda z: g(z)+y
""",
    "generator": """
def gen(x):
    for i in range(3): yield x+i
def f(x): return sum(gen(x)), list(gen(x))
""",
    "properties": """
import functools
class P:
    def __init__(self): self._v=2
    @property
    def v(self): return self._v
    @v.setter
    def v(self,n): self._v=n
    @functools.cached_property
    def c(self): return 5
    @staticmethod
    def s(x): return x+1
    @classmethod
    def k(cls,x): return cls, x*2
    def __getattr__(self,n):
        if n=='zz': return 7
        raise AttributeError(n)
p=P()
def f(x):
    p.v=p.v+1
    return p.s(x)+p.v+p.zz+p.c, P.k(x), p.k
""",
    "super_and_metaclass": """
class A:
    def go(self,x): return x+1
class B(A):
    def go(self,x): return super().go(x)*2
class M(type):
    def __call__(cls,*a): return super().__call__(*a)
class C(metaclass=M):
    def __init__(self,x): self.x=x
def f(x): return B().go(x), C(x), type(B())
""",
    "modules": """
class Sub(torch.nn.Module):
    def __init__(self): super().__init__(); self.l=torch.nn.Linear(2,2)
    def forward(self,x): return self.l(x).relu()
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__(); self.a=Sub(); self.bn=torch.nn.BatchNorm1d(2); self.ls=torch.nn.ModuleList([Sub(),Sub()])
    def forward(self,x):
        x=self.bn(self.a(x.expand(3,2)))
        for l in self.ls: x=l(x)
        return x
net=Net()
def f(x): return net(x)
""",
    "modules_that_break": """
class Sub(torch.nn.Module):
    def __init__(self): super().__init__(); self.l=torch.nn.Linear(2,2); self.log=[]
    def forward(self,x):
        y=self.l(x)
        self.log.append(y.sum().item())
        return y.relu()
net=torch.nn.Sequential(Sub(),Sub())
def f(x): return net(x)+1
""",
    "autograd_function": """
class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx,x): ctx.save_for_backward(x); return x*2
    @staticmethod
    def backward(ctx,g): return g*2
w=torch.nn.Parameter(torch.ones(2))
def f(x): return F.apply(x*w)+1
""",
    "dispatch_and_missing": """
import functools
@functools.singledispatch
def g(x): return 1
@g.register
def _(x: int): return 2
class Q(dict):
    def __missing__(self,k): return 3
q=Q(a=1)
def f(x): return x*g(3)+q['zz'], Q(q)
""",
    "break_with_cells": """
def f(x):
    n=0
    def bump():
        nonlocal n
        n+=1
        return n
    y=x+bump()
    torch._dynamo.graph_break()
    return y+bump(), bump
""",
    "break_in_with": """
def f(x):
    try:
        with torch.no_grad():
            y=x*2
            torch._dynamo.graph_break()
            z=y+x
    finally:
        z=x+3
    return z
""",
    "break_in_loop": """
def f(x):
    out=[]
    for i in range(3):
        out.append(float((x+i).sum()))
    return out, x*2
""",
    "break_in_call": """
class K:
    def __init__(self,v): self.v=v
def h(x):
    y=x+1
    k=K(y)
    torch._dynamo.graph_break()
    return k, y*2
def f(x):
    k,y=h(x)
    return k.v+y, k
""",
    "iterators": """
class It:
    def __init__(self): self.i=0
    def __iter__(self): return self
    def __next__(self):
        self.i+=1
        if self.i>3: raise StopIteration
        return self.i
def f(x):
    s=x
    for i in It(): s=s+i
    return s, list(map(lambda v: v+1,[x])), dict(zip('ab',[x,x]))
""",
    "signature": """
import inspect
class T: pass
def g(a: T, b: 'T'=3): return a
def f(x): return x+len(inspect.signature(g).parameters)
""",
    "weak_reference": """
import weakref
class T: pass
t=T(); t.x=3
r=weakref.ref(t)
def f(x): return x+r().x
""",
    "hooks": """
m=torch.nn.Linear(2,2)
calls=[]
def hk(mod,i,o): calls.append(1); return o+1
m.register_forward_hook(hk)
def f(x): return m(x)
""",
    "const_result": """
@torch._dynamo.assume_constant_result
def n(): return 3
def f(x): return x+n()
""",
    "raises": """
def g(x):
    raise ValueError('no')
def f(x):
    return g(x+1)
""",
    "shape_error": """
def f(x):
    return x.view(7)
""",
    "keys_by_equality": """
class K:
    def __hash__(self): return 3
    def __eq__(self,o): return isinstance(o,K)
k=K()
tbl={k:2, (k,1):3}
def f(x): return x*tbl[k]+tbl[(k,1)]
""",
}
"""By name."""

_MATRIX = ("modules", "modules_that_break", "hooks")


def fresh(name: str) -> tuple[dict[str, Any], torch.Tensor]:
    """Execute a program in globals of its own; those globals, and a tensor to call `f` with."""
    namespace: dict[str, Any] = {"torch": torch, "__name__": f"fresh_{name}"}
    exec(compile(PROGRAMS[name], f"<fresh {name}>", "exec", dont_inherit=True), namespace)
    example = torch.ones(1, 2) if name in _MATRIX else torch.ones(2)
    return namespace, example.requires_grad_(name == "autograd_function")
