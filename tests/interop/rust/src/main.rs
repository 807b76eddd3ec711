//! The `rdkafka` crate in the roles that `go/role` describes. VERSION is not looked at: librdkafka asks the broker.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, Read};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext, Rebalance};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::ClientContext;
use serde_json::{json, Value};

const PARTITIONS: i32 = 4;
const RETENTION: &str = "86400000";
const LIMIT: Duration = Duration::from_secs(60);

type Outcome = Result<(), Box<dyn Error>>;

fn tell(line: Value) {
    println!("{line}");
}

fn config(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    config
}

fn admin(bootstrap: &str) -> Result<AdminClient<DefaultClientContext>, Box<dyn Error>> {
    Ok(config(bootstrap).create()?)
}

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(LIMIT)).request_timeout(Some(LIMIT))
}

fn create(bootstrap: &str, topic: &str) -> Outcome {
    let wanted =
        NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(1)).set("retention.ms", RETENTION);
    for made in block_on(admin(bootstrap)?.create_topics([&wanted], &options()))? {
        made.map_err(|(name, error)| format!("{name}: {error}"))?;
    }
    Ok(())
}

/// Counts what was not delivered.
#[derive(Clone, Default)]
struct Deliveries(Arc<AtomicUsize>);

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, _: Self::DeliveryOpaque) {
        if result.is_err() {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn produce(bootstrap: &str, topic: &str, codec: &str) -> Outcome {
    let failed = Deliveries::default();
    let producer: ThreadedProducer<Deliveries> = config(bootstrap)
        .set("enable.idempotence", "true")
        .set("compression.type", codec)
        .set("linger.ms", "20")
        .create_with_context(failed.clone())?;
    for (i, line) in std::io::stdin().lock().lines().enumerate() {
        let (value, n) = (line?, i.to_string());
        let headers = OwnedHeaders::new().insert(Header { key: "n", value: Some(&n) });
        let record = BaseRecord::to(topic)
            .partition(i as i32 % PARTITIONS)
            .key(&n)
            .payload(&value)
            .headers(headers);
        producer.send(record).map_err(|(error, _)| error)?;
    }
    producer.flush(LIMIT)?;
    match failed.0.load(Ordering::SeqCst) {
        0 => Ok(()),
        lost => Err(format!("{lost} records were not delivered").into()),
    }
}

struct Telling {
    topic: String,
}

impl ClientContext for Telling {}

impl ConsumerContext for Telling {
    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let now: Vec<i32> = match rebalance {
            Rebalance::Assign(list) => {
                list.elements_for_topic(&self.topic).iter().map(|one| one.partition()).collect()
            }
            _ => Vec::new(),
        };
        tell(json!({ "assigned": now }));
    }
}

fn consume(bootstrap: &str, topic: &str, group: &str) -> Outcome {
    let left = Arc::new(AtomicBool::new(false));
    let ended = left.clone();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        ended.store(true, Ordering::SeqCst);
    });
    let consumer: BaseConsumer<Telling> = config(bootstrap)
        .set("group.id", group)
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .set("heartbeat.interval.ms", "300")
        .create_with_context(Telling { topic: topic.to_string() })?;
    consumer.subscribe(&[topic])?;
    while !left.load(Ordering::SeqCst) {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => {
                let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or(b"")).into_owned();
                let header: String = message.headers().map_or(String::new(), |headers| {
                    headers.iter().map(|one| format!("{}={}", one.key, text(one.value))).collect()
                });
                tell(json!({
                    "partition": message.partition(), "offset": message.offset(), "key": text(message.key()),
                    "value": text(message.payload()), "header": header,
                }));
                // A commit that fails belongs to an assignment that has passed: others read again.
                let _ = consumer.commit_message(&message, CommitMode::Async);
            }
            // Errors pass: the client goes on by itself.
            Some(Err(_)) | None => {}
        }
    }
    let _ = consumer.commit_consumer_state(CommitMode::Sync);
    Ok(())
}

fn describe(bootstrap: &str, topic: &str, group: &str) -> Outcome {
    let admin = admin(bootstrap)?;
    let resources = [ResourceSpecifier::Topic(topic)];
    let described = block_on(admin.describe_configs(&resources, &options()))?;
    let entries = described.into_iter().next().ok_or("no config")??;
    let retention = entries.get("retention.ms").and_then(|entry| entry.value.clone());
    let consumer: BaseConsumer = config(bootstrap).create()?;
    let metadata = consumer.fetch_metadata(Some(topic), LIMIT)?;
    let groups = consumer.fetch_group_list(None, LIMIT)?;
    let mut names: Vec<&str> = groups.groups().iter().map(|one| one.name()).collect();
    names.sort_unstable();
    let own = groups.groups().iter().find(|one| one.name() == group).ok_or("no such group")?;
    tell(json!({
        "partitions": metadata.topics()[0].partitions().len(), "retention": retention, "groups": names,
        "state": own.state(), "members": own.members().len(),
    }));
    Ok(())
}

fn offsets(bootstrap: &str, topic: &str, time_ms: i64) -> Outcome {
    let consumer: BaseConsumer = config(bootstrap).set("group.id", "unused").create()?;
    let (mut beginning, mut end, mut at) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut asked = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        let (low, high) = consumer.fetch_watermarks(topic, partition, LIMIT)?;
        beginning.insert(partition.to_string(), low);
        end.insert(partition.to_string(), high);
        asked.add_partition_offset(topic, partition, Offset::Offset(time_ms))?;
    }
    for found in consumer.offsets_for_times(asked, LIMIT)?.elements() {
        if let Offset::Offset(offset) = found.offset() {
            at.insert(found.partition().to_string(), offset);
        }
    }
    tell(json!({ "beginning": beginning, "end": end, "at": at }));
    Ok(())
}

fn delete(bootstrap: &str, topic: &str, group: &str) -> Outcome {
    let admin = admin(bootstrap)?;
    if group != "-" {
        for gone in block_on(admin.delete_groups(&[group], &options()))? {
            gone.map_err(|(name, error)| format!("{name}: {error}"))?;
        }
    }
    for gone in block_on(admin.delete_topics(&[topic], &options()))? {
        gone.map_err(|(name, error)| format!("{name}: {error}"))?;
    }
    let consumer: BaseConsumer = config(bootstrap).create()?;
    let metadata = consumer.fetch_metadata(None, LIMIT)?;
    let names: Vec<&str> = metadata.topics().iter().map(|one| one.name()).collect();
    tell(json!(names));
    Ok(())
}

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word = |i: usize| words.get(i).map(String::as_str).ok_or("too few words");
    let (bootstrap, topic) = (word(1)?, word(3)?);
    match word(0)? {
        "create" => create(bootstrap, topic),
        "produce" => produce(bootstrap, topic, word(4)?),
        "consume" => consume(bootstrap, topic, word(4)?),
        "describe" => describe(bootstrap, topic, word(4)?),
        "offsets" => offsets(bootstrap, topic, word(4)?.parse()?),
        "delete" => delete(bootstrap, topic, word(4)?),
        other => Err(format!("no such role: {other}").into()),
    }
}
