import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The Java producer writes a record for each line that it reads, and tells what came of it. A line names the producer
 *  that is to do it, and has its settings; behind the first record of each a consumer reads one. */
public class JavaSay {
  static final ObjectMapper JSON = new ObjectMapper();
  static final Map<String, KafkaProducer<byte[], byte[]>> PRODUCERS = new HashMap<>();

  static Properties settings(JsonNode asked) {
    Properties p = new Properties();
    p.put("key.deserializer", ByteArrayDeserializer.class.getName());
    p.put("value.deserializer", ByteArrayDeserializer.class.getName());
    p.put("key.serializer", ByteArraySerializer.class.getName());
    p.put("value.serializer", ByteArraySerializer.class.getName());
    asked.get("settings").properties().forEach(one -> p.put(one.getKey(), one.getValue().asText()));
    if (p.containsKey("sasl.oauthbearer.token.endpoint.url"))
      System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", p.getProperty("sasl.oauthbearer.token.endpoint.url"));
    return p;
  }

  static void read(JsonNode asked, String topic) {
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings(asked))) {
      TopicPartition partition = new TopicPartition(topic, 0);
      consumer.assign(List.of(partition));
      consumer.seekToBeginning(List.of(partition));
      for (int tries = 0; tries < 50; tries++)
        if (!consumer.poll(Duration.ofMillis(200)).isEmpty()) return;
      throw new IllegalStateException("nothing to read");
    }
  }

  static Map<String, String> say(JsonNode asked) throws Exception {
    try {
      String name = asked.get("name").asText();
      String topic = asked.get("topic").asText();
      boolean first = !PRODUCERS.containsKey(name);
      if (first) PRODUCERS.put(name, new KafkaProducer<>(settings(asked)));
      PRODUCERS.get(name).send(new ProducerRecord<>(topic, "word".getBytes(StandardCharsets.UTF_8))).get();
      if (first) read(asked, topic);
      return Map.of("event", "said");
    } catch (Exception e) {
      Throwable why = e instanceof ExecutionException ? e.getCause() : e;
      return Map.of("event", "refused", "error", why.toString());
    }
  }

  public static void main(String[] args) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      System.out.println(JSON.writeValueAsString(say(JSON.readTree(line))));
      System.out.flush();
    }
    System.exit(0);
  }
}
