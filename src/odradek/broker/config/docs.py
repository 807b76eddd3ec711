"""What each broker config is for: shown by DescribeConfigs and in docs/configuration.md."""

from __future__ import annotations

from collections.abc import Mapping


def _docs(text: str) -> dict[str, str]:
    """A name and its sentence per line; indented lines go on."""
    docs: dict[str, str] = {}
    name = ""
    for line in text.strip().splitlines():
        if line.startswith(" "):
            docs[name] += " " + line.strip()
        else:
            name, _, docs[name] = line.partition(" ")
    return docs


_SERVER = _docs("""
broker.id Id of this broker in the cluster; a broker that is alone has 0 when none is given.
broker.id.generation.enable Whether a broker without an id gets one from the metadata store.
reserved.broker.max.id Largest id that may be given by hand; generated ones are above it.
broker.rack Where this broker stands; replicas of a partition are spread over racks.
message.max.bytes Largest record batch in bytes, as it comes in, that is taken.
num.io.threads Threads that work on requests; one event loop does it here.
num.network.threads Threads of each listener that send long answers; one event loop does the rest.
num.replica.alter.log.dirs.threads Threads that move replicas between log directories.
background.threads Threads for periodic work.
request.timeout.ms How long a client or broker waits for an answer, in ms.
socket.connection.setup.timeout.ms How long connecting may take at first, in ms.
socket.connection.setup.timeout.max.ms How long connecting may take at most after repeated failures, in ms.
authorizer.class.name Class that decides who may do what; empty for everybody everything.
early.start.listeners Listeners that open before the authorizer is ready.
controlled.shutdown.enable Whether leaderships move away before this broker stops.
controlled.shutdown.max.retries How often moving leaderships away is tried at a stop.
controlled.shutdown.retry.backoff.ms Pause between two such tries, in ms.
delete.topic.enable Whether topics may be deleted.
compression.type Codec in which logs are kept; `producer` keeps what the producer sent.
compression.gzip.level Level used where the broker compresses with gzip; -1 for the codec's own default.
compression.lz4.level Level used where the broker compresses with lz4.
compression.zstd.level Level used where the broker compresses with zstd.
max.incremental.fetch.session.cache.slots How many fetch sessions are kept.
fetch.max.bytes Most bytes in the answer to one fetch; a first larger batch is still sent.
max.request.partition.size.limit Most partitions in one answer that lists partitions.
unstable.api.versions.enable Whether versions of the protocol that may still change are offered.
unstable.feature.versions.enable Whether feature levels that may still change are offered.
create.topic.policy.class.name Class that has a say in which topics are created.
alter.config.policy.class.name Class that has a say in which configs are changed.
auto.create.topics.enable Whether a topic is created when somebody asks for one that does not exist.
num.partitions Partitions of a new topic when nobody says how many.
default.replication.factor Replicas of a new topic's partitions when nobody says how many.
min.insync.replicas How many replicas must be in sync for a write with acks=all to be taken.
auto.leader.rebalance.enable Whether leaderships go back to the preferred replicas by themselves.
leader.imbalance.per.broker.percentage Share in percent of misplaced leaderships that sets that off.
leader.imbalance.check.interval.seconds How often misplaced leaderships are looked for, in seconds.
unclean.leader.election.enable Whether a replica that is not in sync may lead, at the price of lost records.
unclean.leader.election.interval.ms How often leaderless partitions are looked at for an unclean election, in
  ms.
controller.socket.timeout.ms How long the controller waits for a broker's answer, in ms.
security.providers Classes of security providers.
client.quota.callback.class Class that computes clients' quotas.
config.providers Providers of values that stand outside of `server.properties`.
quota.producer.default Bytes a second that a client may produce where no quota is set, before 3.0.
quota.consumer.default Bytes a second that a client may fetch where no quota is set, before 3.0.
""")

