// The clients of Kafka 0.8.2 in the roles that `go/role` describes: both its producers, and SimpleConsumer, which
// reads every partition and keeps its offsets where VERSION says.
//
//     produce BOOTSTRAP old|new         TOPIC CODEC,…   the producer in Scala, or the one in Java
//     consume BOOTSTRAP zookeeper|kafka TOPIC GROUP     offsets by OffsetCommit 0, or 1
//     offsets BOOTSTRAP -               TOPIC TIME

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import kafka.api.ConsumerMetadataRequest;
import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.common.ErrorMapping;
import kafka.common.OffsetAndMetadata;
import kafka.common.OffsetMetadataAndError;
import kafka.common.TopicAndPartition;
import kafka.javaapi.ConsumerMetadataResponse;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.OffsetCommitRequest;
import kafka.javaapi.OffsetCommitResponse;
import kafka.javaapi.OffsetFetchRequest;
import kafka.javaapi.OffsetRequest;
import kafka.javaapi.PartitionMetadata;
import kafka.javaapi.TopicMetadataRequest;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.javaapi.producer.Producer;
import kafka.message.MessageAndOffset;
import kafka.network.BlockingChannel;
import kafka.producer.KeyedMessage;
import kafka.producer.ProducerConfig;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

public class OldClients {
    static final int PARTITIONS = 4;
    static final String CLIENT = "interop";

    public static void main(String[] words) throws Exception {
        String topic = words[3];
        String last = words[4];
        switch (words[0]) {
            case "produce":
                List<String> values = lines();
                String[] codecs = last.split(",");
                for (int k = 0; k < codecs.length; k++) {
                    if (words[2].equals("old")) {
                        produceOld(words[1], topic, codecs, k, values);
                    } else {
                        produceNew(words[1], topic, codecs, k, values);
                    }
                }
                break;
            case "consume": consume(words[1], topic, last, words[2].equals("zookeeper") ? 0 : 1); break;
            case "offsets": offsets(words[1], topic, Long.parseLong(last)); break;
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    static List<String> lines() throws Exception {
        List<String> values = new ArrayList<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            values.add(line);
        }
        return values;
    }

    /** The values whose turn it is with codec k: value i goes to partition i modulo 4, its key is i. */
    static void produceNew(String bootstrap, String topic, String[] codecs, int k, List<String> values)
            throws Exception {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", CLIENT);
        settings.put("acks", "all");
        settings.put("retries", 50);
        settings.put("linger.ms", 20L);
        settings.put("compression.type", codecs[k]);
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        KafkaProducer<String, String> producer = new KafkaProducer<>(settings);
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int i = k; i < values.size(); i += codecs.length) {
            sent.add(producer.send(new ProducerRecord<>(topic, i % PARTITIONS, "" + i, values.get(i))));
        }
        for (Future<RecordMetadata> one : sent) {
            one.get(60, TimeUnit.SECONDS);
        }
        producer.close();
    }

    /** It has no say in the partition but by its partitioner, which here takes the key's number. */
    public static class ByNumber implements kafka.producer.Partitioner {
        public ByNumber(kafka.utils.VerifiableProperties unused) {}

        @Override
        public int partition(Object key, int partitions) {
            return Integer.parseInt((String) key) % partitions;
        }
    }

    static void produceOld(String bootstrap, String topic, String[] codecs, int k, List<String> values) {
        Properties settings = new Properties();
        settings.put("metadata.broker.list", bootstrap);
        settings.put("client.id", CLIENT);
        settings.put("request.required.acks", "-1");
        settings.put("compression.codec", codecs[k]);
        settings.put("serializer.class", "kafka.serializer.StringEncoder");
        settings.put("partitioner.class", ByNumber.class.getName());
        Producer<String, String> producer = new Producer<>(new ProducerConfig(settings));
        List<KeyedMessage<String, String>> messages = new ArrayList<>();
        for (int i = k; i < values.size(); i += codecs.length) {
            messages.add(new KeyedMessage<>(topic, "" + i, values.get(i)));
        }
        producer.send(messages);
        producer.close();
    }

    static String host(String bootstrap) {
        return bootstrap.split(":")[0];
    }

    static int port(String bootstrap) {
        return Integer.parseInt(bootstrap.split(":")[1]);
    }

    static SimpleConsumer connect(String host, int port) {
        return new SimpleConsumer(host, port, 10_000, 64 * 1024, CLIENT);
    }

    /** A consumer of the broker that leads a partition. */
    static SimpleConsumer leader(String bootstrap, String topic, int partition) {
        SimpleConsumer any = connect(host(bootstrap), port(bootstrap));
        try {
            for (PartitionMetadata one : any.send(new TopicMetadataRequest(Collections.singletonList(topic)))
                    .topicsMetadata().get(0).partitionsMetadata()) {
                if (one.partitionId() == partition && one.leader() != null) {
                    return connect(one.leader().host(), one.leader().port());
                }
            }
            throw new IllegalStateException("no leader of " + topic + "-" + partition);
        } finally {
            any.close();
        }
    }

    static long[] before(SimpleConsumer consumer, TopicAndPartition one, long time, int count) {
        OffsetRequest request = new OffsetRequest(
                Collections.singletonMap(one, new PartitionOffsetRequestInfo(time, count)), (short) 0, CLIENT);
        kafka.javaapi.OffsetResponse response = consumer.getOffsetsBefore(request);
        if (response.hasError()) {
            throw new IllegalStateException("offsets: error " + response.errorCode(one.topic(), one.partition()));
        }
        return response.offsets(one.topic(), one.partition());
    }

