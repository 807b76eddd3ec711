// Kafka's Java clients since 0.9 in the roles that `go/role` describes, and `stream`, `offsets`, `admin` besides.
//
// One source for every release: what stands between `//#if >= 2.0` (or `< 2.0`) and `//#end` is compiled for
// those releases alone (`programs.java_program`).

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
//#if >= 0.11
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
//#end
//#if >= 2.0
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
//#end
//#if >= 2.4
import org.apache.kafka.common.ElectionType;
//#end
//#if >= 2.6
import org.apache.kafka.common.quota.ClientQuotaFilter;
//#end

public class Clients {
    static final int PARTITIONS = 4;
    static final int LIMIT_S = 60;
    static String bootstrap;

    public static void main(String[] words) throws Exception {
        bootstrap = words[1];
        String topic = words[3];
        String last = words[words.length - 1];
        switch (words[0]) {
            case "produce": produce(topic, last.split(",")); break;
            case "consume": consume(topic, last); break;
            case "offsets": offsets(topic, Long.parseLong(last)); break;
            //#if >= 0.11
            case "stream": stream(topic); break;
            case "create": create(topic); break;
            case "admin": administer(topic, last); break;
            case "delete": delete(topic, last); break;
            //#end
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    static Map<String, Object> settings() {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", "interop");
        return settings;
    }

    /** The values on standard input: value i goes to partition i modulo 4, in the codec whose turn it is. */
    static void produce(String topic, String[] codecs) throws Exception {
        List<String> values = new ArrayList<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            values.add(line);
        }
        for (int k = 0; k < codecs.length; k++) {
            Map<String, Object> settings = settings();
            settings.put("acks", "all");
            settings.put("retries", 50);
            settings.put("linger.ms", 20);
            settings.put("compression.type", codecs[k]);
            //#if >= 0.11
            settings.put("enable.idempotence", true);
            //#end
            //#if < 1.0
            settings.put("max.in.flight.requests.per.connection", 1);
            //#end
            settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
            settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
            try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (int i = k; i < values.size(); i += codecs.length) {
                    ProducerRecord<String, String> record =
                            new ProducerRecord<>(topic, i % PARTITIONS, "" + i, values.get(i));
                    //#if >= 0.11
                    record.headers().add("n", ("" + i).getBytes(StandardCharsets.UTF_8));
                    //#end
                    sent.add(producer.send(record));
                }
                for (Future<RecordMetadata> one : sent) {
                    one.get(LIMIT_S, TimeUnit.SECONDS);
                }
            }
        }
    }