_LISTENERS = _docs("""
listeners Where to listen: NAME://HOST:PORT, separated by commas; an empty host is every address, port 0 a
  free one.
advertised.listeners What clients are told to connect to, where that differs from `listeners`.
listener.security.protocol.map Security protocol of each listener name.
control.plane.listener.name Listener for the controller's requests alone.
inter.broker.listener.name Listener that brokers talk to each other by.
security.inter.broker.protocol Security protocol between brokers, where no listener is named for it.
inter.broker.protocol.version Release whose protocol the brokers of a cluster speak with each other.
socket.send.buffer.bytes Send buffer of sockets in bytes; -1 leaves it to the operating system.
socket.receive.buffer.bytes Receive buffer of sockets in bytes; -1 leaves it to the operating system.
socket.request.max.bytes Largest request in bytes; a connection that announces more is closed.
socket.listen.backlog.size How many connections may wait to be accepted.
max.connections Most connections to this broker.
max.connections.per.ip Most connections from one address.
max.connections.per.ip.overrides Other limits for single addresses or host names, as HOST:NUMBER.
max.connection.creation.rate Most new connections in a second.
connections.max.idle.ms After how long without traffic a connection is closed, in ms.
connection.failed.authentication.delay.ms Pause before a connection that failed to authenticate is closed, in
  ms.
connections.max.reauth.ms How long an authenticated connection lasts before it must authenticate again, in ms.
queued.max.requests How many requests may wait before no more are read.
queued.max.request.bytes How many bytes of requests may wait before no more are read; -1 for no limit.
host.name Address to listen on, before `listeners`.
port Port to listen on, before `listeners`.
advertised.host.name Host that clients are told, before `advertised.listeners`.
advertised.port Port that clients are told, before `advertised.listeners`.
""")

_LOG = _docs("""
log.dir Folder of the logs; used where log.dirs is not given.
log.dirs Folders of the logs, separated by commas.
log.segment.bytes Size in bytes at which a log starts a new segment file.
log.roll.ms Age in ms at which a log starts a new segment even though it is not full; else log.roll.hours.
log.roll.hours The same in hours.
log.roll.jitter.ms Up to how many ms earlier, at random, a segment is closed; else log.roll.jitter.hours.
log.roll.jitter.hours The same in hours.
log.retention.ms Age in ms above which segments are deleted, -1 for no limit; else log.retention.minutes.
log.retention.minutes The same in minutes; else log.retention.hours.
log.retention.hours The same in hours.
log.retention.bytes Size in bytes above which a partition's oldest segments are deleted; -1 for no limit.
log.retention.check.interval.ms How often logs are checked for segments to delete, in ms.
log.cleanup.policy What happens to old segments: delete them, compact them by key, or both.
log.index.size.max.bytes Size in bytes that an index file may reach; a full index starts a new segment.
log.index.interval.bytes After how many bytes of records the offset index gets another entry.
log.flush.interval.messages After how many records a log is synced to disk.
log.flush.interval.ms After how many ms a log is synced to disk; else log.flush.scheduler.interval.ms.
log.flush.scheduler.interval.ms How often logs are checked for what is to be synced, in ms.
log.flush.offset.checkpoint.interval.ms How often it is noted up to where logs are synced, in ms.
log.flush.start.offset.checkpoint.interval.ms How often the logs' first offsets are noted, in ms.
log.segment.delete.delay.ms How long a deleted segment's files stay on disk before they are removed, in ms.
log.preallocate Whether a new segment's file gets its full size at once.
log.message.format.version Record format of old releases; without effect since 3.0.
log.message.timestamp.type Whether records keep the producer's time or get the time of the append.
log.message.timestamp.difference.max.ms How far a record's time may be from the broker's, in ms; replaced by
  two.
log.message.timestamp.before.max.ms How far in the past a record's time may be, in ms, with CreateTime.
log.message.timestamp.after.max.ms How far in the future a record's time may be, in ms, with CreateTime.
log.message.downconversion.enable Whether records are converted for consumers that know only older formats.
log.dir.failure.timeout.ms How long a failed log directory may stay unreported before the broker stops, in ms.
log.initial.task.delay.ms Pause after the start before periodic work on logs begins, in ms.
num.recovery.threads.per.data.dir Threads that load and recover the logs of a folder.
log.cleaner.enable Whether compacted topics are compacted.
log.cleaner.threads Workers that compact.
log.cleaner.io.max.bytes.per.second How fast compaction may read and write, in bytes a second.
log.cleaner.dedupe.buffer.size Memory for the map of keys, in bytes, over all workers.
log.cleaner.io.buffer.size Memory for reading and writing, in bytes, over all workers.
log.cleaner.io.buffer.load.factor How full the map of keys may get.
log.cleaner.backoff.ms Pause when there is nothing to compact, in ms.
log.cleaner.min.cleanable.ratio Share of a log that must be uncompacted before the cleaner takes it up.
log.cleaner.delete.retention.ms How long compacted topics keep the markers of deleted keys, in ms.
log.cleaner.min.compaction.lag.ms How long a record stays out of compaction at least, in ms.
log.cleaner.max.compaction.lag.ms How long a record may stay out of compaction at most, in ms.
log.local.retention.ms How long segments stay local that are in remote storage, in ms; -2 follows
  log.retention.ms.
log.local.retention.bytes How much stays local of what is in remote storage, in bytes; -2 follows
  log.retention.bytes.
cordoned.log.dirs Log folders that take no new partitions; `*` for all.
""")

