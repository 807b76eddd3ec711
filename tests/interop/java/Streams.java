// Counts words with Kafka Streams, exactly once, and tells its state and its tasks whenever they change.
//
//     Streams BOOTSTRAP STATE_DIR [CLEAN]
//
// Each word of topic `words` is counted, and goes with its kind (table `kinds`: word → kind) and its count to topic
// `counted`. It takes its time, so as to be killed within. CLEAN: it forgets its state first.

import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueStore;

public class Streams {
    private static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    public static void main(String[] words) {
        Properties settings = new Properties();
        settings.put("application.id", "counting");
        settings.put("bootstrap.servers", words[0]);
        settings.put("state.dir", words[1]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("num.standby.replicas", 1);
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.StringSerde.class);
        // Every count goes on, not only the last one of a commit.
        settings.put("statestore.cache.max.bytes", 0);
        settings.put("consumer.auto.offset.reset", "earliest");
        settings.put("main.consumer.session.timeout.ms", 6000);
        settings.put("main.consumer.heartbeat.interval.ms", 1000);

        StreamsBuilder builder = new StreamsBuilder();
        KTable<String, String> kinds = builder.table("kinds");
        builder.<String, String>stream("words")
                .peek((none, word) -> pause(2))
                .groupBy((none, word) -> word)
                .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts"))
                .toStream()
                .join(kinds, (count, kind) -> kind + " " + count)
                .to("counted");
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        if (words.length > 2) {
            streams.cleanUp();
        }
        streams.start();
        for (String told = ""; ; pause(100)) {
            int active = 0;
            int standby = 0;
            for (ThreadMetadata thread : streams.metadataForLocalThreads()) {
                active += thread.activeTasks().size();
                standby += thread.standbyTasks().size();
            }
            String now = String.format(
                    "{\"state\": \"%s\", \"active\": %d, \"standby\": %d}", streams.state(), active, standby);
            if (!now.equals(told)) {
                told = now;
                System.out.println(now);
            }
        }
    }
}
