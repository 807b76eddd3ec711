// Flink's exactly-once sink of Kafka: a copy from topic to topic, slow enough to be killed within.
//
//     FlinkTransactions copy BOOTSTRAP FROM TO CHECKPOINTS RESUME FAIL_AT
//     FlinkTransactions read BOOTSTRAP TOPIC                prints what is committed, a JSON string a line
//
// CHECKPOINTS and RESUME are URIs: a folder, and the checkpoint in such a folder to go on from, or "-". The job
// fails once at its FAIL_ATth record (never at 0), and starts again from its last checkpoint by itself. It does not
// end: a bounded source that goes on from a checkpoint never learns that there are no more splits.

import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.KafkaSinkBuilder;
//#if >= 2.0
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
//#end
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.KafkaSourceBuilder;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.CloseableIterator;

public class FlinkTransactions {
    private static final AtomicInteger SEEN = new AtomicInteger();

    /** Takes its time, and fails once. */
    static class Slowly implements MapFunction<String, String> {
        private final int failAt;

        Slowly(int failAt) {
            this.failAt = failAt;
        }

        @Override
        public String map(String value) throws Exception {
            Thread.sleep(20);
            if (SEEN.incrementAndGet() == failAt) {
                throw new IllegalStateException("as asked for");
            }
            return value;
        }
    }

    private static DataStream<String> committed(
            StreamExecutionEnvironment environment, String bootstrap, String topic, boolean toTheEnd) {
        KafkaSourceBuilder<String> source = KafkaSource.<String>builder()
                .setBootstrapServers(bootstrap)
                .setTopics(topic)
                .setProperty("isolation.level", "read_committed")
                .setStartingOffsets(OffsetsInitializer.earliest())
                .setValueOnlyDeserializer(new SimpleStringSchema());
        if (toTheEnd) {
            source.setBounded(OffsetsInitializer.latest());
        }
        return environment.fromSource(source.build(), WatermarkStrategy.noWatermarks(), "source").uid("source");
    }

    public static void main(String[] words) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("parallelism.default", "2");
        if (words[0].equals("read")) {
            DataStream<String> read = committed(
                    StreamExecutionEnvironment.getExecutionEnvironment(settings), words[1], words[2], true);
            try (CloseableIterator<String> values = read.executeAndCollect()) {
                values.forEachRemaining(value -> System.out.println("\"" + value + "\""));
            }
            return;
        }
        settings.setString("execution.checkpointing.interval", "300ms");
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        settings.setString("execution.checkpointing.dir", words[4]);
        settings.setString("state.checkpoints.dir", words[4]);
        if (!words[5].equals("-")) {
            settings.setString("execution.state-recovery.path", words[5]);
        }
        settings.setString("restart-strategy.type", "fixed-delay");
        settings.setString("restart-strategy.fixed-delay.attempts", "100");
        settings.setString("restart-strategy.fixed-delay.delay", "100ms");
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        KafkaSinkBuilder<String> sink = KafkaSink.<String>builder()
                .setBootstrapServers(words[1])
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix("flink-" + words[3])
                // Its own default is longer than the longest that brokers allow.
                .setProperty("transaction.timeout.ms", "600000")
                .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                        .setTopic(words[3])
                        .setValueSerializationSchema(new SimpleStringSchema())
                        .build());
        //#if >= 2.0
        // Finds what was left open by ListTransactions; before there was only trying the names.
        sink.setTransactionNamingStrategy(TransactionNamingStrategy.POOLING);
        //#end
        committed(environment, words[1], words[2], false)
                .map(new Slowly(Integer.parseInt(words[6]))).uid("slowly")
                .sinkTo(sink.build()).uid("sink");
        environment.execute("copy");
    }
}