_REPLICATION = _docs("""
replica.lag.time.max.ms After how long without catching up a follower is no longer in sync, in ms.
replica.socket.timeout.ms How long a follower waits for its leader's answer, in ms.
replica.socket.receive.buffer.bytes Receive buffer of a follower's sockets in bytes.
replica.fetch.max.bytes Most bytes that a follower fetches of one partition at a time.
replica.fetch.wait.max.ms How long a leader may hold a follower's fetch when there is nothing new, in ms.
replica.fetch.backoff.ms Pause of a follower after a failed fetch, in ms.
replica.fetch.min.bytes Bytes that a follower's fetch waits for.
replica.fetch.response.max.bytes Most bytes in one answer to a follower.
replica.selector.class Class that tells consumers which replica to read from.
replica.high.watermark.checkpoint.interval.ms How often high watermarks are noted on disk, in ms.
num.replica.fetchers Fetchers for each leading broker.
fetch.purgatory.purge.interval.requests After how many finished fetches the waiting ones are tidied up.
producer.purgatory.purge.interval.requests After how many finished produce requests the waiting ones are
  tidied up.
delete.records.purgatory.purge.interval.requests After how many finished deletions the waiting ones are
  tidied up.
leader.replication.throttled.rate Most bytes a second to followers, of the replicas that are limited.
follower.replication.throttled.rate Most bytes a second from leaders, of the replicas that are limited.
replica.alter.log.dirs.io.max.bytes.per.second Most bytes a second when replicas move between log directories.
follower.fetch.last.tiered.offset.enable Whether a new follower begins behind what is in remote storage.
""")

