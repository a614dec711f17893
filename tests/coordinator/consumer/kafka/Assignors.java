import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineHashMap;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;

/**
 * Kafka's own assignors on groups from stdin, one JSON object a line; their targets go to stdout, one a line.
 * The first line out is the Java version.
 *
 * In:  {"assignor", "homogeneous", "newcomer", "topics": [[id, partitions, [[rack, ..], ..]], ..],
 *       "members": [[id, instance, rack, [topic index, ..], [[topic index, [partition, ..]], ..]], ..]}
 * Out: {member id: {topic index: [partition, ..]}}, or {"error": message}
 *
 * Members come in the order in which they joined. They go through the tables that a broker has them in.
 */
public class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        out.println(Runtime.version().feature());
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                assign(JSON.readTree(line), answer);
            } catch (RuntimeException failure) {
                answer.put("error", failure.toString());
            }
            out.println(answer);
        }
        out.flush();
    }

    private static void assign(JsonNode group, ObjectNode answer) throws Exception {
        List<Uuid> ids = new ArrayList<>();
        Map<Uuid, JsonNode> topics = new HashMap<>();
        for (JsonNode topic : group.get("topics")) {
            Uuid id = Uuid.fromString(topic.get(0).asText());
            ids.add(id);
            topics.put(id, topic);
        }
        TimelineHashMap<String, MemberSubscriptionAndAssignmentImpl> known = new TimelineHashMap<>(registry(), 0);
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        String newcomer = text(group.get("newcomer"));
        MemberSubscriptionAndAssignmentImpl last = null;
        for (JsonNode node : group.get("members")) {
            String memberId = node.get(0).asText();
            MemberSubscriptionAndAssignmentImpl member = member(node, ids);
            member.partitions().forEach((topic, partitions) -> partitions.forEach(partition ->
                owners.computeIfAbsent(topic, __ -> new HashMap<>()).put(partition, memberId)));
            if (memberId.equals(newcomer)) {
                last = member;
            } else {
                known.put(memberId, member);
            }
        }
        known.forEach(members::put);
        if (last != null) members.put(newcomer, last);

        GroupSpecImpl spec = new GroupSpecImpl(
            Collections.unmodifiableMap(members),
            group.get("homogeneous").asBoolean() ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS,
            owners);
        ConsumerGroupPartitionAssignor assignor =
            group.get("assignor").asText().equals("range") ? new RangeAssignor() : new UniformAssignor();
        GroupAssignment target = assignor.assign(spec, new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid id) {
                return topics.containsKey(id) ? topics.get(id).get(1).asInt() : -1;
            }

            @Override
            public Set<String> racksForPartition(Uuid id, int partition) {
                Set<String> racks = new TreeSet<>();
                for (JsonNode rack : topics.get(id).get(2).path(partition)) racks.add(rack.asText());
                return racks;
            }
        });
        target.members().forEach((memberId, assignment) -> {
            ObjectNode owned = answer.putObject(memberId);
            assignment.partitions().forEach((topic, partitions) -> {
                ArrayNode list = owned.putArray(String.valueOf(ids.indexOf(topic)));
                new TreeSet<>(partitions).forEach(list::add);
            });
        });
    }

    private static MemberSubscriptionAndAssignmentImpl member(JsonNode node, List<Uuid> ids) {
        Set<Uuid> subscribed = new LinkedHashSet<>();
        for (JsonNode topic : node.get(3)) subscribed.add(ids.get(topic.asInt()));
        List<ConsumerGroupTargetAssignmentMemberValue.TopicPartition> target = new ArrayList<>();
        for (JsonNode topic : node.get(4)) {
            List<Integer> partitions = new ArrayList<>();
            for (JsonNode partition : topic.get(1)) partitions.add(partition.asInt());
            target.add(new ConsumerGroupTargetAssignmentMemberValue.TopicPartition()
                .setTopicId(ids.get(topic.get(0).asInt())).setPartitions(partitions));
        }
        return new MemberSubscriptionAndAssignmentImpl(
            Optional.ofNullable(text(node.get(2))),
            Optional.ofNullable(text(node.get(1))),
            subscribed,
            // As a broker has it from its log.
            Assignment.fromRecord(new ConsumerGroupTargetAssignmentMemberValue().setTopicPartitions(target)));
    }

    /** Its constructor takes a LogContext, which lies in another package from 4.4 on. */
    private static SnapshotRegistry registry() throws Exception {
        Constructor<?> constructor = SnapshotRegistry.class.getConstructors()[0];
        Object context = constructor.getParameterTypes()[0].getConstructor().newInstance();
        return (SnapshotRegistry) constructor.newInstance(context);
    }

    private static String text(JsonNode node) {
        return node.isNull() ? null : node.asText();
    }
}
