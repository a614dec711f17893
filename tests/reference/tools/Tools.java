import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the mains of Kafka's tools one after the other in one JVM: a line of JSON in ({"class", "args", "stdin", "patience_ms", "until"}),
 * a line of JSON out ({"code", "out", "err"}).
 */
public class Tools {
    static final class Ended extends Error {
        final int code;

        Ended(int code) {
            super(null, null, false, false);
            this.code = code;
        }
    }

    static volatile Integer first;

    public static void main(String[] words) throws Exception {
        ObjectMapper json = new ObjectMapper();
        PrintStream answers = System.out;
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> {
            if (first == null) {
                // Some tools catch what is thrown here, and say that they have failed.
                first = code;
                System.out.flush();
                System.err.flush();
                System.setOut(new PrintStream(java.io.OutputStream.nullOutputStream()));
                System.setErr(new PrintStream(java.io.OutputStream.nullOutputStream()));
            }
            throw new Ended(code);
        });
        Exit.setHaltProcedure((code, message) -> {
            throw new Ended(code);
        });
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode asked = json.readTree(line);
            List<String> args = new ArrayList<>();
            asked.get("args").forEach(word -> args.add(word.asText()));
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            ByteArrayOutputStream err = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream(asked.path("stdin").asText("").getBytes(StandardCharsets.UTF_8)));
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            int[] code = {0};
            first = null;
            Thread worker = new Thread(() -> code[0] = run(asked.get("class").asText(), args));
            worker.setDaemon(true);
            worker.start();
            worker.join(asked.get("patience_ms").asLong());
            String until = asked.path("until").asText("");
            for (int i = 0; i < 200 && !out.toString(StandardCharsets.UTF_8).contains(until); i++) Thread.sleep(50);
            if (worker.isAlive()) {
                code[0] = -1;
                worker.interrupt();
            }
            if (first != null) code[0] = first;
            answers.println(json.writeValueAsString(
                Map.of("code", code[0], "out", out.toString(StandardCharsets.UTF_8), "err", err.toString(StandardCharsets.UTF_8))));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    static int run(String name, List<String> args) {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) args.toArray(new String[0]));
            return 0;
        } catch (InvocationTargetException thrown) {
            if (thrown.getCause() instanceof Ended) return ((Ended) thrown.getCause()).code;
            thrown.getCause().printStackTrace();
            return 1;
        } catch (Throwable thrown) {
            thrown.printStackTrace();
            return 1;
        }
    }
}
