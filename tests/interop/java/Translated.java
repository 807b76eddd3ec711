// Where a group of another cluster goes on in this one, as MirrorMaker 2 has noted it in its checkpoints.
//
//     Translated BOOTSTRAP ALIAS GROUP        prints "topic-partition" → offset, as JSON

import java.time.Duration;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

public class Translated {
    public static void main(String[] words) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", words[0]);
        System.out.println(RemoteClusterUtils.translateOffsets(settings, words[1], words[2], Duration.ofSeconds(60))
                .entrySet().stream()
                .map(entry -> "\"" + entry.getKey() + "\": " + entry.getValue().offset())
                .collect(Collectors.joining(", ", "{", "}")));
    }
}
