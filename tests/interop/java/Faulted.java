// Kafka's Java clients while faults are set: the words of python/faulted.py.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

public class Faulted {
    static final int AT_ONCE = 5;
    static final int ALL = 10;
    static final int READ_MS = 10_000;
    static final int DELIVERY_MS = 6_000;
    static final Duration CLOSE = Duration.ofSeconds(2);
    static final BufferedReader INPUT =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

    /** What is told at the end of a piece of work; see python/faulted.py. */
    static class Answer {
        String failed = "";
        final List<Integer> acknowledged = new ArrayList<>();
        final List<Integer> read = new ArrayList<>();
        final List<String> told = new ArrayList<>();

        void note(Throwable error) {
            if (!told.contains(name(error))) {
                told.add(name(error));
            }
        }

        void tell() {
            List<String> quoted = new ArrayList<>();
            for (String one : told) {
                quoted.add('"' + one + '"');
            }
            line("{\"failed\": \"" + failed + "\", \"acknowledged\": " + acknowledged + ", \"read\": " + read
                    + ", \"told\": " + quoted + "}");
        }
    }

    static void line(String text) {
        System.out.println(text);
        System.out.flush();
    }

    static String half() throws Exception {
        line("{\"half\": true}");
        return INPUT.readLine().trim();
    }

    static String name(Throwable error) {
        return error.getClass().getSimpleName();
    }

    static Map<String, Object> settings(String bootstrap) {
        Map<String, Object> settings = new HashMap<>();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("client.id", "faulted");
        settings.put("request.timeout.ms", 1_500);
        return settings;
    }

    static KafkaProducer<String, String> producer(String bootstrap, boolean isIdempotent, String id) {
        Map<String, Object> settings = settings(bootstrap);
        settings.put("enable.idempotence", isIdempotent);
        settings.put("acks", "all");
        settings.put("batch.size", 1024);
        settings.put("delivery.timeout.ms", DELIVERY_MS);
        settings.put("max.block.ms", DELIVERY_MS);
        if (id != null) {
            settings.put("transactional.id", id);
        }
        settings.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        return new KafkaProducer<>(settings);
    }

    static Future<RecordMetadata> send(KafkaProducer<String, String> producer, String topic, int number) {
        return producer.send(new ProducerRecord<>(topic, 0, null, String.format("%-700d", number)));
    }

    static void produce(Answer answer, String bootstrap, String topic, String how) throws Exception {
        KafkaProducer<String, String> producer = producer(bootstrap, how.equals("idempotent"), null);
        try {
            int atOnce = 1;
            for (int begin = 0; begin < ALL; begin += atOnce) {
                if (begin == AT_ONCE) {
                    atOnce = half().equals("together") ? AT_ONCE : 1;
                }
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (int number = begin; number < begin + atOnce; number++) {
                    sent.add(send(producer, topic, number));
                }
                for (int i = 0; i < atOnce; i++) {
                    sent.get(i).get();
                    answer.acknowledged.add(begin + i);
                }
            }
        } finally {
            producer.close(CLOSE);
        }
    }

    static void transact(Answer answer, String bootstrap, String topic, String id) throws Exception {
        KafkaProducer<String, String> producer = producer(bootstrap, true, id);
        try {
            producer.initTransactions();
            for (int begin = 0; begin < ALL; begin += AT_ONCE) {
                if (begin == AT_ONCE) {
                    half();
                }
                producer.beginTransaction();
                for (int number = begin; number < begin + AT_ONCE; number++) {
                    send(producer, topic, number).get();
                }
                producer.commitTransaction();
                for (int number = begin; number < begin + AT_ONCE; number++) {
                    answer.acknowledged.add(number);
                }
            }
        } finally {
            producer.close(CLOSE);
        }
    }

    /** Read until so many are there and committed; errors are noted, and the next poll follows. */
    static boolean read(KafkaConsumer<String, String> consumer, TopicPartition at, Answer answer, int until) {
        boolean isCommitted = true;
        long deadline = System.nanoTime() + READ_MS * 1_000_000L;
        while (System.nanoTime() < deadline) {
            try {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
                for (ConsumerRecord<String, String> record : records) {
                    answer.read.add(Integer.parseInt(record.value().trim()));
                    isCommitted = false;
                }
                if (!isCommitted) {
                    consumer.commitSync();
                    // A commit amid a rebalance may be one of nothing.
                    OffsetAndMetadata committed = consumer.committed(Collections.singleton(at)).get(at);
                    isCommitted = committed != null && committed.offset() > Collections.max(answer.read);
                }
            } catch (RuntimeException error) {
                answer.note(error);
            }
            TreeSet<Integer> distinct = new TreeSet<>(answer.read);
            if (isCommitted && distinct.size() >= until) {
                answer.acknowledged.clear();
                answer.acknowledged.addAll(distinct);
                return true;
            }
        }
        return false;
    }

    static void consume(Answer answer, String bootstrap, String topic, String group) throws Exception {
        Map<String, Object> settings = settings(bootstrap);
        settings.put("group.id", group);
        settings.put("enable.auto.commit", false);
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", 6_000);
        settings.put("heartbeat.interval.ms", 300);
        settings.put("default.api.timeout.ms", DELIVERY_MS);
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings);
        try {
            consumer.subscribe(Arrays.asList(topic));
            TopicPartition at = new TopicPartition(topic, 0);
            if (read(consumer, at, answer, AT_ONCE)) {
                half();
                read(consumer, at, answer, ALL);
            }
        } finally {
            consumer.close(org.apache.kafka.clients.consumer.CloseOptions.timeout(CLOSE));
        }
    }

    static void create(String bootstrap, String topic) throws Exception {
        Map<String, Object> settings = settings(bootstrap);
        settings.put("default.api.timeout.ms", DELIVERY_MS);
        Admin admin = Admin.create(settings);
        try {
            admin.createTopics(Arrays.asList(new NewTopic(topic, 1, (short) 1))).all().get();
        } finally {
            admin.close(CLOSE);
        }
    }

    public static void main(String[] none) throws Exception {
        for (String text = INPUT.readLine(); text != null; text = INPUT.readLine()) {
            String[] words = text.trim().split(" ");
            Answer answer = new Answer();
            try {
                switch (words[0]) {
                    case "produce": produce(answer, words[1], words[2], words[3]); break;
                    case "consume": consume(answer, words[1], words[2], words[3]); break;
                    case "transact": transact(answer, words[1], words[2], words[3]); break;
                    case "create": create(words[1], words[2]); break;
                    default: throw new IllegalArgumentException(text);
                }
            } catch (Exception error) {
                Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
                answer.failed = name(cause);
                System.err.println(text + ": " + cause);
            }
            answer.tell();
        }
    }
}
