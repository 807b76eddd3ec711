import java.net.InetAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import java.util.function.Supplier;
import kafka.server.ClientQuotaManager;
import kafka.server.ClientRequestQuotaManager;
import kafka.server.ControllerMutationQuota;
import kafka.server.ControllerMutationQuotaManager;
import kafka.server.QuotaType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import scala.Option;

/** Asks Kafka's own quota managers (3.9): whose quota is whose, and for how long who is throttled. JSON lines. */
public class QuotaTables {
  static final String[][] CLIENTS = {
    {"alice", "app"}, {"alice", "other"}, {"bob", "app"}, {"bob", "other"}, {"alice", ""}, {"bob", ""}
  };
  /** Levels as they are asked, of alice and app; null where an entity has no such part. */
  static final String[][] LEVELS = {
    {"alice", "app"}, {"alice", "<default>"}, {"alice", null}, {"<default>", "app"},
    {"<default>", "<default>"}, {"<default>", null}, {null, "app"}, {null, "<default>"}
  };

  static class ManualTime implements Time {
    long now = 1_700_000_000_000L;

    public long milliseconds() {
      return now;
    }

    public long nanoseconds() {
      return now * 1_000_000;
    }

    public void sleep(long ms) {
      now += ms;
    }

    public void waitObject(Object object, Supplier<Boolean> condition, long deadline) {
      throw new UnsupportedOperationException();
    }
  }

  public static void main(String[] arguments) throws Exception {
    for (int present = 0; present < 256; present++) {
      precedence(present);
    }
    int[][] windows = {{11, 1}, {2, 1}, {5, 2}, {11, 1}, {3, 10}, {1, 1}};
    for (int seed = 0; seed < windows.length; seed++) {
      rates(seed, windows[seed], false);
      rates(100 + seed, windows[seed], true);
      mutations(200 + seed, windows[seed], true);
      mutations(300 + seed, windows[seed], false);
    }
    System.exit(0);
  }

  static Session session(String user) throws Exception {
    return new Session(new KafkaPrincipal(KafkaPrincipal.USER_TYPE, user), InetAddress.getLoopbackAddress());
  }

  static void set(ClientQuotaManager manager, String user, String client, double bound) {
    manager.updateQuota(
        Option.apply(user), Option.apply(client), Option.apply(client), Option.apply(Quota.upperBound(bound)));
  }

  static void precedence(int present) throws Exception {
    ClientQuotaManager manager = new ClientQuotaManager(
        new ClientQuotaManagerConfig(11, 1), new Metrics(), QuotaType.Produce$.MODULE$, new ManualTime(), "",
        Option.empty());
    for (int level = 0; level < LEVELS.length; level++) {
      if ((present & 1 << level) != 0) {
        set(manager, LEVELS[level][0], LEVELS[level][1], 1000 * (level + 1));
      }
    }
    List<String> found = new ArrayList<>();
    for (String[] client : CLIENTS) {
      scala.collection.immutable.Map<String, String> tags =
          manager.getOrCreateQuotaSensors(session(client[0]), client[1]).metricTags();
      double bound = manager.quota(client[0], client[1]).bound();
      found.add(String.format(Locale.ROOT, "[\"%s\",\"%s\",\"%s\",\"%s\",%s]", client[0], client[1],
          tags.apply("user"), tags.apply("client-id"), bound > 1e15 ? "null" : Long.toString((long) bound)));
    }
    System.out.println("{\"kind\":\"precedence\",\"present\":" + present + ",\"clients\":" + found + "}");
    manager.shutdown();
  }

  static void rates(int seed, int[] windows, boolean requests) throws Exception {
    Random random = new Random(seed);
    ManualTime time = new ManualTime();
    ClientQuotaManagerConfig config = new ClientQuotaManagerConfig(windows[0], windows[1]);
    ClientQuotaManager manager = requests
        ? new ClientRequestQuotaManager(config, new Metrics(), time, "", Option.empty())
        : new ClientQuotaManager(config, new Metrics(), QuotaType.Fetch$.MODULE$, time, "", Option.empty());
    double bound = requests ? 7.5 : 5000;
    set(manager, null, "app", bound);
    Session session = session("alice");
    long began = time.now;
    List<String> events = new ArrayList<>();
    for (int number = 0; number < 200; number++) {
      time.now += random.nextInt(10) == 0 ? random.nextInt(15_000) : random.nextInt(400);
      double value = requests ? random.nextInt(1000) / 100.0 : random.nextInt(10) == 0 ? 60_000 : random.nextInt(4000);
      int throttle = manager.recordAndGetThrottleTimeMs(session, "app", value, time.now);
      boolean undone = throttle > 0 && random.nextBoolean();
      if (undone) {
        manager.getOrCreateQuotaSensors(session, "app").quotaSensor().record(-value, time.now, false);
      }
      events.add("[" + (time.now - began) + "," + value + "," + throttle + "," + undone + "]");
    }
    System.out.println("{\"kind\":\"" + (requests ? "request" : "rate") + "\",\"windows\":[" + windows[0] + ","
        + windows[1] + "],\"bound\":" + bound + ",\"most_at_once\":"
        + manager.getMaxValueInQuotaWindow(session, "app") + ",\"events\":" + events + "}");
    manager.shutdown();
  }

  static void mutations(int seed, int[] windows, boolean strict) throws Exception {
    Random random = new Random(seed);
    ManualTime time = new ManualTime();
    ControllerMutationQuotaManager manager = new ControllerMutationQuotaManager(
        new ClientQuotaManagerConfig(windows[0], windows[1]), new Metrics(), time, "", Option.empty());
    double bound = 3;
    set(manager, "alice", null, bound);
    Session session = session("alice");
    long began = time.now;
    List<String> events = new ArrayList<>();
    for (int number = 0; number < 200; number++) {
      time.now += random.nextInt(10) == 0 ? random.nextInt(20_000) : random.nextInt(1500);
      ControllerMutationQuota quota =
          strict ? manager.newStrictQuotaFor(session, "app") : manager.newPermissiveQuotaFor(session, "app");
      int partitions = 1 + random.nextInt(12);
      boolean refused = false;
      try {
        quota.record(partitions);
      } catch (org.apache.kafka.common.errors.ThrottlingQuotaExceededException error) {
        refused = true;
      }
      int throttle = quota.throttleTime();
      int waited = random.nextInt(200);
      time.now += waited;
      events.add("[" + (time.now - waited - began) + "," + partitions + "," + throttle + "," + refused + "," + waited
          + "," + quota.throttleTime() + "]");
    }
    System.out.println("{\"kind\":\"" + (strict ? "strict" : "permissive") + "\",\"windows\":[" + windows[0] + ","
        + windows[1] + "],\"bound\":" + bound + ",\"events\":" + events + "}");
    manager.shutdown();
  }
}
