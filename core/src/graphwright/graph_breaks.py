"""The catalogue of graph breaks: what can stop capture, under ids that never change."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GraphBreakKind:
    """One kind of graph break."""

    gw_id: str
    title: str
    explanation: str
    remedy: str


def _kind(number: int, title: str, explanation: str, remedy: str) -> GraphBreakKind:
    return GraphBreakKind(f"GW{number:04d}", title, explanation, remedy)


DATA_DEPENDENT_BRANCH = _kind(
    1,
    "branch on a tensor's value",
    "Python decides by the value of a tensor, which is known only when the graph runs.",
    "Use torch.where or torch.cond, or move the decision out of the compiled function.",
)
DATA_DEPENDENT_VALUE = _kind(
    2,
    "value of a tensor asked for",
    "item(), tolist(), int(), float(), numpy() and the like need the value of a tensor.",
    "Keep the value a tensor, or return the tensor and convert it outside.",
)
UNKNOWN_CALL = _kind(
    3,
    "call of a function that cannot be traced",
    "The function is written in C or belongs to a library that is not looked into, and no model of it exists.",
    "Call it outside the compiled function, or offer a Python stand-in with graphwright.substitute_in_graph.",
)
UNKNOWN_ATTRIBUTE = _kind(
    4,
    "attribute that cannot be followed",
    "Reading or writing the attribute runs code or touches state that capture has no model of.",
    "Read the attribute outside and pass its value in.",
)
UNSUPPORTED_OPCODE = _kind(
    5,
    "instruction that is not translated",
    "The Python instruction has no handler.",
    "Move the statement into a function of its own that is marked graphwright.disable.",
)
UNSUPPORTED_VALUE = _kind(
    6,
    "value of a kind that is not modelled",
    "An object takes part in the computation whose type capture has no model of.",
    "Convert it to tensors, numbers or containers before the call.",
)
EXCEPTION_ESCAPES = _kind(
    7,
    "exception leaves the function",
    "The function raises; only the interpreter gives the exception its true traceback.",
    "Nothing to do when the exception is meant; otherwise repair its cause.",
)
TORCH_OP_FAILED = _kind(
    8,
    "torch operation fails on these inputs",
    "The operation raised on tensors of these shapes and dtypes; eager will raise the real error.",
    "Look at the shapes and dtypes at the line named.",
)
UNSUPPORTED_TORCH = _kind(
    9,
    "torch function that cannot go into a graph",
    "The function works on global state, hooks, storages or devices that the graph cannot hold.",
    "Call it outside the compiled function.",
)
DISABLED = _kind(
    10,
    "function marked as not to be compiled",
    "graphwright.disable, torch.compiler.disable or a library's marker forbids to look into it.",
    "Remove the mark if the function can be captured.",
)
EXPLICIT = _kind(
    11,
    "graph_break() called",
    "The program asks for a graph break here.",
    "Remove the call of graph_break.",
)
PRINTING = _kind(
    12,
    "printing, logging or warning",
    "Output has to appear at its moment, between the computations around it.",
    "Remove it, or register it in config.reorderable_logging_functions to have it run after the graph.",
)
GENERATOR_ESCAPES = _kind(
    13,
    "generator, coroutine or iterator outlives the capture",
    "An object with a suspended frame or a position would have to be rebuilt outside.",
    "Consume it inside the function, or return a list.",
)
TOO_DEEP = _kind(
    14,
    "calls nested too deep or program too long",
    "Inlining went deeper, or translated more instructions, than the settings allow.",
    "Raise config.inline_depth_limit or config.instruction_limit, or use loops instead of recursion.",
)
CANNOT_RECONSTRUCT = _kind(
    15,
    "value that cannot be built again",
    "A value that is needed after the graph has no code that makes it.",
    "Return tensors, numbers, containers or plain objects.",
)
INPUT_METADATA_MUTATION = _kind(
    16,
    "shape or storage of an input changed in place",
    "resize_, set_, t_, data assignment and the like change what an input tensor is.",
    "Work on a new tensor, or do it outside the compiled function.",
)
BACKWARD_INSIDE = _kind(
    17,
    "autograd run or hooked inside the function",
    "backward, gradients, hooks and saved-tensor state belong to the autograd engine.",
    "Compile the forward and the loss, and leave backward and hooks to the caller.",
)
TENSOR_SUBCLASS = _kind(
    18,
    "tensor subclass or torch function mode",
    "A tensor of a subclass with its own __torch_function__ decides itself what operations do.",
    "Unwrap it to plain tensors before the call.",
)
RANDOM_STATE = _kind(
    19,
    "random state of Python, NumPy or a generator object",
    "Numbers drawn while capturing would be frozen into the graph.",
    "Draw the numbers outside and pass them in, or draw them with torch.",
)
HIGHER_ORDER = _kind(
    20,
    "function transform or higher-order operator",
    "The function that vmap, grad, cond, checkpoint or the like takes cannot become a graph of its own: it changes "
    "something outside of itself, takes or gives more than tensors, literals, tuples, lists and dicts, or is called in "
    "a way that is not modelled.",
    "Have the function compute its results from its arguments alone, or apply the transform outside.",
)
DYNAMIC_CODE = _kind(
    21,
    "code or frames looked at dynamically",
    "exec, eval, locals(), frame objects and breakpoint() see the interpreter's own state.",
    "Move it outside the compiled function.",
)
MUTATION_OF_UNKNOWN = _kind(
    22,
    "change of an object that cannot be replayed",
    "The object was changed in a way that replacement code cannot repeat.",
    "Change it outside the compiled function.",
)
UNKNOWN_COMPARISON = _kind(
    23,
    "comparison, hash or truth that cannot be decided",
    "Equality, hash or truth of the object depends on code or state capture has no model of.",
    "Compare simple values.",
)
CONTEXT_MANAGER = _kind(
    24,
    "context manager that cannot be entered while capturing",
    "Entering it changes state outside of Python and torch's known modes.",
    "Enter it around the call of the compiled function.",
)

CATALOGUE: dict[str, GraphBreakKind] = {
    kind.gw_id: kind for kind in list(globals().values()) if isinstance(kind, GraphBreakKind)
}
