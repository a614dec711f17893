import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.CheckpointingOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.ExternalizedCheckpointRetention;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.configuration.StateRecoveryOptions;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Flink in one process copies a topic to another, exactly once, and goes on from its newest checkpoint when it is started
 * again. Arguments: bootstrap, folder of checkpoints, input topic, output topic, how the sink names its transactions, the
 * delivery guarantee, after how many records the job fails once. It runs until it is killed.
 */
public class CopyOnFlink {
  private static final AtomicInteger seen = new AtomicInteger();

  public static void main(String[] args) throws Exception {
    Path checkpoints = Path.of(args[1]);
    int failAfter = Integer.parseInt(args[6]);
    Configuration c = new Configuration();
    c.set(CheckpointingOptions.CHECKPOINTS_DIRECTORY, checkpoints.toUri().toString());
    c.set(CheckpointingOptions.MAX_RETAINED_CHECKPOINTS, 3);
    c.set(CheckpointingOptions.EXTERNALIZED_CHECKPOINT_RETENTION, ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION);
    c.set(RestartStrategyOptions.RESTART_STRATEGY, "fixed-delay");
    c.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_ATTEMPTS, Integer.MAX_VALUE);
    c.set(RestartStrategyOptions.RESTART_STRATEGY_FIXED_DELAY_DELAY, Duration.ofMillis(200));
    newest(checkpoints).ifPresent(path -> c.set(StateRecoveryOptions.SAVEPOINT_PATH, path.toUri().toString()));

    StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment(c);
    env.setParallelism(2);
    env.enableCheckpointing(200);
    KafkaSource<String> source = KafkaSource.<String>builder()
        .setBootstrapServers(args[0])
        .setTopics(args[2])
        .setGroupId("flink")
        .setStartingOffsets(OffsetsInitializer.earliest())
        .setValueOnlyDeserializer(new SimpleStringSchema())
        .build();
    KafkaSink<String> sink = KafkaSink.<String>builder()
        .setBootstrapServers(args[0])
        .setRecordSerializer(KafkaRecordSerializationSchema.builder()
            .setTopic(args[3])
            .setValueSerializationSchema(new SimpleStringSchema())
            .build())
        .setDeliveryGuarantee(DeliveryGuarantee.valueOf(args[5]))
        .setTransactionalIdPrefix("flink")
        .setTransactionNamingStrategy(TransactionNamingStrategy.valueOf(args[4]))
        .setProperty("transaction.timeout.ms", "60000")
        .build();
    env.fromSource(source, WatermarkStrategy.noWatermarks(), "in").map(value -> {
      if (seen.incrementAndGet() == failAfter) {
        throw new IllegalStateException("planted");
      }
      return value;
    }).sinkTo(sink);
    env.execute();
  }

  /** The checkpoint that was completed last, of whichever run. */
  private static Optional<Path> newest(Path checkpoints) throws IOException {
    if (!Files.exists(checkpoints)) {
      return Optional.empty();
    }
    try (Stream<Path> files = Files.walk(checkpoints)) {
      return files.filter(file -> file.endsWith("_metadata"))
          .max(Comparator.comparingLong(file -> file.toFile().lastModified()))
          .map(Path::getParent);
    }
  }
}