_GROUPS = _docs("""
group.min.session.timeout.ms Shortest session timeout that a group member may ask for, in ms.
group.max.session.timeout.ms Longest session timeout that a group member may ask for, in ms.
group.initial.rebalance.delay.ms How long an empty group waits for more members before its first rebalance,
  in ms.
group.max.size Most members of a group.
group.coordinator.rebalance.protocols Kinds of groups that are served.
group.coordinator.threads Threads of the group coordinator; one event loop does it here.
group.coordinator.append.linger.ms How long the coordinator gathers writes before it appends them, in ms.
group.coordinator.new.enable Whether the new group coordinator is used.
offset.metadata.max.bytes Longest text in bytes that may go with a committed offset.
offsets.load.buffer.size Bytes read at a time when groups are loaded.
offsets.topic.replication.factor Replicas of the topic of groups and offsets; 1 in a broker that is alone.
offsets.topic.num.partitions Partitions of the topic of groups and offsets; not to be changed later.
offsets.topic.segment.bytes Segment size of the topic of groups and offsets, in bytes.
offsets.topic.compression.codec Codec of the topic of groups and offsets, as a number: 0 for none.
offsets.retention.minutes How long the offsets of a group without members are kept, in minutes.
offsets.retention.check.interval.ms How often expired offsets are looked for, in ms.
offsets.commit.timeout.ms How long a commit may take to be replicated, in ms.
offsets.commit.required.acks Acknowledgements that a commit waits for: -1 for all in sync.
group.consumer.session.timeout.ms Session timeout of members of server-side groups, in ms.
group.consumer.min.session.timeout.ms Shortest of them that a group may be given, in ms.
group.consumer.max.session.timeout.ms Longest of them that a group may be given, in ms.
group.consumer.heartbeat.interval.ms How often members of server-side groups report, in ms.
group.consumer.min.heartbeat.interval.ms Shortest such interval that a group may be given, in ms.
group.consumer.max.heartbeat.interval.ms Longest such interval that a group may be given, in ms.
group.consumer.max.size Most members of a server-side group.
group.consumer.assignors Assignors of server-side groups, the first by default.
group.consumer.migration.policy Which way classic groups may turn into server-side ones.
group.share.enable Whether share groups are served.
group.share.delivery.count.limit How often a record is delivered before it is given up.
group.share.record.lock.duration.ms How long a delivered record belongs to its consumer, in ms.
group.share.min.record.lock.duration.ms Shortest such time that a group may be given, in ms.
group.share.max.record.lock.duration.ms Longest such time that a group may be given, in ms.
group.share.max.groups Most share groups.
group.share.max.size Most members of a share group.
group.share.partition.max.record.locks Most records of a partition that may be out for delivery.
group.share.session.timeout.ms Session timeout of members of share groups, in ms.
group.share.min.session.timeout.ms Shortest of them that a group may be given, in ms.
group.share.max.session.timeout.ms Longest of them that a group may be given, in ms.
group.share.heartbeat.interval.ms How often members of share groups report, in ms.
group.share.min.heartbeat.interval.ms Shortest such interval that a group may be given, in ms.
group.share.max.heartbeat.interval.ms Longest such interval that a group may be given, in ms.
group.coordinator.background.threads Threads that compute assignments.
group.coordinator.cached.buffer.max.bytes Largest write buffer of the group coordinator that is kept, in
  bytes.
group.consumer.assignment.interval.ms Shortest time between two assignments of a consumer group, in ms.
group.consumer.min.assignment.interval.ms Least that a group may set for that, in ms.
group.consumer.max.assignment.interval.ms Most that a group may set for that, in ms.
group.consumer.regex.refresh.interval.ms How often subscriptions by pattern are resolved again, in ms.
group.share.assignors Assignors of share groups.
group.share.assignment.interval.ms Shortest time between two assignments of a share group, in ms.
group.share.min.assignment.interval.ms Least that a group may set for that, in ms.
group.share.max.assignment.interval.ms Most that a group may set for that, in ms.
group.share.initialize.retry.interval.ms How often a share group's new partitions are tried again, in ms.
group.share.max.delivery.count.limit Most that a group may set for the deliveries of a record.
group.share.min.delivery.count.limit Least that a group may set for the deliveries of a record.
group.share.max.partition.max.record.locks Most that a group may set for the records locked in a partition.
group.share.min.partition.max.record.locks Least that a group may set for the records locked in a partition.
group.share.max.share.sessions How many sessions of share groups are kept.
group.share.persister.class.name Class that keeps the state of share groups.
group.streams.session.timeout.ms Session timeout in streams groups, in ms.
group.streams.min.session.timeout.ms Least that a group may set for that, in ms.
group.streams.max.session.timeout.ms Most that a group may set for that, in ms.
group.streams.heartbeat.interval.ms Heartbeat interval in streams groups, in ms.
group.streams.min.heartbeat.interval.ms Least that a group may set for that, in ms.
group.streams.max.heartbeat.interval.ms Most that a group may set for that, in ms.
group.streams.max.size Most members of a streams group.
group.streams.num.standby.replicas Standby replicas of each task.
group.streams.max.standby.replicas Most that a group may set for that.
group.streams.initial.rebalance.delay.ms How long an empty streams group waits for more members, in ms.
group.streams.assignment.interval.ms Shortest time between two assignments of a streams group, in ms.
group.streams.min.assignment.interval.ms Least that a group may set for that, in ms.
group.streams.max.assignment.interval.ms Most that a group may set for that, in ms.
share.fetch.purgatory.purge.interval.requests After how many finished fetches of share groups the waiting ones
  are tidied up.
share.coordinator.state.topic.num.partitions Partitions of the topic of share groups' state.
share.coordinator.state.topic.replication.factor Replicas of the topic of share groups' state.
share.coordinator.state.topic.min.isr min.insync.replicas of the topic of share groups' state.
share.coordinator.state.topic.segment.bytes Segment size of the topic of share groups' state, in bytes.
share.coordinator.state.topic.compression.codec Codec of the topic of share groups' state, as a number.
share.coordinator.state.topic.prune.interval.ms How often old state of share groups is deleted, in ms.
share.coordinator.threads Threads of the share coordinator.
share.coordinator.snapshot.update.records.per.snapshot Updates of a share group's state between two snapshots.
share.coordinator.cold.partition.snapshot.interval.ms How often state that nobody changes is written again, in
  ms.
share.coordinator.load.buffer.size Bytes read at a time when the state of share groups is loaded.
share.coordinator.append.linger.ms How long the share coordinator gathers writes, in ms; -1 as it sees fit.
share.coordinator.write.timeout.ms How long a write of share groups' state may take, in ms.
share.coordinator.cached.buffer.max.bytes Largest write buffer of the share coordinator that is kept, in
  bytes.
""")

