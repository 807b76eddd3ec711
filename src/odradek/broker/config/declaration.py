"""The declaration of a broker config: once, with all that is to be known of it.

    class LogConfigs(Declarations, section=LOGS):
        num_partitions = integer("1", MEDIUM, at_least(1), doc="Partitions of a new topic …")

The attribute's name is Kafka's with underscores. For type checkers it is a value of its type, as it is in a
`BrokerConfig`; at run time the class keeps what was declared in `declared`, and has no such attribute.
The tables of `odradek.broker.config.table` and the page docs/configuration.md are made from these classes.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, overload

from odradek.cluster.configs.config_def import ConfigKey, ConfigType, Validator

V = TypeVar("V")

READ_ONLY = None
"""Only in `server.properties`."""
PER_BROKER = "per-broker"
"""Dynamic, for one broker at a time."""
CLUSTER_WIDE = "cluster-wide"
"""Dynamic, for one broker or for all."""

SERVER = "Broker and topics"
LISTENERS = "Listeners and connections"
LOGS = "Logs"
REPLICATION = "Replication"
GROUPS = "Groups"
TRANSACTIONS = "Transactions and producers"
METRICS = "Metrics and quotas"
ZOOKEEPER = "ZooKeeper"
KRAFT = "KRaft"
SECURITY = "Security"
REMOTE_STORAGE = "Remote storage"
OWN = "odradek's own"

SECTIONS = (
    SERVER,
    LISTENERS,
    LOGS,
    REPLICATION,
    GROUPS,
    TRANSACTIONS,
    METRICS,
    ZOOKEEPER,
    KRAFT,
    SECURITY,
    REMOTE_STORAGE,
    OWN,
)
"""The sections of docs/configuration.md, in its order."""


class Declared(NamedTuple):
    """One config as it was declared.

    Attributes:
        key: its name, type, default, importance and limits. The limits are the widest that any release of
            Kafka has had.
        update: whether it can change while the broker runs: `READ_ONLY`, `PER_BROKER` or `CLUSTER_WIDE`.
        section: where docs/configuration.md has it.
        internal: whether DescribeConfigs does not show it unless it is set.
        doc: what it is for, in a sentence.
    """

    key: ConfigKey
    update: str | None
    section: str
    internal: bool
    doc: str


class Declarations:
    """A class of configs.

    Attributes:
        declared: the configs of this class, without those of its bases, in the order of the source.
    """

    declared: ClassVar[tuple[Declared, ...]] = ()

    def __init_subclass__(cls, section: str = "") -> None:
        declared = []
        for attribute, undeclared in list(vars(cls).items()):
            if undeclared.__class__ is _Undeclared:
                config_type, default, importance, validator, update, own_section, internal, doc = undeclared
                key = ConfigKey(attribute.replace("_", "."), config_type, default, importance, validator)
                declared.append(Declared(key, update, own_section or section, internal, doc))
                delattr(cls, attribute)
        cls.declared = tuple(declared)


class _Undeclared(tuple[Any, ...]):
    """The arguments of a declaration, before its class gives it name and section. A class statement makes
    hundreds of them: whatever is done for each counts when a broker starts."""

    __slots__ = ()


class _Of(Generic[V]):
    """Declares configs of one type."""

    def __init__(self, config_type: ConfigType) -> None:
        self._type = config_type

    @overload
    def __call__(
        self,
        default: str,
        importance: str,
        validator: Validator | None = None,
        *,
        update: str | None = READ_ONLY,
        section: str | None = None,
        internal: bool = False,
        doc: str,
    ) -> V: ...

    @overload
    def __call__(
        self,
        default: None,
        importance: str,
        validator: Validator | None = None,
        *,
        update: str | None = READ_ONLY,
        section: str | None = None,
        internal: bool = False,
        doc: str,
    ) -> V | None: ...

    def __call__(
        self,
        default: str | None,
        importance: str,
        validator: Validator | None = None,
        *,
        update: str | None = READ_ONLY,
        section: str | None = None,
        internal: bool = False,
        doc: str,
    ) -> Any:
        """Declare a config.

        Args:
            default: in text; None for no value.
            importance: `HIGH`, `MEDIUM` or `LOW`.
            validator: which values are admitted; None where every value of the type will do.
            update, internal, doc: see `Declared`.
            section: where it is not that of the class.
        """
        return _Undeclared((self._type, default, importance, validator, update, section, internal, doc))


boolean: _Of[bool] = _Of(ConfigType.BOOLEAN)
string: _Of[str] = _Of(ConfigType.STRING)
integer: _Of[int] = _Of(ConfigType.INT)
short: _Of[int] = _Of(ConfigType.SHORT)
long: _Of[int] = _Of(ConfigType.LONG)
double: _Of[float] = _Of(ConfigType.DOUBLE)
text_list: _Of[list[str]] = _Of(ConfigType.LIST)
class_name: _Of[str] = _Of(ConfigType.CLASS)
password: _Of[str] = _Of(ConfigType.PASSWORD)
