import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The Java client as a scripted client: the events and commands of common.py. */
public class JavaWorker {
  static final int PARTITIONS = 6;
  static final long FIRST_TIMESTAMP_MS = 1_700_000_000_000L;
  static final ObjectMapper JSON = new ObjectMapper();
  static final Map<String, String> ASSIGNORS = Map.of(
      "range", "org.apache.kafka.clients.consumer.RangeAssignor",
      "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
      "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
      "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

  static JsonNode options;
  static volatile boolean leaving;
  static volatile boolean stalling;

  static void emit(String event, Object... facts) throws Exception {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("event", event);
    line.put("t", System.nanoTime()); // CLOCK_MONOTONIC, as Python's time.monotonic_ns
    for (int i = 0; i < facts.length; i += 2) line.put((String) facts[i], facts[i + 1]);
    synchronized (System.out) {
      System.out.println(JSON.writeValueAsString(line));
      System.out.flush();
    }
  }

  static Properties common() {
    Properties p = new Properties();
    p.put("bootstrap.servers", options.get("bootstrap").asText());
    p.put("key.deserializer", ByteArrayDeserializer.class.getName());
    p.put("value.deserializer", ByteArrayDeserializer.class.getName());
    p.put("key.serializer", ByteArraySerializer.class.getName());
    p.put("value.serializer", ByteArraySerializer.class.getName());
    p.put("reconnect.backoff.max.ms", "1000");
    return p;
  }

  /** A consumer in a group that commits what it has read. */
  static class Group implements ConsumerRebalanceListener {
    final String topic = options.get("topic").asText();
    final long commitEveryMs = options.get("commit_every_ms").asLong();
    final Map<TopicPartition, OffsetAndMetadata> position = new LinkedHashMap<>();
    final KafkaConsumer<byte[], byte[]> consumer;

    Group() {
      Properties p = common();
      long session = options.get("session_timeout_ms").asLong();
      p.put("client.id", options.get("client_id").asText());
      p.put("group.id", options.get("group").asText());
      if (options.hasNonNull("instance_id")) p.put("group.instance.id", options.get("instance_id").asText());
      if (options.get("assignor").asText().equals("consumer")) {
        p.put("group.protocol", "consumer"); // the broker says the rest
      } else {
        p.put("partition.assignment.strategy", ASSIGNORS.get(options.get("assignor").asText()));
        p.put("session.timeout.ms", Long.toString(session));
        p.put("heartbeat.interval.ms", Long.toString(session / 6));
      }
      p.put("max.poll.interval.ms", options.get("rebalance_timeout_ms").asText());
      p.put("enable.auto.commit", "false");
      p.put("auto.offset.reset", "earliest");
      p.put("metadata.max.age.ms", "1000");
      p.put("fetch.max.wait.ms", "100");
      consumer = new KafkaConsumer<>(p);
    }

    static List<Integer> numbers(Collection<TopicPartition> partitions) {
      return partitions.stream().map(TopicPartition::partition).sorted().toList();
    }

    @Override public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
      try {
        commit();
        position.keySet().removeAll(revoked);
        emit("revoked", "partitions", numbers(revoked));
      } catch (Exception e) { throw new KafkaException(e); }
    }

    @Override public void onPartitionsLost(Collection<TopicPartition> lost) {
      try {
        position.keySet().removeAll(lost);
        emit("revoked", "partitions", numbers(lost), "lost", true);
      } catch (Exception e) { throw new KafkaException(e); }
    }

    @Override public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
      try {
        emit("assigned", "partitions", numbers(assigned),
            "generation", consumer.groupMetadata().generationId(), "member_id", consumer.groupMetadata().memberId());
      } catch (Exception e) { throw new KafkaException(e); }
    }

    void commit() throws Exception {
      if (position.isEmpty()) return;
      Map<TopicPartition, OffsetAndMetadata> offsets = new LinkedHashMap<>(position);
      position.clear();
      Map<String, Long> shown = new TreeMap<>();
      offsets.forEach((tp, o) -> shown.put(Integer.toString(tp.partition()), o.offset()));
      emit("committing", "offsets", shown);
      try {
        consumer.commitSync(offsets);
        emit("committed", "offsets", shown);
      } catch (KafkaException e) {
        emit("commit_failed", "offsets", shown, "error", e.getClass().getSimpleName());
        // Refused while the group rebalances: what is still owned is committed next time, else it never would be.
        offsets.forEach(position::putIfAbsent);
      }
    }

    /** Clients before Kafka 4.0 have no such class, and compile without it. */
    void subscribeByPattern(String regex) throws Exception {
      Class<?> pattern = Class.forName("org.apache.kafka.clients.consumer.SubscriptionPattern");
      KafkaConsumer.class
          .getMethod("subscribe", pattern, ConsumerRebalanceListener.class)
          .invoke(consumer, pattern.getConstructor(String.class).newInstance(regex), this);
    }

