// Spring Kafka passes on from `in` to `out`, in capitals, until SIGTERM.
//
//     SpringCapitals BOOTSTRAP

import java.util.Map;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.util.backoff.FixedBackOff;

@Configuration(proxyBeanMethods = false)
@EnableKafka
public class SpringCapitals {
    public static class Capitals {
        private final KafkaTemplate<String, String> out;

        Capitals(KafkaTemplate<String, String> out) {
            this.out = out;
        }

        @KafkaListener(topics = "in", groupId = "capitals")
        public void take(String value) throws Exception {
            out.send("out", value.toUpperCase()).get();
        }
    }

    @Bean
    Capitals capitals(KafkaTemplate<String, String> out) {
        return new Capitals(out);
    }

    @Bean
    KafkaTemplate<String, String> out(String bootstrap) {
        return new KafkaTemplate<>(new DefaultKafkaProducerFactory<>(Map.of(
                "bootstrap.servers", bootstrap,
                "acks", "all",
                "key.serializer", StringSerializer.class,
                "value.serializer", StringSerializer.class)));
    }

    @Bean
    ConcurrentKafkaListenerContainerFactory<String, String> kafkaListenerContainerFactory(String bootstrap) {
        var factory = new ConcurrentKafkaListenerContainerFactory<String, String>();
        factory.setConsumerFactory(new DefaultKafkaConsumerFactory<>(Map.of(
                "bootstrap.servers", bootstrap,
                "auto.offset.reset", "earliest",
                "key.deserializer", StringDeserializer.class,
                "value.deserializer", StringDeserializer.class)));
        // What could not be passed on is read again; by itself it would be left out after ten times.
        FixedBackOff always = new FixedBackOff(100, FixedBackOff.UNLIMITED_ATTEMPTS);
        factory.setCommonErrorHandler(new DefaultErrorHandler(always));
        return factory;
    }

    public static void main(String[] words) {
        var context = new AnnotationConfigApplicationContext();
        context.registerBean("bootstrap", String.class, () -> words[0]);
        context.register(SpringCapitals.class);
        context.registerShutdownHook();
        context.refresh();
    }
}