_TRANSACTIONS = _docs("""
transaction.state.log.min.isr min.insync.replicas of the topic of transactions; 1 in a broker that is alone.
transaction.state.log.load.buffer.size Bytes read at a time when transactions are loaded.
transaction.state.log.replication.factor Replicas of the topic of transactions; 1 in a broker that is alone.
transaction.state.log.num.partitions Partitions of the topic of transactions; not to be changed later.
transaction.state.log.segment.bytes Segment size of the topic of transactions, in bytes.
transaction.partition.verification.enable Whether a partition is checked to be part of the transaction
  written to it.
transaction.two.phase.commit.enable Whether producers may take part in two-phase commits, whose transactions
  never time out (KIP-939).
transactional.id.expiration.ms After how long without use a transactional id is forgotten, in ms.
transaction.max.timeout.ms Longest timeout that a transaction may ask for, in ms.
transaction.abort.timed.out.transaction.cleanup.interval.ms How often timed-out transactions are aborted, in
  ms.
transaction.remove.expired.transaction.cleanup.interval.ms How often expired transactional ids are removed,
  in ms.
producer.id.expiration.ms After how long without a write a partition forgets a producer, in ms.
producer.id.expiration.check.interval.ms How often such producers are looked for, in ms.
add.partitions.to.txn.retry.backoff.ms Pause before AddPartitionsToTxn is asked again for an older client, in
  ms.
add.partitions.to.txn.retry.backoff.max.ms How long it is asked again, in ms.
""")

_METRICS = _docs("""
metrics.num.samples Samples kept for each metric.
metrics.sample.window.ms Time that one sample covers, in ms.
metric.reporters Classes that report metrics.
metrics.recording.level Finest level of metrics that are recorded.
auto.include.jmx.reporter Whether metrics are reported over JMX.
kafka.metrics.reporters Classes that report the older metrics.
kafka.metrics.polling.interval.secs How often those are asked, in seconds.
telemetry.max.bytes Largest push of clients' metrics, in bytes.
quota.window.num Samples kept for clients' quotas.
quota.window.size.seconds Time that one of them covers, in seconds.
replication.quota.window.num Samples kept for replication quotas.
replication.quota.window.size.seconds Time that one of them covers, in seconds.
alter.log.dirs.replication.quota.window.num Samples kept for the quota of moves between log directories.
alter.log.dirs.replication.quota.window.size.seconds Time that one of them covers, in seconds.
controller.quota.window.num Samples kept for the quota of changes of topics.
controller.quota.window.size.seconds Time that one of them covers, in seconds.
""")

_ZOOKEEPER = _docs("""
zookeeper.connect ZooKeeper's addresses, HOST:PORT separated by commas, with an optional path behind.
zookeeper.session.timeout.ms After how long without contact the session ends, in ms.
zookeeper.connection.timeout.ms How long connecting may take, in ms; without it the session timeout.
zookeeper.set.acl Whether nodes are protected with ACLs.
zookeeper.max.in.flight.requests Most requests under way.
zookeeper.ssl.client.enable Whether to connect with TLS.
zookeeper.clientCnxnSocket Class of the client's socket; TLS needs Netty's.
zookeeper.ssl.keystore.location File of the key store for TLS to ZooKeeper.
zookeeper.ssl.keystore.password Password of that key store.
zookeeper.ssl.keystore.type Type of that key store.
zookeeper.ssl.truststore.location File of the trust store for TLS to ZooKeeper.
zookeeper.ssl.truststore.password Password of that trust store.
zookeeper.ssl.truststore.type Type of that trust store.
zookeeper.ssl.protocol TLS version to ZooKeeper.
zookeeper.ssl.enabled.protocols TLS versions that are allowed to ZooKeeper.
zookeeper.ssl.cipher.suites Cipher suites that are allowed to ZooKeeper.
zookeeper.ssl.endpoint.identification.algorithm How ZooKeeper's host name is checked; empty for not at all.
zookeeper.ssl.crl.enable Whether revocation lists are looked at.
zookeeper.ssl.ocsp.enable Whether certificates are checked online.
zookeeper.metadata.migration.enable Whether metadata moves from ZooKeeper to KRaft.
zookeeper.metadata.migration.min.batch.size Smallest batch of records in that move.
zookeeper.sync.time.ms By how much a ZooKeeper follower may be behind, in ms; nothing goes by it.
""")

