import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Kafka Streams counts words, exactly once: each record of the input is a word, and the output gets each count it comes
 * to. Arguments: bootstrap, application id, folder of state, input topic, output topic. It runs until it is killed.
 */
public class WordCount {
  public static void main(String[] args) throws Exception {
    Properties p = new Properties();
    p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
    p.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
    p.put(StreamsConfig.STATE_DIR_CONFIG, args[2]);
    p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    p.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
    p.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
    p.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "100");
    p.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0"); // so that no count is left out
    p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, "2");
    p.put("session.timeout.ms", "6000");
    p.put("auto.offset.reset", "earliest");

    StreamsBuilder builder = new StreamsBuilder();
    builder.<String, String>stream(args[3])
        .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
        .count()
        .toStream()
        .mapValues(String::valueOf)
        .to(args[4], Produced.with(Serdes.String(), Serdes.String()));
    KafkaStreams streams = new KafkaStreams(builder.build(), p);
    streams.setStateListener((now, before) -> {
      System.out.println(now);
      System.out.flush();
    });
    streams.start();
    Thread.currentThread().join();
  }
}