    static BlockingChannel coordinator(String bootstrap, String group) {
        BlockingChannel any = channel(host(bootstrap), port(bootstrap));
        try {
            any.send(new ConsumerMetadataRequest(group, ConsumerMetadataRequest.CurrentVersion(), 0, CLIENT));
            ConsumerMetadataResponse found = ConsumerMetadataResponse.readFrom(any.receive().buffer());
            if (found.errorCode() != ErrorMapping.NoError()) {
                throw new IllegalStateException("coordinator: error " + found.errorCode());
            }
            return channel(found.coordinator().host(), found.coordinator().port());
        } finally {
            any.disconnect();
        }
    }

    static BlockingChannel channel(String host, int port) {
        BlockingChannel channel = new BlockingChannel(host, port,
                BlockingChannel.UseDefaultBufferSize(), BlockingChannel.UseDefaultBufferSize(), 10_000);
        channel.connect();
        return channel;
    }

    static Map<TopicAndPartition, OffsetMetadataAndError> committed(
            String bootstrap, String group, List<TopicAndPartition> all, int version) {
        BlockingChannel channel = coordinator(bootstrap, group);
        try {
            channel.send(new OffsetFetchRequest(group, all, (short) version, 1, CLIENT).underlying());
            return kafka.javaapi.OffsetFetchResponse.readFrom(channel.receive().buffer()).offsets();
        } finally {
            channel.disconnect();
        }
    }

    static void commit(String bootstrap, String group, Map<TopicAndPartition, Long> next, int version) {
        Map<TopicAndPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (Map.Entry<TopicAndPartition, Long> one : next.entrySet()) {
            offsets.put(one.getKey(), new OffsetAndMetadata(one.getValue(), "by " + CLIENT, -1L));
        }
        BlockingChannel channel = coordinator(bootstrap, group);
        try {
            channel.send(new OffsetCommitRequest(group, offsets, 2, CLIENT, (short) version).underlying());
            OffsetCommitResponse response = OffsetCommitResponse.readFrom(channel.receive().buffer());
            if (response.hasError()) {
                throw new IllegalStateException("commit: errors " + response.errors());
            }
        } finally {
            channel.disconnect();
        }
    }

    static String text(ByteBuffer bytes) {
        return bytes == null ? "" : StandardCharsets.UTF_8.decode(bytes).toString();
    }

    static void consume(String bootstrap, String topic, String group, int version) throws Exception {
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
        List<TopicAndPartition> all = new ArrayList<>();
        for (int i = 0; i < PARTITIONS; i++) {
            all.add(new TopicAndPartition(topic, i));
        }
        Map<TopicAndPartition, OffsetMetadataAndError> found = committed(bootstrap, group, all, version);
        Map<TopicAndPartition, Long> next = new HashMap<>();
        for (TopicAndPartition one : all) {
            next.put(one, found.get(one).offset());
        }
        System.out.println("{\"assigned\":[0,1,2,3]}");
        Map<TopicAndPartition, SimpleConsumer> leaders = new HashMap<>();
        while (!left[0]) {
            for (TopicAndPartition one : all) {
                try {
                    if (!leaders.containsKey(one)) {
                        leaders.put(one, leader(bootstrap, topic, one.partition()));
                    }
                    next.put(one, read(leaders.get(one), one, next.get(one)));
                } catch (Exception e) {
                    // The broker is away: its partitions are looked for again.
                    System.err.println(e);
                    SimpleConsumer lost = leaders.remove(one);
                    if (lost != null) {
                        lost.close();
                    }
                    Thread.sleep(100);
                }
            }
        }
        commit(bootstrap, group, next, version);
        for (SimpleConsumer leader : leaders.values()) {
            leader.close();
        }
    }

    /** Tells the records from an offset on, -1: the earliest; returns the one after them. */
    static long read(SimpleConsumer consumer, TopicAndPartition one, long from) {
        if (from < 0) {
            from = before(consumer, one, kafka.api.OffsetRequest.EarliestTime(), 1)[0];
        }
        FetchResponse response = consumer.fetch(new FetchRequestBuilder().clientId(CLIENT).maxWait(50).minBytes(1)
                .addFetch(one.topic(), one.partition(), from, 1 << 20).build());
        short error = response.errorCode(one.topic(), one.partition());
        if (error == ErrorMapping.OffsetOutOfRangeCode()) {
            return -1;
        }
        if (error != ErrorMapping.NoError()) {
            throw new IllegalStateException("fetch: error " + error);
        }
        for (MessageAndOffset message : response.messageSet(one.topic(), one.partition())) {
            if (message.offset() < from) {
                continue; // in a compressed set, in front of what was asked for
            }
            System.out.println("{\"partition\":" + one.partition() + ",\"offset\":" + message.offset()
                    + ",\"key\":\"" + text(message.message().key()) + "\",\"value\":\""
                    + text(message.message().payload()) + "\",\"header\":\"\"}");
            from = message.nextOffset();
        }
        System.out.flush();
        return from;
    }

    static void offsets(String bootstrap, String topic, long time) {
        long[] times = {kafka.api.OffsetRequest.EarliestTime(), kafka.api.OffsetRequest.LatestTime(), time};
        String[] names = {"beginning", "end", "at"};
        StringBuilder line = new StringBuilder("{");
        for (int i = 0; i < names.length; i++) {
            line.append(i > 0 ? "," : "").append('"').append(names[i]).append("\":{");
            for (int partition = 0; partition < PARTITIONS; partition++) {
                SimpleConsumer leader = leader(bootstrap, topic, partition);
                long[] offsets = before(leader, new TopicAndPartition(topic, partition), times[i], 10);
                line.append(partition > 0 ? "," : "").append('"').append(partition).append("\":")
                        .append(Arrays.toString(offsets));
                leader.close();
            }
            line.append('}');
        }
        System.out.println(line.append('}'));
    }
}
