import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the `main` of Kafka's tools one after another in one JVM, so that many calls pay for one start.
 *
 * A request is a line of words in Base64: standard input, seconds allowed, class, arguments. The answer is
 * a line: exit status, standard output, standard error, both in Base64. A tool that calls exit is held there
 * for good, in its daemon thread: its outputs are those of that moment.
 */
public class KafkaTools {
    private record Outcome(int status, byte[] out, byte[] err) { }

    private static final ByteArrayOutputStream OUT = new ByteArrayOutputStream();
    private static final ByteArrayOutputStream ERR = new ByteArrayOutputStream();
    private static volatile CompletableFuture<Outcome> current;

    public static void main(String[] words) throws Exception {
        PrintStream answers = System.out;
        // Scala's Console and the loggers keep the streams that they find first.
        System.setOut(new PrintStream(OUT, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(ERR, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((status, message) -> end(status));
        Exit.setHaltProcedure((status, message) -> end(status));
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] encoded = line.split(" ");
            String[] request = new String[encoded.length];
            for (int i = 0; i < encoded.length; i++) {
                // Each word has a mark in front, so that an empty one is a word, too.
                request[i] = new String(Base64.getDecoder().decode(encoded[i].substring(1)), StandardCharsets.UTF_8);
            }
            Outcome outcome = run(request);
            Base64.Encoder encoder = Base64.getEncoder();
            answers.println(outcome.status + " ." + encoder.encodeToString(outcome.out) + " ."
                + encoder.encodeToString(outcome.err));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private static Outcome run(String[] request) throws Exception {
        CompletableFuture<Outcome> outcome = new CompletableFuture<>();
        current = outcome;
        OUT.reset();
        ERR.reset();
        InputStream before = System.in;
        System.setIn(new ByteArrayInputStream(request[0].getBytes(StandardCharsets.UTF_8)));
        String[] arguments = java.util.Arrays.copyOfRange(request, 3, request.length);
        Thread thread = new Thread(() -> {
            try {
                Class.forName(request[2]).getMethod("main", String[].class).invoke(null, (Object) arguments);
                end(0, outcome);
            } catch (InvocationTargetException error) {
                error.getCause().printStackTrace();
                end(1, outcome);
            } catch (ReflectiveOperationException error) {
                error.printStackTrace();
                end(1, outcome);
            }
        });
        thread.setDaemon(true);
        thread.start();
        try {
            return outcome.get(Long.parseLong(request[1]), TimeUnit.SECONDS);
        } catch (TimeoutException late) {
            return new Outcome(-1, OUT.toByteArray(), ERR.toByteArray());
        } finally {
            System.setIn(before);
        }
    }

    private static void end(int status) {
        end(status, current);
        while (true) {
            LockSupport.park();
        }
    }

    private static void end(int status, CompletableFuture<Outcome> outcome) {
        System.out.flush();
        System.err.flush();
        outcome.complete(new Outcome(status, OUT.toByteArray(), ERR.toByteArray()));
    }
}
