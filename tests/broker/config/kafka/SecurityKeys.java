import java.lang.reflect.Field;
import java.util.TreeSet;
import org.apache.kafka.common.config.ConfigDef;

/** Prints the names of a broker's settings: those of KafkaConfig, and of the classes that belong to security. */
public class SecurityKeys {
    public static void main(String[] none) throws Exception {
        ConfigDef all = (ConfigDef) Class.forName("kafka.server.KafkaConfig").getMethod("configDef").invoke(null);
        TreeSet<String> names = new TreeSet<>(all.names());
        String places = "org.apache.kafka.common.config.";
        for (String name : new String[] {"SslConfigs", "SaslConfigs", "internals.BrokerSecurityConfigs"}) {
            for (Field field : Class.forName(places + name).getFields()) {
                if (field.getName().endsWith("_CONFIG") && field.getType() == String.class) {
                    names.add((String) field.get(null));
                }
            }
        }
        names.forEach(System.out::println);
    }
}
