import java.io.File;
import java.io.FileOutputStream;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** YARN with two nodes, all in this process; its settings are in the file that is named when both are there. */
public class MiniYarn {
    public static void main(String[] words) throws Exception {
        YarnConfiguration conf = new YarnConfiguration();
        conf.set("yarn.scheduler.minimum-allocation-mb", "128");
        conf.set("yarn.nodemanager.vmem-check-enabled", "false");
        conf.set("yarn.nodemanager.pmem-check-enabled", "false");
        conf.set("yarn.nodemanager.disk-health-checker.enable", "false");
        conf.set("yarn.scheduler.capacity.root.queues", "default");
        conf.set("yarn.scheduler.capacity.root.default.capacity", "100");
        conf.set("yarn.scheduler.capacity.root.default.maximum-am-resource-percent", "1.0");
        MiniYARNCluster cluster = new MiniYARNCluster("yarn", 2, 1, 1);
        cluster.init(conf);
        cluster.start();
        while (!cluster.waitForNodeManagersToConnect(5000)) {}
        File whole = new File(words[0]);
        File half = new File(words[0] + ".half");
        try (FileOutputStream out = new FileOutputStream(half)) {
            cluster.getConfig().writeXml(out);
        }
        half.renameTo(whole);
        Thread.sleep(Long.MAX_VALUE);
    }
}
