import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Proxy;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;

/**
 * Has Kafka's own classes read, write, convert and validate message sets: a request per line, an answer per
 * line. Bytes are hex ("-" where there are none, "null" for null); an answer is "ok ..." or "error Class".
 *
 * read SET | down MAGIC FIRST SET | build MAGIC CODEC TYPE BASE TIME (OFFSET TIMESTAMP KEY VALUE)* |
 * append MAGIC BASE CODEC TYPE NOW COMPACTED SET
 */
public class MessageSets {
    private static final HexFormat HEX = HexFormat.of();
    private static long now;
    private static final Time TIME = (Time) Proxy.newProxyInstance(
        Time.class.getClassLoader(), new Class<?>[] {Time.class},
        (proxy, method, arguments) -> method.getName().equals("milliseconds") ? now : 0L);

    public static void main(String[] arguments) throws Exception {
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String answer;
            try {
                answer = "ok " + answer(line.split(" "));
            } catch (Throwable error) {
                Throwable cause = error;
                while (cause.getCause() != null && cause.getClass().getSimpleName().equals("RecordValidationException"))
                    cause = cause.getCause();
                if (cause.getClass().getSimpleName().equals("RecordValidationException"))
                    cause = (Throwable) cause.getClass().getMethod("invalidException").invoke(cause);
                answer = "error " + cause.getClass().getSimpleName();
            }
            System.out.println(answer);
            System.out.flush();
        }
    }

    private static String answer(String[] words) {
        switch (words[0]) {
            case "read":
                return read(MemoryRecords.readableRecords(buffer(words[1])));
            case "down":
                return hex(((MemoryRecords) MemoryRecords.readableRecords(buffer(words[3]))
                    .downConvert(Byte.parseByte(words[1]), Long.parseLong(words[2]), Time.SYSTEM).records()).buffer());
            case "build":
                return build(words);
            case "append":
                return append(words);
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static String read(MemoryRecords records) {
        StringBuilder out = new StringBuilder("-");
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                record.ensureValid();
                TimestampType type = batch.timestampType();
                if (record.hasTimestampType(TimestampType.CREATE_TIME)) type = TimestampType.CREATE_TIME;
                if (record.hasTimestampType(TimestampType.LOG_APPEND_TIME)) type = TimestampType.LOG_APPEND_TIME;
                if (record.hasTimestampType(TimestampType.NO_TIMESTAMP_TYPE)) type = TimestampType.NO_TIMESTAMP_TYPE;
                out.append(' ').append(record.offset()).append(',').append(record.timestamp()).append(',')
                    .append(type.id).append(',').append(field(record.key())).append(',').append(field(record.value()));
            }
        }
        return out.toString();
    }

    private static String build(String[] words) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1024), Byte.parseByte(words[1]),
            codec(words[2]), TimestampType.forName(words[3]), Long.parseLong(words[4]), Long.parseLong(words[5]));
        for (int i = 6; i < words.length; i += 4)
            builder.appendWithOffset(Long.parseLong(words[i]), Long.parseLong(words[i + 1]), buffer(words[i + 2]),
                buffer(words[i + 3]));
        return hex(builder.build().buffer());
    }

    private static String append(String[] words) {
        MemoryRecords records = MemoryRecords.readableRecords(buffer(words[7]));
        CompressionType source = CompressionType.NONE;
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            if (batch.isCompressed()) source = batch.compressionType();
        }
        Compression target = words[3].equals("producer") ? Compression.of(source).build() : codec(words[3]);
        now = Long.parseLong(words[5]);
        LogValidator validator = new LogValidator(records, new TopicPartition("t", 0), TIME, source, target,
            words[6].equals("1"), Byte.parseByte(words[1]), TimestampType.forName(words[4]), 1000L * 3600, 1000L * 3600,
            0, AppendOrigin.CLIENT, MetadataVersion.latestTesting());
        LogValidator.MetricsRecorder metrics = (LogValidator.MetricsRecorder) Proxy.newProxyInstance(
            MessageSets.class.getClassLoader(), new Class<?>[] {LogValidator.MetricsRecorder.class},
            (proxy, method, arguments) -> null);
        LogValidator.ValidationResult result = validator.validateMessagesAndAssignOffsets(
            PrimitiveRef.ofLong(Long.parseLong(words[2])), metrics, BufferSupplier.NO_CACHING);
        return hex(result.validatedRecords.buffer()) + " " + result.maxTimestampMs + " "
            + result.messageSizeMaybeChanged;
    }

    private static Compression codec(String name) {
        return Compression.of(CompressionType.forName(name)).build();
    }

    private static ByteBuffer buffer(String text) {
        return text.equals("null") ? null : ByteBuffer.wrap(text.equals("-") ? new byte[0] : HEX.parseHex(text));
    }

    private static String field(ByteBuffer buffer) {
        return buffer == null ? "null" : hex(buffer);
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes.length == 0 ? "-" : HEX.formatHex(bytes);
    }
}
