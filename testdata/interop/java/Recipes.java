import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.curator.RetryPolicy;
import org.apache.curator.framework.*;
import org.apache.curator.framework.recipes.atomic.*;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.shared.*;
import org.apache.curator.retry.*;
import org.apache.curator.x.discovery.*;
import org.apache.curator.x.discovery.details.JsonInstanceSerializer;

/** Curator's recipes beside ours: see ../README.md. */
public class Recipes {
    public static void main(String[] a) throws Exception {
        CuratorFramework c = CuratorFrameworkFactory.newClient(a[1], 10000, 10000, new ExponentialBackoffRetry(100, 5));
        c.getConnectionStateListenable().addListener((x, state) -> System.err.println("connection " + state));
        c.start();
        String path = a[2];
        switch (a[0]) {
        case "count":
            count(c, path, a[3], Integer.parseInt(a[4]));
            say("done");
            break;
        case "member":
            try (GroupMember g = new GroupMember(c, path, a[3], ("of " + a[3]).getBytes(StandardCharsets.UTF_8))) {
                g.start();
                Map<String, byte[]> there = g.getCurrentMembers();
                while (there.size() < 2) {
                    Thread.sleep(20);
                    there = g.getCurrentMembers();
                }
                List<String> all = new ArrayList<>();
                there.forEach((id, data) -> all.add(id + " " + new String(data, StandardCharsets.UTF_8)));
                stay(all);
            }
            break;
        case "service":
            ServiceInstance<Map> in = ServiceInstance.<Map>builder().name("files").id(a[3]).address("10.0.0.1").port(Integer.parseInt(a[4])).payload(Map.of("zone", a[3])).build();
            try (ServiceDiscovery<Map> d = ServiceDiscoveryBuilder.builder(Map.class).client(c).basePath(path).serializer(new JsonInstanceSerializer<>(Map.class)).thisInstance(in).build()) {
                d.start();
                Collection<ServiceInstance<Map>> there = d.queryForInstances("files");
                while (there.size() < 2) {
                    Thread.sleep(20);
                    there = d.queryForInstances("files");
                }
                List<String> all = new ArrayList<>();
                for (ServiceInstance<Map> x : there) {
                    all.add(x.getId() + " " + x.getAddress() + " " + x.getPort() + " " + x.getPayload().get("zone"));
                }
                stay(all);
            }
            break;
        case "barrier":
            DistributedBarrier b = new DistributedBarrier(c, path);
            b.setBarrier();
            say("set");
            System.in.readAllBytes();
            b.removeBarrier();
            break;
        case "wait":
            new DistributedBarrier(c, path).waitOnBarrier();
            say("passed");
            break;
        default:
            throw new IllegalArgumentException(a[0]);
        }
        c.close();
    }

    static void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    static void stay(List<String> all) throws Exception {
        Collections.sort(all);
        say(String.join(", ", all));
        System.in.readAllBytes();
    }

    static void count(CuratorFramework c, String path, String format, int n) throws Exception {
        RetryPolicy again = new RetryNTimes(1000, 2);
        SharedCount shared = new SharedCount(c, path, 0);
        SharedValue text = new SharedValue(c, path, new byte[0]);
        if (format.equals("shared")) {
            shared.start();
        }
        if (format.equals("text")) {
            text.start();
        }
        for (int i = 0; i < n;) {
            boolean done;
            switch (format) {
            case "int32":
                done = new DistributedAtomicInteger(c, path, again).increment().succeeded();
                break;
            case "int64":
                done = new DistributedAtomicLong(c, path, again).increment().succeeded();
                break;
            case "shared":
                VersionedValue<Integer> was = shared.getVersionedValue();
                done = shared.trySetCount(was, was.getValue() + 1);
                break;
            default:
                VersionedValue<byte[]> old = text.getVersionedValue();
                byte[] longer = Arrays.copyOf(old.getValue(), old.getValue().length + 1);
                longer[longer.length - 1] = 'c';
                done = text.trySetValue(old, longer);
            }
            if (done) {
                i++;
            } else {
                Thread.sleep(1); // who was refused is told of the newer value in the background
            }
        }
        shared.close();
        text.close();
    }
}
