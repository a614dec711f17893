import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Kafka's StandardAuthorizer, asked line by line; fields are separated by tabs, and types are numbers.
 *
 * <p>new SUPER_USERS ALLOW_EVERYONE; acl TYPE NAME PATTERN PRINCIPAL HOST OPERATION PERMISSION; ask PRINCIPAL HOST OPERATION
 * TYPE NAME; any PRINCIPAL HOST OPERATION TYPE. Each of the last two is answered with a line, ALLOWED or DENIED.
 */
public class Verdicts {
    record Context(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        static Context of(String principal, String host) throws Exception {
            String[] parts = principal.split(":", 2);
            return new Context(new KafkaPrincipal(parts[0], parts[1]), InetAddress.getByName(host));
        }

        @Override public String listenerName() { return "PLAINTEXT"; }
        @Override public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        @Override public int requestType() { return 0; }
        @Override public int requestVersion() { return 0; }
        @Override public String clientId() { return ""; }
        @Override public int correlationId() { return 0; }
    }

    static byte code(String text) {
        return Byte.parseByte(text);
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        StringBuilder answers = new StringBuilder();
        StandardAuthorizer authorizer = null;
        long count = 0;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            switch (words[0]) {
                case "new" -> {
                    authorizer = new StandardAuthorizer();
                    authorizer.configure(Map.of(
                        "super.users", words[1], "allow.everyone.if.no.acl.found", words[2], "node.id", "1"));
                    authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                    authorizer.completeInitialLoad();
                }
                case "acl" -> authorizer.addAcl(new Uuid(1, ++count), new StandardAcl(
                    ResourceType.fromCode(code(words[1])), words[2], PatternType.fromCode(code(words[3])), words[4],
                    words[5], AclOperation.fromCode(code(words[6])), AclPermissionType.fromCode(code(words[7]))));
                case "ask" -> {
                    ResourcePattern resource =
                        new ResourcePattern(ResourceType.fromCode(code(words[4])), words[5], PatternType.LITERAL);
                    Action action = new Action(AclOperation.fromCode(code(words[3])), resource, 1, false, false);
                    answers.append(authorizer.authorize(Context.of(words[1], words[2]), List.of(action)).get(0)).append('\n');
                }
                default -> answers.append(authorizer.authorizeByResourceType(Context.of(words[1], words[2]),
                    AclOperation.fromCode(code(words[3])), ResourceType.fromCode(code(words[4])))).append('\n');
            }
        }
        System.out.print(answers);
    }
}
