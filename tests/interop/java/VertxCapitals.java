// The Kafka client of Vert.x passes on from `in` to `out`, in capitals, until SIGTERM.
//
//     VertxCapitals BOOTSTRAP

import io.vertx.core.Future;
import io.vertx.core.Vertx;
import io.vertx.kafka.client.common.TopicPartition;
import io.vertx.kafka.client.consumer.KafkaConsumer;
import io.vertx.kafka.client.consumer.KafkaConsumerRecords;
import io.vertx.kafka.client.consumer.OffsetAndMetadata;
import io.vertx.kafka.client.producer.KafkaProducer;
import io.vertx.kafka.client.producer.KafkaProducerRecord;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.errors.RetriableException;

public class VertxCapitals {
    private static final long AGAIN_AFTER_MS = 100;

    private final Vertx vertx = Vertx.vertx();
    private final KafkaConsumer<String, String> in;
    private final KafkaProducer<String, String> out;
    // Of all batches so far: each is sent and committed after the one before it.
    private volatile Future<?> passedOn = Future.succeededFuture();

    VertxCapitals(String bootstrap) {
        String strings = "org.apache.kafka.common.serialization.String";
        in = KafkaConsumer.create(vertx, Map.of(
                "bootstrap.servers", bootstrap,
                "group.id", "capitals",
                "auto.offset.reset", "earliest",
                "enable.auto.commit", "false",
                "key.deserializer", strings + "Deserializer",
                "value.deserializer", strings + "Deserializer"));
        out = KafkaProducer.create(vertx, Map.of(
                "bootstrap.servers", bootstrap,
                "acks", "all",
                "key.serializer", strings + "Serializer",
                "value.serializer", strings + "Serializer"));
    }

    private void take(KafkaConsumerRecords<String, String> records) {
        passedOn = passedOn.compose(before -> passOn(records)).onFailure(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
    }

    private Future<?> passOn(KafkaConsumerRecords<String, String> records) {
        List<Future<?>> sent = new ArrayList<>();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (int i = 0; i < records.size(); i++) {
            var record = records.recordAt(i);
            sent.add(out.send(KafkaProducerRecord.create("out", record.value().toUpperCase())));
            offsets.put(
                    new TopicPartition(record.topic(), record.partition()),
                    new OffsetAndMetadata(record.offset() + 1, ""));
        }
        return Future.all(sent).compose(all -> commit(offsets));
    }

    // The client asks once: a coordinator that is not there is for the program to wait for.
    private Future<?> commit(Map<TopicPartition, OffsetAndMetadata> offsets) {
        return in.commit(offsets).mapEmpty().recover(error -> {
            if (error instanceof RetriableException) {
                return vertx.timer(AGAIN_AFTER_MS).compose(over -> commit(offsets).mapEmpty());
            }
            // The group has given its partitions to others, who read this again.
            return Future.succeededFuture();
        });
    }

    private void end() {
        try {
            passedOn.eventually(in::close)
                    .eventually(out::close)
                    .toCompletionStage()
                    .toCompletableFuture()
                    .get(1, TimeUnit.MINUTES);
        } catch (Exception error) {
            error.printStackTrace();
        }
    }

    private void start() {
        Runtime.getRuntime().addShutdownHook(new Thread(this::end));
        in.pollTimeout(Duration.ofMillis(100));
        in.batchHandler(this::take);
        // It polls for this one.
        in.handler(record -> {});
        in.subscribe("in");
    }

    public static void main(String[] words) {
        new VertxCapitals(words[0]).start();
    }
}