    void run() throws Exception {
      if (options.path("regex").asBoolean()) subscribeByPattern("^" + topic + "$");
      else consumer.subscribe(List.of(topic), this);
      long commitAt = System.nanoTime() + commitEveryMs * 1_000_000;
      while (!leaving) {
        if (stalling) {
          stalling = false;
          emit("stalls");
          Thread.sleep(options.get("stall_ms").asLong());
        }
        ConsumerRecords<byte[], byte[]> records;
        try {
          records = consumer.poll(Duration.ofMillis(50));
        } catch (KafkaException e) {
          emit("fatal", "error", e.getClass().getSimpleName());
          break;
        }
        for (TopicPartition tp : records.partitions()) {
          long first = -1, last = -1;
          for (ConsumerRecord<byte[], byte[]> r : records.records(tp)) {
            if (first >= 0 && r.offset() != last + 1) {
              emit("read", "partition", tp.partition(), "first", first, "last", last);
              first = -1;
            }
            if (first < 0) first = r.offset();
            last = r.offset();
          }
          emit("read", "partition", tp.partition(), "first", first, "last", last);
          position.put(tp, new OffsetAndMetadata(last + 1));
        }
        if (System.nanoTime() >= commitAt) {
          commit();
          commitAt = System.nanoTime() + commitEveryMs * 1_000_000;
        }
      }
      commit();
      consumer.close();
      emit("left");
    }
  }

  static byte[] bytes(String s) { return s.getBytes(StandardCharsets.UTF_8); }

  static ProducerRecord<byte[], byte[]> record(String topic, int i) {
    byte[] key = i % 7 == 0 ? null : bytes("key-" + i);
    int size = (int) ((i * 37L) % 300);
    byte[] value = i % 101 == 0 && key != null ? null : bytes(("value-" + i + " ").repeat(size / 8 + 1).substring(0, size));
    List<Header> headers = i % 5 == 0
        ? List.of(new RecordHeader("n", bytes(Integer.toString(i))), new RecordHeader("empty", new byte[0])) : List.of();
    return new ProducerRecord<>(topic, i % PARTITIONS, FIRST_TIMESTAMP_MS + i, key, value, headers);
  }

  /** Write the records to each topic, with the codec that belongs to it. */
  static void produce() throws Exception {
    int count = options.get("count").asInt();
    for (Map.Entry<String, JsonNode> topic : options.get("topics").properties()) {
      Properties p = common();
      p.put("compression.type", topic.getValue().asText());
      p.put("linger.ms", "5");
      try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p)) {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (int i = 0; i < count; i++) sent.add(producer.send(record(topic.getKey(), i)));
        for (Future<RecordMetadata> f : sent) f.get();
      }
      emit("produced", "topic", topic.getKey(), "count", count);
    }
  }

  static void add(MessageDigest digest, byte[] piece) {
    digest.update(ByteBuffer.allocate(4).putInt(piece == null ? -1 : piece.length).array());
    if (piece != null) digest.update(piece);
  }

  /** Read each topic from the start, as many records as there should be, and print digests. */
  static void read() throws Exception {
    for (Map.Entry<String, JsonNode> topic : options.get("topics").properties()) {
      Properties p = common();
      p.put("enable.auto.commit", "false");
      p.put("auto.offset.reset", "earliest");
      p.put("max.poll.records", "5000");
      MessageDigest[] digests = new MessageDigest[PARTITIONS];
      int[] counts = new int[PARTITIONS];
      List<TopicPartition> partitions = new ArrayList<>();
      for (int i = 0; i < PARTITIONS; i++) {
        digests[i] = MessageDigest.getInstance("SHA-256");
        partitions.add(new TopicPartition(topic.getKey(), i));
      }
      try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(p)) {
        consumer.assign(partitions);
        for (int left = options.get("count").asInt(); left > 0; ) {
          for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofSeconds(1))) {
            MessageDigest d = digests[r.partition()];
            d.update(ByteBuffer.allocate(8).putLong(r.timestamp()).array());
            add(d, r.key());
            add(d, r.value());
            int headers = 0;
            for (Header h : r.headers()) {
              add(d, bytes(h.key()));
              add(d, h.value());
              headers++;
            }
            d.update(ByteBuffer.allocate(4).putInt(headers).array());
            counts[r.partition()]++;
            left--;
          }
        }
      }
      Map<String, Object> shown = new TreeMap<>();
      for (int i = 0; i < PARTITIONS; i++)
        shown.put(Integer.toString(i), List.of(counts[i], HexFormat.of().formatHex(digests[i].digest())));
      emit("digest", "topic", topic.getKey(), "partitions", shown);
    }
  }

  public static void main(String[] args) throws Exception {
    options = JSON.readTree(args[0]);
    switch (options.get("mode").asText()) {
      case "group" -> {
        Thread commands = new Thread(() -> {
          BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
          try { while ("stall".equals(lines.readLine())) stalling = true; } catch (Exception e) { /* leave */ }
          leaving = true;
        });
        commands.setDaemon(true);
        commands.start();
        new Group().run();
      }
      case "produce" -> produce();
      case "read" -> read();
      default -> throw new IllegalArgumentException(args[0]);
    }
  }
}
