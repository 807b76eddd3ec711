// Flink's Kafka connector in a Flink of its own: copies what a group has not read yet from topic to topic.
//
//     FlinkJob copy  BOOTSTRAP VERSION FROM TO GROUP    from where the group has committed, else the earliest
//     FlinkJob since BOOTSTRAP VERSION FROM TO TIME     from the first record at or after a time (ms since 1970)

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.OffsetResetStrategy;

public class FlinkJob {
    /** `key=value` of each record. */
    static class Pair implements KafkaRecordDeserializationSchema<String> {
        @Override
        public void deserialize(ConsumerRecord<byte[], byte[]> record, Collector<String> out) {
            out.collect(new String(record.key()) + "=" + new String(record.value()));
        }

        @Override
        public TypeInformation<String> getProducedType() {
            return Types.STRING;
        }
    }

    public static void main(String[] words) throws Exception {
        boolean since = words[0].equals("since");
        String last = words[words.length - 1];
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.setParallelism(2);
        environment.enableCheckpointing(200);
        KafkaSource<String> source = KafkaSource.<String>builder()
                .setBootstrapServers(words[1])
                .setTopics(words[3])
                .setGroupId(since ? "since" : last)
                .setStartingOffsets(since
                        ? OffsetsInitializer.timestamp(Long.parseLong(last))
                        : OffsetsInitializer.committedOffsets(OffsetResetStrategy.EARLIEST))
                .setBounded(OffsetsInitializer.latest())
                .setDeserializer(new Pair())
                .build();
        KafkaSink<String> sink = KafkaSink.<String>builder()
                .setBootstrapServers(words[1])
                .setDeliveryGuarantee(DeliveryGuarantee.AT_LEAST_ONCE)
                .setProperty("compression.type", "lz4")
                .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                        .setTopic(words[4])
                        .setValueSerializationSchema(new SimpleStringSchema())
                        .build())
                .build();
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "source").sinkTo(sink);
        environment.execute("copy");
    }
}
