import java.lang.reflect.Field;
import java.lang.reflect.Method;
import org.apache.kafka.common.config.ConfigDef;

/** Prints Kafka's own tables of broker and topic configs (from 4.0 on), a JSON object per line, in their order. */
public class ConfigTables {
  public static void main(String[] arguments) throws Exception {
    Field broker = Class.forName("org.apache.kafka.server.config.AbstractKafkaConfig").getDeclaredField("CONFIG_DEF");
    broker.setAccessible(true);
    print("broker", (ConfigDef) broker.get(null));
    Method topic = Class.forName("org.apache.kafka.storage.internals.log.LogConfig").getDeclaredMethod("configDefCopy");
    topic.setAccessible(true);
    print("topic", (ConfigDef) topic.invoke(null));
  }

  static void print(String kind, ConfigDef table) {
    for (ConfigDef.ConfigKey key : table.configKeys().values()) {
      Object fallback = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null;
      System.out.println("{\"kind\":" + quoted(kind) + ",\"name\":" + quoted(key.name) + ",\"type\":" + quoted(key.type)
          + ",\"default\":" + quoted(fallback) + ",\"importance\":" + quoted(key.importance)
          + ",\"validator\":" + quoted(key.validator) + ",\"internal\":" + key.internalConfig + "}");
    }
  }

  static String quoted(Object value) {
    return value == null ? "null" : "\"" + value.toString().replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
  }
}
