"""Exception classes of the plugin contract.

Each class subclasses the builtin a caller would catch, takes its message ready made, and carries the facts as
attributes. The attributes have defaults so that the exceptions survive pickling.
"""


class PluginError(Exception):
    """Something about a plugin is wrong; the message says what, in which plugin, and what to do."""


class PluginWarning(UserWarning):
    """Something about a plugin may be wrong, which keeps nothing from running."""


class UnknownBackend(PluginError, ValueError):
    """No installed package offers a backend of this name."""

    def __init__(self, message: str, *, name: str = "", known: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.name = name
        self.known = known


class DuplicateBackend(PluginError, ValueError):
    """Two distributions offer a backend of the same name."""

    def __init__(self, message: str, *, name: str = "", owners: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.name = name
        self.owners = owners


class BackendDisabled(PluginError, ValueError):
    """The backend is installed but blocked by the environment."""

    def __init__(self, message: str, *, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class PluginLoadError(PluginError, ImportError):
    """A plugin's package is installed but its entry point can't be imported; the cause is chained."""

    def __init__(
        self, message: str, *, plugin: str = "", distribution: str | None = None, version: str | None = None
    ) -> None:
        super().__init__(message, name=plugin)
        self.plugin = plugin
        self.distribution = distribution
        self.version = version


class ApiVersionError(PluginLoadError):
    """The plugin was written for a version of the contract that this one doesn't accept."""


class ManifestError(PluginLoadError):
    """The data file that says what a plugin's backend can do can't be read, is wrong, or contradicts the backend."""

    def __init__(
        self,
        message: str,
        *,
        plugin: str = "",
        distribution: str | None = None,
        version: str | None = None,
        file: str = "",
    ) -> None:
        super().__init__(message, plugin=plugin, distribution=distribution, version=version)
        self.file = file


class BackendUnavailable(PluginError, RuntimeError):
    """The backend is installed but can't work here (no device, driver too old, …)."""

    def __init__(self, message: str, *, name: str = "", reason: str = "", remedy: str = "") -> None:
        super().__init__(message)
        self.name = name
        self.reason = reason
        self.remedy = remedy


class PrepareFailed(PluginError, RuntimeError):
    """A backend failed while it got ready to compile: a bug of the plugin's; the cause is chained."""


class BackendContractError(PluginError, TypeError):
    """A backend breaks the contract: a bug of the plugin, to be reported to its authors."""


class DeclarationError(BackendContractError, ValueError):
    """What a backend declares, such as a `GraphForm` or its `Capabilities`, has a value that it can't have."""


class OptionError(PluginError, ValueError):
    """A backend option is wrong."""

    def __init__(self, message: str, *, backend: str = "", option: str = "") -> None:
        super().__init__(message)
        self.backend = backend
        self.option = option


class UnknownOption(OptionError, TypeError):
    """The backend has no option of this name."""


class OptionTypeError(OptionError, TypeError):
    """An option has a value of the wrong type."""


class UnknownMode(OptionError):
    """The backend has no mode of this name."""


class HookError(PluginError, RuntimeError):
    """A plugin's hook implementation is wrong or raised; the cause, if any, is chained."""

    def __init__(self, message: str, *, plugin: str = "", hook: str = "") -> None:
        super().__init__(message)
        self.plugin = plugin
        self.hook = hook


class UnsupportedGraph(PluginError, NotImplementedError):
    """Raised by a backend that can't compile a graph, naming the node and the reason.

    Where the node is one of the graph's, the framework adds what it calls (`op`) and where in the user's code it comes
    from (`location`); both are then part of the message.
    """

    def __init__(self, message: str, *, node: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.node = node
        self.reason = reason
        self.op = ""
        self.location = ""

    def __str__(self) -> str:
        at = f" at {self.location}" if self.location else ""
        return f"{super().__str__()} (node {self.node}, {self.op}{at})" if self.op else super().__str__()


class LeftToEager(UnsupportedGraph):
    """Raised by a backend that can't do a graph as eager does, and asks that the graph itself run, which is exact."""


class BackendResourceError(PluginError, RuntimeError):
    """Raised by a backend that ran out of something or met a passing failure: trying again may work."""


class NotCacheable(PluginError, ValueError):
    """What was compiled can't be kept on disk, for a reason that is no fault; the message is that reason, a clause."""


def tell_whose(error: PluginError, whose: str) -> PluginError:
    """Put before an error's message whose it is, or of what; the error itself is returned.

    Args:
        error: The error; one whose message begins so already stays as it is.
        whose: A few words: `"backend 'name' of some-package 1.0"`.
    """
    told = str(error.args[0]) if error.args else ""
    if not told.startswith(whose):
        error.args = (f"{whose}: {told}", *error.args[1:])
        if isinstance(error, ImportError):  # it keeps its message in a place of its own
            error.msg = error.args[0]
    return error
