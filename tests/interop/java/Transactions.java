// A transactional application on Kafka's Java clients since 0.11: what it commits, aborts, passes on and loses
// to its successor. Prints one line of JSON. `Transactions BOOTSTRAP` on an empty broker.
//
// One source for every release; see Clients.java.

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
//#if >= 2.0
import java.time.Duration;
//#end

public class Transactions {
    static String bootstrap;
    static final long LIMIT_MS = 40_000;

    public static void main(String[] words) throws Exception {
        bootstrap = words[0];
        Properties admin = new Properties();
        admin.put("bootstrap.servers", bootstrap);
        try (AdminClient client = AdminClient.create(admin)) {
            client.createTopics(Arrays.asList(
                new NewTopic("in", 2, (short) 1), new NewTopic("out", 1, (short) 1))).all().get(30, TimeUnit.SECONDS);
        }
        Map<String, Object> seen = new TreeMap<>();
        try (KafkaProducer<String, String> producer = producer("java")) {
            producer.initTransactions();
            for (int n = 0; n < 6; n++) {
                producer.beginTransaction();
                for (int i = 0; i < 10; i++)
                    producer.send(new ProducerRecord<>("in", i % 2, "k", n + "-" + i));
                if (n % 3 == 2) producer.abortTransaction(); else producer.commitTransaction();
            }
            // A transaction that nothing was written in.
            producer.beginTransaction();
            producer.commitTransaction();
            producer.beginTransaction();
            producer.abortTransaction();
            seen.put("passed on", passOn(producer));
            producer.beginTransaction();
            producer.send(new ProducerRecord<>("out", 0, "k", "zombie")).get(30, TimeUnit.SECONDS);
            try (KafkaProducer<String, String> successor = producer("java")) {
                successor.initTransactions();
                try {
                    producer.commitTransaction();
                    seen.put("fenced", "\"no\"");
                } catch (ProducerFencedException e) {
                    seen.put("fenced", "\"ProducerFencedException\"");
                } catch (KafkaException e) {
                    seen.put("fenced", "\"" + e.getClass().getSimpleName() + "\"");
                }
                successor.beginTransaction();
                successor.send(new ProducerRecord<>("out", 0, "k", "last"));
                successor.commitTransaction();
            }
        }
        try (KafkaConsumer<String, String> reader = consumer("read_committed", "other")) {
            TopicPartition out = new TopicPartition("out", 0);
            seen.put("out", quoted(read(reader, Collections.singletonList(out))));
        }
        try (KafkaConsumer<String, String> reader = consumer("read_uncommitted", "other")) {
            TopicPartition out = new TopicPartition("out", 0);
            seen.put("all of out", read(reader, Collections.singletonList(out)).size());
        }
        List<String> fields = new ArrayList<>();
        seen.forEach((name, value) -> fields.add("\"" + name + "\": " + value));
        System.out.println("{" + String.join(", ", fields) + "}");
    }

    static KafkaProducer<String, String> producer(String transactionalId) {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("transactional.id", transactionalId);
        config.put("acks", "all");
        config.put("retries", "10");
        config.put("key.serializer", StringSerializer.class.getName());
        config.put("value.serializer", StringSerializer.class.getName());
        return new KafkaProducer<>(config);
    }

    static KafkaConsumer<String, String> consumer(String isolation, String group) {
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("group.id", group);
        config.put("isolation.level", isolation);
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        config.put("key.deserializer", StringDeserializer.class.getName());
        config.put("value.deserializer", StringDeserializer.class.getName());
        return new KafkaConsumer<>(config);
    }

    static ConsumerRecords<String, String> poll(KafkaConsumer<String, String> consumer) {
        //#if >= 2.0
        return consumer.poll(Duration.ofMillis(200));
        //#end
        //#if < 2.0
        return consumer.poll(200);
        //#end
    }

    /** Read from the beginning to what is the end now. */
    static List<String> read(KafkaConsumer<String, String> consumer, List<TopicPartition> partitions) {
        consumer.assign(partitions);
        consumer.seekToBeginning(partitions);
        Map<TopicPartition, Long> ends = consumer.endOffsets(partitions);
        List<String> found = new ArrayList<>();
        long until = System.currentTimeMillis() + LIMIT_MS;
        while (partitions.stream().anyMatch(p -> consumer.position(p) < ends.get(p))) {
            if (System.currentTimeMillis() > until) throw new IllegalStateException("not read in time: " + found);
            for (ConsumerRecord<String, String> record : poll(consumer)) found.add(record.value());
        }
        return found;
    }

    /** What is committed in `in` goes to `out`, each batch and its offsets in one transaction. */
    static String passOn(KafkaProducer<String, String> producer) throws Exception {
        long until = System.currentTimeMillis() + LIMIT_MS;
        int count = 0;
        int aborted = 0;
        try (KafkaConsumer<String, String> consumer = consumer("read_committed", "passing")) {
            consumer.subscribe(Collections.singletonList("in"));
            while (count < 40) {
                if (System.currentTimeMillis() > until) throw new IllegalStateException("read " + count);
                ConsumerRecords<String, String> records = poll(consumer);
                if (records.isEmpty()) continue;
                // The first time it goes wrong, and the records are read again.
                boolean abort = aborted++ == 0;
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                producer.beginTransaction();
                for (ConsumerRecord<String, String> record : records)
                    producer.send(new ProducerRecord<>("out", 0, "k", (abort ? "not " : "") + record.value()));
                for (TopicPartition p : records.partitions()) offsets.put(p, new OffsetAndMetadata(consumer.position(p)));
                //#if >= 2.5
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                //#end
                //#if < 2.5
                producer.sendOffsetsToTransaction(offsets, "passing");
                //#end
                if (abort) {
                    producer.abortTransaction();
                    consumer.seekToBeginning(records.partitions());
                } else {
                    producer.commitTransaction();
                    count += records.count();
                }
            }
            long committed = 0;
            for (int p = 0; p < 2; p++) {
                TopicPartition in = new TopicPartition("in", p);
                //#if >= 2.4
                committed += consumer.committed(Collections.singleton(in)).get(in).offset();
                //#end
                //#if < 2.4
                committed += consumer.committed(in).offset();
                //#end
            }
            return "{\"records\": " + count + ", \"committed\": " + committed + "}";
        }
    }

    static String quoted(List<String> values) {
        List<String> quoted = new ArrayList<>();
        for (String value : values) quoted.add("\"" + value + "\"");
        return "[" + String.join(", ", quoted) + "]";
    }
}
