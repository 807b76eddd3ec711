import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.security.PasswordEncoder;

/** Kafka's encoder of passwords in dynamic configs: SECRET CIPHER encode|decode TEXT, the texts in base64. */
public class Passwords {
    private static String text(String base64) {
        return new String(Base64.getDecoder().decode(base64), StandardCharsets.UTF_8);
    }

    public static void main(String[] words) throws Exception {
        var encoder = PasswordEncoder.encrypting(new Password(text(words[0])), null, words[1], 128, 4096);
        String result = words[2].equals("encode")
            ? encoder.encode(new Password(text(words[3])))
            : encoder.decode(text(words[3])).value();
        System.out.println(Base64.getEncoder().encodeToString(result.getBytes(StandardCharsets.UTF_8)));
    }
}
