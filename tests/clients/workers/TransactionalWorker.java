import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * A transactional producer that does what it is told, a line at a time, and answers each with one: `ok`, `fenced why`
 * or `failed why`. Its first line is `ok`, when it is there. `new BOOTSTRAP ID TIMEOUT_MS` makes the producer; `drop`
 * lets go of it in the middle of whatever it does, so that another one can be made.
 */
public class TransactionalWorker {
  static KafkaProducer<byte[], byte[]> producer;

  interface Act {
    void run() throws Exception;
  }

  static void answer(Act act) {
    try {
      act.run();
      System.out.println("ok");
    } catch (Throwable thrown) {
      Throwable why = thrown instanceof ExecutionException ? thrown.getCause() : thrown;
      boolean fenced = false;
      for (Throwable t = why; t != null; t = t.getCause())
        fenced |= t instanceof ProducerFencedException || t instanceof InvalidProducerEpochException;
      System.out.println((fenced ? "fenced " : "failed ") + String.valueOf(why).replace('\n', ' '));
    }
    System.out.flush();
  }

  static void act(String[] words) throws Exception {
    switch (words[0]) {
      case "new" -> make(words[1], words[2], words[3]);
      case "drop" -> drop();
      case "begin" -> producer.beginTransaction();
      case "commit" -> producer.commitTransaction();
      case "abort" -> producer.abortTransaction();
      case "send" -> producer.send(new ProducerRecord<>(words[1], Integer.parseInt(words[2]), null,
          words[3].getBytes(StandardCharsets.UTF_8))).get();
      case "offset" -> producer.sendOffsetsToTransaction(
          Map.of(new TopicPartition(words[2], 0), new OffsetAndMetadata(Long.parseLong(words[3]))),
          new ConsumerGroupMetadata(words[1]));
      default -> throw new IllegalArgumentException(words[0]);
    }
  }

  static void drop() {
    if (producer != null) producer.close(Duration.ZERO);
    producer = null;
  }

  static void make(String bootstrap, String id, String timeoutMs) {
    Properties p = new Properties();
    p.put("bootstrap.servers", bootstrap);
    p.put("transactional.id", id);
    p.put("transaction.timeout.ms", timeoutMs);
    p.put("key.serializer", ByteArraySerializer.class.getName());
    p.put("value.serializer", ByteArraySerializer.class.getName());
    p.put("max.block.ms", "30000");
    producer = new KafkaProducer<>(p);
    producer.initTransactions();
  }

  public static void main(String[] args) throws Exception {
    answer(() -> {});
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.split(" ");
      answer(() -> act(words));
    }
    System.exit(0);
  }
}