_KRAFT = _docs("""
process.roles Roles of a node in KRaft; there is no KRaft here.
node.id Id of a node in KRaft; the same as broker.id.
initial.broker.registration.timeout.ms How long a first registration with a KRaft controller may take, in ms.
broker.heartbeat.interval.ms How often a broker reports to a KRaft controller, in ms.
broker.session.timeout.ms After how long without a report a KRaft controller fences a broker, in ms.
controller.listener.names Listeners of KRaft controllers.
sasl.mechanism.controller.protocol SASL mechanism to KRaft controllers.
metadata.log.dir Folder of KRaft's metadata log.
metadata.log.segment.bytes Segment size of KRaft's metadata log, in bytes.
metadata.log.segment.min.bytes Smallest such size.
metadata.log.segment.ms Age in ms at which KRaft's metadata log starts a new segment.
metadata.log.max.record.bytes.between.snapshots Bytes of KRaft's metadata log between two snapshots.
metadata.log.max.snapshot.interval.ms Longest time between two snapshots, in ms.
metadata.max.retention.bytes Size in bytes above which KRaft's metadata log is cut.
metadata.max.retention.ms Age in ms above which KRaft's metadata log is cut.
metadata.max.idle.interval.ms How often an idle KRaft controller writes a record, in ms.
server.max.startup.time.ms How long a KRaft node may take to start, in ms.
eligible.leader.replicas.enable Whether KRaft keeps eligible leader replicas.
controller.quorum.voters KRaft's voters.
controller.quorum.bootstrap.servers Addresses to find KRaft's voters by.
controller.quorum.election.timeout.ms After how long without a leader a KRaft election begins, in ms.
controller.quorum.fetch.timeout.ms After how long without fetches a KRaft leader is given up, in ms.
controller.quorum.election.backoff.max.ms Longest pause between KRaft elections, in ms.
controller.quorum.append.linger.ms How long a KRaft leader gathers writes, in ms.
controller.quorum.request.timeout.ms How long KRaft's requests may take, in ms.
controller.quorum.retry.backoff.ms Pause before KRaft's requests are repeated, in ms.
controller.performance.sample.period.ms How often a KRaft controller sums up its events, in ms.
controller.performance.always.log.threshold.ms From how many ms on an event of the controller is always
  logged.
controller.quorum.auto.join.enable Whether a KRaft controller joins the voters by itself.
controller.quorum.fetch.snapshot.max.bytes Most bytes of one answer with a part of a snapshot.
controller.quorum.fetch.max.bytes Most bytes of one answer with metadata records.
internal.metadata.log.segment.bytes Segment size of KRaft's metadata log in tests, in bytes.
internal.metadata.max.batch.size.in.bytes Largest batch of KRaft's metadata log in tests, in bytes.
internal.metadata.delete.delay.millis How long deleted segments of it stay on disk in tests, in ms.
""")

