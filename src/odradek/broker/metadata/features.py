"""The features that a broker knows, and their levels: what ApiVersions tells and UpdateFeatures changes.

There is one of our own, `transaction.version`: 0 transactions as since 0.11, 1 their records in a flexible
format, 2 an epoch per transaction (KIP-890). Without a word in the metadata it has its highest level, as in a
cluster that a Kafka of today has made. A broker that is told to be another release of Kafka tells what that
one would; there, too, only this feature's level can be changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.broker.kafka_versions.features import Feature, features_of, finalized_epoch
from odradek.cluster.features import FeatureLevels, read_features, write_features
from odradek.cluster.store.store import StoreError
from odradek.errors import FeatureUpdateFailedError
from odradek.wire.epochs import NO_EPOCH

if TYPE_CHECKING:
    from odradek.broker.apis.served_apis import ServedApis
    from odradek.cluster.controller.kafka_controller import KafkaController

TRANSACTION_VERSION = "transaction.version"
_OURS = (Feature(TRANSACTION_VERSION, 0, 2, 2),)
CHANGEABLE = frozenset({TRANSACTION_VERSION})
"""Features whose level means something here."""


class Features:
    """The features of one broker.

    Args:
        controller: its store has the levels.
        handlers: say which release of Kafka the broker is to be.
        stored: the levels that the store has.
    """

    def __init__(self, controller: KafkaController, handlers: ServedApis, stored: FeatureLevels) -> None:
        self._controller = controller
        self._handlers = handlers
        self._stored = stored

    def known(self) -> list[Feature]:
        """Return the supported features, each with the level in force."""
        release = self._handlers.release
        served = {key for key, _ in self._handlers.versions()}
        features = _OURS if release is None else features_of(release, served)
        levels = self._stored.levels
        return [
            feature._replace(
                level=min(max(levels.get(feature.name, feature.level), feature.least), feature.most)
            )
            if feature.name in CHANGEABLE
            else feature
            for feature in features
        ]

    def level(self, name: str) -> int:
        """The level in force of a feature; 0 for one that is not known."""
        return next((feature.level for feature in self.known() if feature.name == name), 0)

    @property
    def epoch(self) -> int:
        """The epoch of the levels, as ApiVersions tells it; -1 where clients are not to look at them."""
        release = self._handlers.release
        if release is None:
            return max(0, self._stored.epoch)
        base = finalized_epoch(release)
        return base if base == NO_EPOCH else base + max(0, self._stored.epoch)

    def write(self, levels: Mapping[str, int]) -> FeatureLevels:
        """Put levels into the metadata; waits for the disk, and may be called in another thread.

        Raises:
            FeatureUpdateFailedError: they could not be written. Kafka: `processFeatureUpdates`.
        """
        store = self._controller.store
        try:
            before = read_features(store)
            return write_features(store, before, {**before.levels, **levels})
        except StoreError as error:
            raise FeatureUpdateFailedError(str(error)) from error

    def use(self, stored: FeatureLevels) -> None:
        """Go by what `write` has returned."""
        self._stored = stored