    //#if >= 0.11
    /** Values as they come on standard input: value i goes to partition i modulo 4; the end awaits all answers. */
    static void stream(String topic) throws Exception {
        Map<String, Object> settings = settings();
        settings.put("acks", "all");
        settings.put("retries", Integer.MAX_VALUE);
        settings.put("enable.idempotence", true);
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                sent.add(producer.send(new ProducerRecord<>(topic, sent.size() % PARTITIONS, null, line)));
            }
            for (Future<RecordMetadata> one : sent) {
                one.get(LIMIT_S, TimeUnit.SECONDS);
            }
        }
    }
    //#end

    static KafkaConsumer<String, String> consumer(Map<String, Object> more) {
        Map<String, Object> settings = settings();
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.putAll(more);
        return new KafkaConsumer<>(settings);
    }

    static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer) {
        //#if < 2.0
        return consumer.poll(100);
        //#end
        //#if >= 2.0
        return consumer.poll(java.time.Duration.ofMillis(100));
        //#end
    }

    static void commit(KafkaConsumer<String, String> consumer) {
        try {
            consumer.commitSync();
        } catch (CommitFailedException e) {
            // The partitions went to another member in the meantime: it reads these records again.
        }
        //#if >= 2.5
        catch (org.apache.kafka.common.errors.RebalanceInProgressException e) {
            // The same, one poll earlier.
        }
        //#end
    }

    static void consume(final String topic, String group) throws Exception {
        Map<String, Object> more = new HashMap<>();
        more.put("group.id", group);
        more.put("heartbeat.interval.ms", 300);
        final boolean[] left = {false};
        Thread input = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                }
            } catch (java.io.IOException e) {
                // No more to come either.
            }
            left[0] = true;
        });
        input.setDaemon(true);
        input.start();
        final KafkaConsumer<String, String> consumer = consumer(more);
        final TreeSet<Integer> mine = new TreeSet<>();
        consumer.subscribe(Arrays.asList(topic), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                for (TopicPartition partition : partitions) {
                    mine.remove(partition.partition());
                }
                tell("assigned", mine);
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                for (TopicPartition partition : partitions) {
                    mine.add(partition.partition());
                }
                tell("assigned", mine);
            }
        });
        while (!left[0]) {
            ConsumerRecords<String, String> records = poll(consumer);
            for (ConsumerRecord<String, String> record : records) {
                StringBuilder header = new StringBuilder();
                //#if >= 0.11
                for (Header one : record.headers()) {
                    header.append(one.key()).append('=').append(new String(one.value(), StandardCharsets.UTF_8));
                }
                //#end
                tell("partition", record.partition(), "offset", record.offset(), "key", record.key(),
                        "value", record.value(), "header", header.toString());
            }
            if (!records.isEmpty()) {
                commit(consumer);
            }
        }
        commit(consumer);
        consumer.close();
    }

    /** Where each partition begins and ends, and its first record at or after a time. */
    static void offsets(String topic, long time) {
        try (KafkaConsumer<String, String> consumer = consumer(Collections.<String, Object>emptyMap())) {
            List<TopicPartition> all = new ArrayList<>();
            for (int i = 0; i < consumer.partitionsFor(topic).size(); i++) {
                all.add(new TopicPartition(topic, i));
            }
            Map<String, Long> beginning = new TreeMap<>();
            Map<String, Long> end = new TreeMap<>();
            Map<String, Long> at = new TreeMap<>();
            //#if < 0.10.1
            consumer.assign(all);
            for (TopicPartition one : all) {
                //#if < 0.10
                consumer.seekToBeginning(one);
                beginning.put("" + one.partition(), consumer.position(one));
                consumer.seekToEnd(one);
                //#end
                //#if >= 0.10
                consumer.seekToBeginning(Arrays.asList(one));
                beginning.put("" + one.partition(), consumer.position(one));
                consumer.seekToEnd(Arrays.asList(one));
                //#end
                end.put("" + one.partition(), consumer.position(one));
            }
            //#end
            //#if >= 0.10.1
            for (Map.Entry<TopicPartition, Long> one : consumer.beginningOffsets(all).entrySet()) {
                beginning.put("" + one.getKey().partition(), one.getValue());
            }
            for (Map.Entry<TopicPartition, Long> one : consumer.endOffsets(all).entrySet()) {
                end.put("" + one.getKey().partition(), one.getValue());
            }
            Map<TopicPartition, Long> times = new HashMap<>();
            for (TopicPartition one : all) {
                times.put(one, time);
            }
            consumer.offsetsForTimes(times).forEach((one, found) ->
                    at.put("" + one.partition(), found == null ? null : found.offset()));
            //#end
            tell("beginning", beginning, "end", end, "at", at);
        }
    }

    //#if >= 0.11
    static <T> T of(org.apache.kafka.common.KafkaFuture<T> future) throws Exception {
        return future.get(LIMIT_S, TimeUnit.SECONDS);
    }

    static ConfigResource named(String topic) {
        return new ConfigResource(ConfigResource.Type.TOPIC, topic);
    }

    static TopicDescription described(AdminClient admin, String topic) throws Exception {
        //#if < 3.1
        return of(admin.describeTopics(Arrays.asList(topic)).all()).get(topic);
        //#end
        //#if >= 3.1
        return of(admin.describeTopics(Arrays.asList(topic)).allTopicNames()).get(topic);
        //#end
    }

    static void create(String topic) throws Exception {
        try (AdminClient admin = AdminClient.create(settings())) {
            NewTopic wanted = new NewTopic(topic, PARTITIONS, (short) 1);
            wanted.configs(Collections.singletonMap("retention.ms", "86400000"));
            of(admin.createTopics(Arrays.asList(wanted)).all());
        }
    }

    /** Every call of that release that a cluster of one broker can answer; prints what it saw. */
    static void administer(String topic, String group) throws Exception {
        Map<String, Object> seen = new TreeMap<>();
        try (AdminClient admin = AdminClient.create(settings())) {
            ConfigResource resource = named(topic);
            int broker = of(admin.describeCluster().nodes()).iterator().next().id();
            ConfigResource itself = new ConfigResource(ConfigResource.Type.BROKER, "" + broker);
            look(seen, "brokers", () -> of(admin.describeCluster().nodes()).size());
            look(seen, "topics", () -> new TreeSet<>(of(admin.listTopics().names())));
            look(seen, "partitions", () -> described(admin, topic).partitions().size());
            look(seen, "retention", () -> config(admin, resource).get("retention.ms").value());
            look(seen, "broker configs", () -> config(admin, itself).entries().size() > 100);
            look(seen, "altered", () -> {
                //#if < 4.0
                ConfigEntry kept = new ConfigEntry("retention.ms", "86400001");
                of(admin.alterConfigs(Collections.singletonMap(resource, new Config(Arrays.asList(kept)))).all());
                //#end
                //#if >= 2.3
                Collection<AlterConfigOp> changes = Arrays.asList(new AlterConfigOp(
                        new ConfigEntry("retention.ms", "86400002"), AlterConfigOp.OpType.SET));
                of(admin.incrementalAlterConfigs(Collections.singletonMap(resource, changes)).all());
                //#end
                return config(admin, resource).get("retention.ms").value();
            });
            look(seen, "acls", () -> {
                try {
                    return of(admin.describeAcls(org.apache.kafka.common.acl.AclBindingFilter.ANY).values()).size();
                } catch (java.util.concurrent.ExecutionException e) {
                    return e.getCause().getClass().getSimpleName();
                }
            });
            //#if >= 1.0
            look(seen, "log dirs", () -> of(admin.describeLogDirs(Arrays.asList(broker))
                    //#if < 2.7
                    .all()
                    //#end
                    //#if >= 2.7
                    .allDescriptions()
                    //#end
                    ).get(broker).size());
            look(seen, "grown", () -> {
                of(admin.createPartitions(Collections.singletonMap(topic, NewPartitions.increaseTo(5))).all());
                return described(admin, topic).partitions().size();
            });
            //#end
            //#if >= 1.1
            TopicPartition first = new TopicPartition(topic, 0);
            look(seen, "deleted before", () -> of(admin.deleteRecords(Collections.singletonMap(
                    first, RecordsToDelete.beforeOffset(1))).lowWatermarks().get(first)).lowWatermark());
            //#end
            //#if >= 2.0
            look(seen, "groups", () -> {
                TreeSet<String> groups = new TreeSet<>();
                for (ConsumerGroupListing one : of(admin.listConsumerGroups().all())) {
                    groups.add(one.groupId());
                }
                return groups;
            });
            look(seen, "state", () -> {
                ConsumerGroupDescription group1 =
                        of(admin.describeConsumerGroups(Arrays.asList(group)).all()).get(group);
                //#if < 4.0
                return group1.state().toString();
                //#end
                //#if >= 4.0
                return group1.groupState().toString();
                //#end
            });
            look(seen, "committed", () -> {
                long sum = 0;
                for (OffsetAndMetadata one :
                        of(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).values()) {
                    sum += one.offset();
                }
                return sum;
            });
            //#end
            //#if >= 2.4
            look(seen, "left", () -> {
                of(admin.deleteConsumerGroupOffsets(group, Collections.singleton(first)).all());
                return of(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata()).size();
            });
            look(seen, "reassignments", () -> of(admin.listPartitionReassignments().reassignments()).size());
            look(seen, "elected", () -> of(admin.electLeaders(
                    ElectionType.PREFERRED, Collections.singleton(first)).partitions()).size());
            //#end
            //#if >= 2.5
            look(seen, "reset", () -> {
                Map<TopicPartition, OffsetAndMetadata> to =
                        Collections.singletonMap(first, new OffsetAndMetadata(7));
                of(admin.alterConsumerGroupOffsets(group, to).all());
                return of(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata())
                        .get(first).offset();
            });
            look(seen, "ends", () -> of(admin.listOffsets(
                    Collections.singletonMap(first, OffsetSpec.latest())).all()).get(first).offset());
            //#end
            //#if >= 2.6
            look(seen, "quotas", () -> of(admin.describeClientQuotas(ClientQuotaFilter.all()).entities()).size());
            //#end
            //#if >= 2.7
            look(seen, "scram", () -> of(admin.describeUserScramCredentials().all()).size());
            look(seen, "features", () -> of(admin.describeFeatures().featureMetadata()) != null);
            //#end
            //#if >= 2.8
            look(seen, "producers", () -> of(admin.describeProducers(Collections.singleton(first)).all())
                    .get(first).activeProducers().size() > 0);
            //#end
            //#if >= 3.0
            look(seen, "transactions", () -> of(admin.listTransactions().all()).size());
            //#end
            //#if >= 4.1
            look(seen, "all groups", () -> of(admin.listGroups().all()).size());
            look(seen, "topic configs", () -> of(admin.listConfigResources(
                    Collections.singleton(ConfigResource.Type.TOPIC), new ListConfigResourcesOptions()).all())
                    .size());
            //#end
        }
        tell(seen);
    }

    static Config config(AdminClient admin, ConfigResource resource) throws Exception {
        return of(admin.describeConfigs(Arrays.asList(resource)).all()).get(resource);
    }

    interface Sight {
        Object get() throws Exception;
    }

    /** An error is seen as well: what else there is to see is still looked at. */
    static void look(Map<String, Object> seen, String name, Sight sight) {
        try {
            seen.put(name, sight.get());
        } catch (Exception e) {
            seen.put(name, e.toString());
        }
    }

    static void delete(String topic, String group) throws Exception {
        try (AdminClient admin = AdminClient.create(settings())) {
            //#if >= 2.0
            of(admin.deleteConsumerGroups(Arrays.asList(group)).all());
            //#end
            of(admin.deleteTopics(Arrays.asList(topic)).all());
            tell(new TreeSet<>(of(admin.listTopics().names())));
        }
    }
    //#end

    /** One line of JSON: of names and values in turn, or of one value. */
    static void tell(Object... parts) {
        Object whole = parts[0];
        if (parts.length > 1) {
            Map<String, Object> named = new TreeMap<>();
            for (int i = 0; i < parts.length; i += 2) {
                named.put((String) parts[i], parts[i + 1]);
            }
            whole = named;
        }
        StringBuilder line = new StringBuilder();
        write(whole, line);
        synchronized (System.out) {
            System.out.println(line);
            System.out.flush();
        }
    }

    static void write(Object value, StringBuilder to) {
        if (value instanceof Map) {
            String comma = "{";
            for (Map.Entry<?, ?> one : ((Map<?, ?>) value).entrySet()) {
                to.append(comma);
                write(one.getKey(), to);
                to.append(':');
                write(one.getValue(), to);
                comma = ",";
            }
            to.append(comma.equals("{") ? "{}" : "}");
        } else if (value instanceof Collection) {
            String comma = "[";
            for (Object one : (Collection<?>) value) {
                to.append(comma);
                write(one, to);
                comma = ",";
            }
            to.append(comma.equals("[") ? "[]" : "]");
        } else if (value instanceof String) {
            to.append('"').append(((String) value).replace("\\", "\\\\").replace("\"", "\\\"")).append('"');
        } else {
            to.append(value);
        }
    }
}