_SECURITY = _docs("""
principal.builder.class Class that makes a principal of who has authenticated.
ssl.client.auth Whether clients must, may or need not show a certificate.
ssl.principal.mapping.rules Rules that make user names of certificates' names.
ssl.allow.dn.changes Whether a renewed certificate may have another name.
ssl.allow.san.changes Whether a renewed certificate may have other alternative names.
ssl.protocol TLS version that is preferred.
ssl.provider Security provider for TLS.
ssl.enabled.protocols TLS versions that are allowed.
ssl.keystore.type Type of the key store: JKS, PKCS12 or PEM.
ssl.keystore.location File of the key store.
ssl.keystore.password Password of the key store.
ssl.key.password Password of the private key.
ssl.keystore.key Private key as PEM, in place of a file.
ssl.keystore.certificate.chain Certificates as PEM, in place of a file.
ssl.truststore.type Type of the trust store: JKS, PKCS12 or PEM.
ssl.truststore.location File of the trust store.
ssl.truststore.password Password of the trust store.
ssl.truststore.certificates Trusted certificates as PEM, in place of a file.
ssl.keymanager.algorithm Algorithm of the key manager.
ssl.trustmanager.algorithm Algorithm of the trust manager.
ssl.endpoint.identification.algorithm How host names are checked; empty for not at all.
ssl.secure.random.implementation Source of randomness for TLS.
ssl.cipher.suites Cipher suites that are allowed; empty for all.
ssl.engine.factory.class Class that makes TLS engines.
sasl.mechanism.inter.broker.protocol SASL mechanism between brokers.
sasl.enabled.mechanisms SASL mechanisms that clients may use.
sasl.server.callback.handler.class Class that checks credentials.
sasl.server.max.receive.size Largest SASL message in bytes before a client has authenticated.
sasl.kerberos.principal.to.local.rules Rules that make user names of Kerberos principals.
sasl.jaas.config Login of SASL, in JAAS form; usually under a listener's and mechanism's prefix.
sasl.client.callback.handler.class Class that supplies credentials as a client.
sasl.login.class Class that logs in.
sasl.login.callback.handler.class Class that supplies credentials for a login.
sasl.kerberos.service.name Kerberos name of the brokers.
sasl.kerberos.kinit.cmd Path of kinit.
sasl.kerberos.ticket.renew.window.factor Share of a ticket's life after which it is renewed.
sasl.kerberos.ticket.renew.jitter Random share of that time.
sasl.kerberos.min.time.before.relogin Shortest time between logins, in ms.
sasl.login.refresh.window.factor Share of a credential's life after which it is refreshed.
sasl.login.refresh.window.jitter Random share of that time.
sasl.login.refresh.min.period.seconds Shortest time between refreshes, in seconds.
sasl.login.refresh.buffer.seconds Time before the end that is kept free for a refresh, in seconds.
sasl.login.connect.timeout.ms How long connecting to an identity provider may take, in ms.
sasl.login.read.timeout.ms How long its answer may take, in ms.
sasl.login.retry.backoff.ms Pause before it is asked again, in ms.
sasl.login.retry.backoff.max.ms Longest such pause, in ms.
sasl.oauthbearer.scope.claim.name Claim that holds the scope.
sasl.oauthbearer.sub.claim.name Claim that holds the subject.
sasl.oauthbearer.token.endpoint.url Address that gives tokens.
sasl.oauthbearer.jwks.endpoint.url Address of the keys that tokens are checked with.
sasl.oauthbearer.jwks.endpoint.refresh.ms How often those keys are fetched, in ms.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms Pause before they are fetched again after a failure, in ms.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms Longest such pause, in ms.
sasl.oauthbearer.clock.skew.seconds By how much clocks may differ, in seconds.
sasl.oauthbearer.expected.audience Audiences that a token must be for.
sasl.oauthbearer.expected.issuer Issuer that a token must be from.
delegation.token.master.key Older name of delegation.token.secret.key.
delegation.token.secret.key Key that delegation tokens are made with; the same on all brokers.
delegation.token.max.lifetime.ms After how long a delegation token ends for good, in ms.
delegation.token.expiry.time.ms After how long a delegation token must be renewed, in ms.
delegation.token.expiry.check.interval.ms How often expired tokens are removed, in ms.
password.encoder.secret Key that passwords in dynamic configs are encrypted with.
password.encoder.old.secret The key before, while it is being replaced.
password.encoder.keyfactory.algorithm Algorithm that makes the key.
password.encoder.cipher.algorithm Cipher that passwords are encrypted with.
password.encoder.key.length Length of the key in bits.
password.encoder.iterations Iterations that make the key.
sasl.oauthbearer.jwt.retriever.class Class that gets tokens.
sasl.oauthbearer.jwt.validator.class Class that checks tokens.
sasl.oauthbearer.scope Scope that a token is asked for.
sasl.oauthbearer.client.credentials.client.id Client id of an OAuth client.
sasl.oauthbearer.client.credentials.client.secret Secret of an OAuth client.
sasl.oauthbearer.assertion.algorithm Algorithm that an assertion is signed with.
sasl.oauthbearer.assertion.claim.aud Audience of an assertion.
sasl.oauthbearer.assertion.claim.exp.seconds After how many seconds an assertion expires.
sasl.oauthbearer.assertion.claim.iss Issuer of an assertion.
sasl.oauthbearer.assertion.claim.jti.include Whether an assertion has an id of its own.
sasl.oauthbearer.assertion.claim.nbf.seconds How many seconds before now an assertion begins to hold.
sasl.oauthbearer.assertion.claim.sub Subject of an assertion.
sasl.oauthbearer.assertion.file File that holds an assertion.
sasl.oauthbearer.assertion.private.key.file File of the key that an assertion is signed with.
sasl.oauthbearer.assertion.private.key.passphrase Passphrase of that key.
sasl.oauthbearer.assertion.template.file File with an assertion's fixed part.
""")

_REMOTE = _docs("""
remote.log.storage.system.enable Whether there is remote storage for old segments.
remote.log.storage.manager.impl.prefix Prefix of the storage manager's own configs.
remote.log.metadata.manager.impl.prefix Prefix of the metadata manager's own configs.
remote.log.storage.manager.class.name Class that stores segments remotely.
remote.log.storage.manager.class.path Where that class is found.
remote.log.metadata.manager.class.name Class that keeps account of remote segments.
remote.log.metadata.manager.class.path Where that class is found.
remote.log.metadata.manager.listener.name Listener by which it reaches the brokers.
remote.log.metadata.custom.metadata.max.bytes Largest extra data with a remote segment, in bytes.
remote.log.index.file.cache.total.size.bytes Room for remote segments' indexes, in bytes.
remote.log.manager.thread.pool.size Threads that plan copies and expiry.
remote.log.manager.copier.thread.pool.size Threads that copy segments.
remote.log.manager.expiration.thread.pool.size Threads that expire remote segments.
remote.log.manager.task.interval.ms How often segments to copy are looked for, in ms.
remote.log.manager.task.retry.backoff.ms Pause after a failure, in ms.
remote.log.manager.task.retry.backoff.max.ms Longest such pause, in ms.
remote.log.manager.task.retry.jitter Random share of that pause.
remote.log.reader.threads Threads that read remote segments.
remote.log.reader.max.pending.tasks Most reads that may wait.
remote.log.manager.copy.max.bytes.per.second How fast segments may be copied, in bytes a second.
remote.log.manager.copy.quota.window.num Samples kept for that limit.
remote.log.manager.copy.quota.window.size.seconds Time that one of them covers, in seconds.
remote.log.manager.fetch.max.bytes.per.second How fast remote segments may be read, in bytes a second.
remote.log.manager.fetch.quota.window.num Samples kept for that limit.
remote.log.manager.fetch.quota.window.size.seconds Time that one of them covers, in seconds.
remote.fetch.max.wait.ms How long a fetch waits for remote data, in ms.
remote.log.index.file.cache.ttl.ms How long a remote segment's indexes are kept without use, in ms; -1 for
  ever.
remote.log.manager.follower.thread.pool.size Threads that follow remote segments of others.
remote.list.offsets.request.timeout.ms How long looking for offsets in remote segments may take, in ms.
""")

_OWN = _docs("""
odradek.event.loop.stall.ms After how long without a sign of life from the event loop a line is logged that
  says how long it was held up and where; 0 for never.
odradek.group.coordinator.max.bytes Most memory that the members of all groups take together, in bytes; at the
  limit JoinGroup is answered with COORDINATOR_NOT_AVAILABLE, and clients try again.
odradek.group.max.bytes Most memory that the members of one group take together, in bytes; beyond it JoinGroup
  is answered with GROUP_MAX_SIZE_REACHED.
odradek.group.member.max.bytes Most memory that one member of a group takes, in bytes: its name and the
  metadata of all of its protocols; beyond it JoinGroup is answered with MESSAGE_TOO_LARGE.
odradek.insecure Start although configs ask for security, or for a cluster of several brokers, that there is
  not yet: everybody may do everything, and nothing is encrypted. Each such config is warned about.
odradek.kafka.version Release of Kafka that the broker is to be: its APIs and versions, its defaults, its
  answers; without it everything that there is.
odradek.producer.id.creation.rate Producer ids that one user may have made from one address in a second; those
  of ten seconds at once. Beyond it the client is throttled: throttle_time_ms, and its connection waits. 0 for
  no limit.
odradek.producer.ids.max Most producer ids that are remembered in all partitions together; beyond it those
  that were idle longest in the partitions that have most are forgotten. None with an open transaction is.
odradek.producer.ids.per.partition.max Most producer ids that one partition remembers; beyond it those that
  were idle longest are forgotten. None with an open transaction is.
odradek.refuse.damaged.logs Refuse to start while the files of any partition are damaged. Without it such a
  partition is offline, told in the log, in metrics and in Metadata, and all others are served.
""")

SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Broker and topics": _SERVER,
    "Listeners and connections": _LISTENERS,
    "Logs": _LOG,
    "Replication": _REPLICATION,
    "Groups": _GROUPS,
    "Transactions and producers": _TRANSACTIONS,
    "Metrics and quotas": _METRICS,
    "ZooKeeper": _ZOOKEEPER,
    "KRaft": _KRAFT,
    "Security": _SECURITY,
    "Remote storage": _REMOTE,
    "odradek's own": _OWN,
}
"""The sentences by subject."""

BROKER_DOCS: Mapping[str, str] = {name: doc for docs in SECTIONS.values() for name, doc in docs.items()}
"""Per broker config a sentence."""
